//! Numbers by topology domain.

use std::sync::Arc;

use crate::snapshot::Snapshot;
use crate::snapshot::domains::Domains;
use crate::snapshot::node_info::NodeId;

/// A number for each domain of some labels.
#[derive(Clone, Default)]
pub(super) struct Counts {
    // Terms name a few labels.
    by_key: Vec<OfKey>,
}

#[derive(Clone)]
struct OfKey {
    key: String,
    domains: Arc<Domains>,
    counts: Vec<i64>,
}

impl Counts {
    /// Adds the numbers of these nodes to their domains.
    pub(super) fn add(
        &mut self,
        snapshot: &Snapshot,
        key: &str,
        nodes: impl Iterator<Item = (NodeId, i64)>,
    ) {
        let place = match self.by_key.iter().position(|one| one.key == key) {
            Some(place) => place,
            None => {
                let domains = snapshot.domains(key);
                self.by_key.push(OfKey {
                    key: key.to_owned(),
                    counts: vec![0; domains.len()],
                    domains,
                });
                self.by_key.len() - 1
            }
        };
        let one = &mut self.by_key[place];
        for (node, count) in nodes {
            if let Some(domain) = one.domains.of_node(node) {
                one.counts[domain] += count;
            }
        }
    }

    /// Whether all numbers are zero.
    pub(super) fn is_empty(&self) -> bool {
        let mut counts = self.by_key.iter().flat_map(|one| &one.counts);
        counts.all(|count| *count == 0)
    }

    /// Whether nothing was ever added.
    pub(super) fn is_untouched(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The number of the node's domain; `None` if it has not the label.
    pub(super) fn at(&self, snapshot: &Snapshot, key: &str, node: NodeId) -> Option<i64> {
        match self.by_key.iter().find(|one| one.key == key) {
            Some(one) => Some(one.counts[one.domains.of_node(node)?]),
            None => snapshot.domains(key).of_node(node).map(|_| 0),
        }
    }

    /// Whether any of the node's domains has a number above zero.
    pub(super) fn any_at(&self, node: NodeId) -> bool {
        self.at_node(node).any(|count| count > 0)
    }

    /// The sum over the node's domains.
    pub(super) fn sum_at(&self, node: NodeId) -> i64 {
        self.at_node(node).sum()
    }

    fn at_node(&self, node: NodeId) -> impl Iterator<Item = i64> {
        let counts = self.by_key.iter();
        counts.filter_map(move |one| Some(one.counts[one.domains.of_node(node)?]))
    }
}
