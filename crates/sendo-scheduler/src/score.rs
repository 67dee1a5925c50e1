//! Scores: which of the nodes that passed the filters is best.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/schedule_one.go`: `prioritizeNodes`
//! - `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`: `Score`, `NormalizeScore`
//! - `pkg/scheduler/framework/plugins/noderesources/least_allocated.go`: `leastResourceScorer`,
//!   `leastRequestedScore`
//! - `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`:
//!   `balancedResourceScore`
//! - `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`:
//!   `calculatePodResourceRequest`

use sendo::ObjectExt;

use crate::filter::term_matches;
use crate::node_info::{NodeInfo, Resource, pod_requests};
use crate::pod::Pod;

/// The highest score a scorer gives.
const MAX_NODE_SCORE: i64 = 100;

/// What a pod without a CPU request counts as.
const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;

/// What a pod without a memory request counts as.
const DEFAULT_MEMORY_REQUEST: i64 = 200 << 20;

/// A scorer with its name and weight; each gives 0 to 100.
pub type Scorer = (&'static str, i64, fn(&Pod, &NodeInfo) -> i64);

/// All scorers.
pub const SCORERS: &[Scorer] = &[
    ("NodeAffinity", 2, node_affinity),
    ("NodeResourcesFit", 1, least_allocated),
    ("NodeResourcesBalancedAllocation", 1, balanced_allocation),
];

/// The weighted sum over all scorers.
pub fn score(pod: &Pod, node_info: &NodeInfo) -> i64 {
    SCORERS
        .iter()
        .map(|(_, weight, scorer)| weight * scorer(pod, node_info))
        .sum()
}

/// The share of the pod's preferences, by weight, that the node meets.
fn node_affinity(pod: &Pod, node_info: &NodeInfo) -> i64 {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let preferences = affinity.and_then(|a| {
        a.preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let weigh = |met_only: bool| -> i64 {
        let terms = preferences.into_iter().flatten();
        let counted = terms.filter(|term| !met_only || term_matches(&term.preference, node_info));
        counted.map(|term| i64::from(term.weight)).sum()
    };
    match weigh(false) {
        0 => 0,
        all => MAX_NODE_SCORE * weigh(true) / all,
    }
}

/// What would be requested of the node with the pod on it. A pod that requests nothing
/// counts as a small one, so that such pods are spread too.
fn requested_with(pod: &Pod, node_info: &NodeInfo) -> Resource {
    let nonzero = |pod: &Pod| {
        let request = pod_requests(pod);
        Resource {
            milli_cpu: match request.milli_cpu {
                0 => DEFAULT_MILLI_CPU_REQUEST,
                request => request,
            },
            memory: match request.memory {
                0 => DEFAULT_MEMORY_REQUEST,
                request => request,
            },
        }
    };
    let all = node_info
        .pods
        .iter()
        .map(|pod| nonzero(pod))
        .chain([nonzero(pod)]);
    all.fold(Resource::default(), |sum, one| Resource {
        milli_cpu: sum.milli_cpu + one.milli_cpu,
        memory: sum.memory + one.memory,
    })
}

fn least_allocated(pod: &Pod, node_info: &NodeInfo) -> i64 {
    let (capacity, requested) = (node_info.allocatable, requested_with(pod, node_info));
    let free = |capacity: i64, requested: i64| match capacity {
        capacity if capacity <= 0 || requested > capacity => 0,
        capacity => {
            let free = i128::from(capacity - requested);
            (free * i128::from(MAX_NODE_SCORE) / i128::from(capacity)) as i64
        }
    };
    let cpu = free(capacity.milli_cpu, requested.milli_cpu);
    let memory = free(capacity.memory, requested.memory);
    (cpu + memory) / 2
}

/// The full score when CPU and memory are requested to the same degree. Kubernetes goes on to
/// score how much the pod improves this balance; here the balance with the pod is the score.
fn balanced_allocation(pod: &Pod, node_info: &NodeInfo) -> i64 {
    let (capacity, requested) = (node_info.allocatable, requested_with(pod, node_info));
    let share = |capacity: i64, requested: i64| match capacity {
        capacity if capacity <= 0 => 1.0,
        capacity => (requested as f64 / capacity as f64).min(1.0),
    };
    let cpu = share(capacity.milli_cpu, requested.milli_cpu);
    let memory = share(capacity.memory, requested.memory);
    let difference = cpu - memory;
    MAX_NODE_SCORE - (difference.abs() / 2.0 * MAX_NODE_SCORE as f64) as i64
}

/// The node with the highest score; among equal ones that with the fewest pods, then by name.
pub(crate) fn best_node<'a>(pod: &Pod, node_infos: &[&'a NodeInfo]) -> Option<&'a NodeInfo> {
    let rank = |node_info: &&&NodeInfo| {
        let name = std::cmp::Reverse(node_info.node.name().to_owned());
        (
            score(pod, node_info),
            std::cmp::Reverse(node_info.pods.len()),
            name,
        )
    };
    node_infos.iter().max_by_key(rank).copied()
}
