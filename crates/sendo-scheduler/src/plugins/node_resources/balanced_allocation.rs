//! Whether CPU and memory of a node are requested to the same degree.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`: `PreScore`,
//!   `balancedResourceScorer`, `balancedResourceScore`

use crate::framework::{Cycle, MAX_NODE_SCORE, Plugin, PreScore};
use crate::snapshot::node_info::NodeInfo;

/// Prefers nodes whose CPU and memory are requested more evenly with the pod than without it.
#[derive(Clone, Copy, Debug)]
pub struct NodeResourcesBalancedAllocation;

/// The full score when both are requested to the same degree.
fn balance(requested: [i64; 2], allocatable: [i64; 2]) -> i64 {
    let both = requested.into_iter().zip(allocatable);
    let mut shares = both
        .filter(|(_, capacity)| *capacity != 0)
        .map(|(requested, capacity)| (requested as f64 / capacity as f64).min(1.0));
    let deviation = match (shares.next(), shares.next()) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    /// A pod that requests neither changes no balance.
    fn pre_score(&self, cycle: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        let request = &cycle.pod.info.requests;
        match request.milli_cpu == 0 && request.memory == 0 {
            true => PreScore::Skip,
            false => PreScore::Score,
        }
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let (pod, used) = (&cycle.pod.info.requests, &node.requested);
        let has = [node.allocatable.milli_cpu, node.allocatable.memory];
        let without = balance([used.milli_cpu, used.memory], has);
        let with = balance(
            [used.milli_cpu + pod.milli_cpu, used.memory + pod.memory],
            has,
        );
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + with - without) / 2
    }
}
