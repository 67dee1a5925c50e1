//! Node selectors and node affinity.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`: `PreFilter`, `Filter`,
//!   `Score`, `NormalizeScore`, `isSchedulableAfterNodeChange`

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use crate::framework::{
    Better, ClusterEvent, Cycle, NodeScore, Plugin, PreFilter, PreScore, QueuedPod, QueueingHint,
    Rejected, scale,
};
use crate::node_affinity::{matches_required, node_affinity, required, term_matches};
use crate::snapshot::node_info::NodeInfo;

/// Rejects nodes that the pod does not select, and prefers those that it prefers.
#[derive(Clone, Copy, Debug)]
pub struct NodeAffinity;

/// The names that a term chooses, if it chooses nodes by their names.
fn names(term: &NodeSelectorTerm) -> Option<BTreeSet<String>> {
    let fields = term.match_fields.iter().flatten();
    let by_name = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    let sets = by_name.map(|field| field.values.iter().flatten().cloned().collect());
    sets.reduce(|all: BTreeSet<String>, one| all.intersection(&one).cloned().collect())
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let own = matches!(event, ClusterEvent::PodUpdated { .. });
        let node = event.node();
        (own || node.is_some_and(|node| matches_required(&pod.pod, node))).into()
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        let pod = &cycle.pod.pod;
        let selector = pod
            .spec
            .iter()
            .flat_map(|spec| &spec.node_selector)
            .flatten();
        let Some(required) = required(pod) else {
            return Ok(match selector.count() {
                0 => PreFilter::Skip,
                _ => PreFilter::AllNodes,
            });
        };
        // One term is enough, so only if each names nodes others need no look.
        let terms = required.node_selector_terms.iter();
        let Some(names) = terms.map(names).collect::<Option<Vec<_>>>() else {
            return Ok(PreFilter::AllNodes);
        };
        let names: BTreeSet<String> = names.into_iter().flatten().collect();
        match names.is_empty() {
            true => Err(Rejected::unresolvable("pod affinity terms conflict")),
            false => Ok(PreFilter::Only(names)),
        }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        match matches_required(&cycle.pod.pod, &node.node) {
            true => Ok(()),
            false => Err(Rejected::unresolvable(
                "node(s) didn't match Pod's node affinity/selector",
            )),
        }
    }

    fn pre_score(&self, cycle: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        let affinity = node_affinity(&cycle.pod.pod);
        let preferred = affinity.and_then(|a| {
            a.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        });
        match preferred.is_some_and(|terms| !terms.is_empty()) {
            true => PreScore::Score,
            false => PreScore::Skip,
        }
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let affinity = node_affinity(&cycle.pod.pod).into_iter();
        let terms = affinity
            .flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution)
            .flatten();
        let met = terms.filter(|term| term_matches(&term.preference, &node.node));
        met.map(|term| i64::from(term.weight)).sum()
    }

    fn normalize_scores(&self, _: &Cycle<'_>, scores: &mut [NodeScore<'_>]) {
        scale(scores, Better::More);
    }
}
