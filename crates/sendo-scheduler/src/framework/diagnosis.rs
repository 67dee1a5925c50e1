//! Why a pod fits no node, in Kubernetes' words.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/types.go`: `Diagnosis`, `FitError`, `Error`

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::status::{Code, Reason, Rejected};
use crate::snapshot::node_info::NodeId;

/// What the filters said of each node.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// The nodes that were rejected, and why.
    pub rejected: Vec<(NodeId, Rejected)>,
    /// What holds for the nodes that are not among these.
    pub others: Option<Rejected>,
    /// Why the pod was rejected before any node was looked at.
    pub before_filters: Option<String>,
    /// What became of the attempt to help it.
    pub post_filter: String,
    /// The plugins that rejected it or one of its nodes.
    pub plugins: BTreeSet<&'static str>,
}

impl Diagnosis {
    /// Notes that a node was rejected.
    pub fn reject(&mut self, node: NodeId, rejected: Rejected) {
        self.plugins.insert(rejected.plugin);
        self.rejected.push((node, rejected));
    }

    /// What was said of each node that other pods' making way may help with.
    pub fn resolvable(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.rejected.iter();
        let nodes = nodes.filter(|(_, rejected)| rejected.code == Code::Unschedulable);
        nodes.map(|(node, _)| *node)
    }

    /// What was said of a node.
    pub fn of_node(&self, node: NodeId) -> Option<&Rejected> {
        let mut nodes = self.rejected.iter();
        let found = nodes.find(|(known, _)| *known == node);
        found.map(|(_, rejected)| rejected).or(self.others.as_ref())
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available:", self.nodes)?;
        if let Some(message) = &self.before_filters {
            write!(f, " {message}.")?;
        } else {
            let mut reasons = BTreeMap::<&Reason, usize>::new();
            for reason in self.rejected.iter().flat_map(|(_, r)| &r.reasons) {
                *reasons.entry(reason).or_default() += 1;
            }
            let others = self.nodes.saturating_sub(self.rejected.len());
            for reason in self.others.iter().flat_map(|r| &r.reasons) {
                if others > 0 {
                    *reasons.entry(reason).or_default() += others;
                }
            }
            let reasons = reasons.iter();
            let mut lines: Vec<_> = reasons.map(|(r, count)| format!("{count} {r}")).collect();
            lines.sort();
            if !lines.is_empty() {
                write!(f, " {}.", lines.join(", "))?;
            }
        }
        match self.post_filter.as_str() {
            "" => Ok(()),
            message => write!(f, " {message}"),
        }
    }
}
