//! Whether a node has what a pod requests, and how much it would have left.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/noderesources/fit.go`: `Filter`, `fitsRequest`,
//!   `isSchedulableAfterPodEvent`, `isSchedulableAfterNodeChange`
//! - `pkg/scheduler/framework/plugins/noderesources/least_allocated.go`: `leastResourceScorer`,
//!   `leastRequestedScore`

use std::borrow::Cow;

use crate::framework::{
    ClusterEvent, Code, Cycle, MAX_NODE_SCORE, Plugin, PreScore, QueuedPod, QueueingHint, Reason,
    Rejected,
};
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::resource::{Resource, pod_requests};

/// Rejects nodes that have too little of what the pod requests, and prefers those that would
/// have the most left.
#[derive(Clone, Copy, Debug)]
pub struct NodeResourcesFit;

/// What a node has too little of, and whether it would have too little if it were empty.
fn missing(request: &Resource, node: &NodeInfo) -> Vec<(Reason, bool)> {
    let mut missing: Vec<(Reason, bool)> = Vec::new();
    if node.pods.len() + 1 > node.allowed_pods {
        missing.push((Cow::Borrowed("Too many pods"), false));
    }
    let (has, used) = (&node.allocatable, &node.requested);
    let mut check = |reason: Reason, wanted: i64, has: i64, used: i64| {
        if wanted > 0 && wanted > has - used {
            missing.push((reason, wanted > has));
        }
    };
    let cpu = Cow::Borrowed("Insufficient cpu");
    check(cpu, request.milli_cpu, has.milli_cpu, used.milli_cpu);
    let memory = Cow::Borrowed("Insufficient memory");
    check(memory, request.memory, has.memory, used.memory);
    let storage = Cow::Borrowed("Insufficient ephemeral-storage");
    let wanted = request.ephemeral_storage;
    check(
        storage,
        wanted,
        has.ephemeral_storage,
        used.ephemeral_storage,
    );
    for (name, wanted) in &request.scalar {
        let reason = Cow::Owned(format!("Insufficient {name}"));
        check(reason, *wanted, has.get(name), used.get(name));
    }
    missing
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let wanted = &pod.info.requests;
        match event {
            // A place among the pods of its node is freed by each.
            ClusterEvent::AssignedPodDeleted(_) | ClusterEvent::PodUpdated { .. } => {
                QueueingHint::Queue
            }
            ClusterEvent::AssignedPodUpdated { old, new } => {
                let (old, new) = (pod_requests(old), pod_requests(new));
                let less = |name: &str| wanted.get(name) > 0 && new.get(name) < old.get(name);
                let names = wanted.scalar.keys().map(String::as_str);
                let mut names = names.chain(["cpu", "memory", "ephemeral-storage"]);
                names.any(less).into()
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeUpdated { new: node, .. } => {
                let empty = NodeInfo::new(std::sync::Arc::new((*node).clone()));
                missing(wanted, &empty).is_empty().into()
            }
            _ => QueueingHint::Skip,
        }
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let missing = missing(&cycle.pod.info.requests, node);
        if missing.is_empty() {
            return Ok(());
        }
        let code = match missing.iter().any(|(_, unresolvable)| *unresolvable) {
            true => Code::UnschedulableAndUnresolvable,
            false => Code::Unschedulable,
        };
        Err(Rejected {
            code,
            reasons: missing.into_iter().map(|(reason, _)| reason).collect(),
            plugin: "",
        })
    }

    fn pre_score(&self, _: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        PreScore::Score
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let pod = &cycle.pod.info;
        let amounts = [
            (
                node.allocatable.milli_cpu,
                node.scored_milli_cpu + pod.scored_milli_cpu,
            ),
            (
                node.allocatable.memory,
                node.scored_memory + pod.scored_memory,
            ),
        ];
        let (mut sum, mut counted) = (0, 0);
        for (capacity, requested) in amounts.into_iter().filter(|(capacity, _)| *capacity > 0) {
            counted += 1;
            if requested <= capacity {
                let free = i128::from(capacity - requested) * i128::from(MAX_NODE_SCORE);
                sum += (free / i128::from(capacity)) as i64;
            }
        }
        match counted {
            0 => 0,
            counted => sum / counted,
        }
    }
}
