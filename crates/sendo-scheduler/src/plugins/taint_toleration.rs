//! Taints of nodes that a pod does not tolerate.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`: `Filter`, `Score`,
//!   `NormalizeScore`, `isSchedulableAfterNodeChange`

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::framework::{
    Better, ClusterEvent, Cycle, NodeScore, Plugin, PreScore, QueuedPod, QueueingHint, Rejected,
    scale,
};
use crate::pod::Pod;
use crate::snapshot::node_info::NodeInfo;
use crate::taints::{taints, toleration};

/// Rejects nodes with taints that the pod does not tolerate, and prefers those with fewer that
/// it had better not be on.
#[derive(Clone, Copy, Debug)]
pub struct TaintToleration;

/// The tolerations that tolerate `PreferNoSchedule`.
#[derive(Clone)]
struct Preferred(Vec<Toleration>);

/// Whether the pod tolerates all taints that keep pods off the node.
pub(super) fn tolerates(pod: &Pod, node: &Node) -> bool {
    let mut hard = taints(node).filter(|taint| is_hard(taint));
    hard.all(|taint| toleration(pod.tolerations(), taint).is_some())
}

fn is_hard(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let own = matches!(event, ClusterEvent::PodUpdated { .. });
        (own || event.node().is_some_and(|node| tolerates(&pod.pod, node))).into()
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        match tolerates(&cycle.pod.pod, &node.node) {
            true => Ok(()),
            false => Err(Rejected::unresolvable("node(s) had untolerated taint(s)")),
        }
    }

    fn pre_score(&self, cycle: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        let tolerations = cycle.pod.pod.tolerations().iter();
        let preferred = tolerations.filter(|toleration| {
            let effect = toleration.effect.as_deref().unwrap_or_default();
            matches!(effect, "" | "PreferNoSchedule")
        });
        let preferred = Preferred(preferred.cloned().collect());
        cycle.state.write(preferred);
        PreScore::Score
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let preferred = cycle.state.get::<Preferred>();
        let tolerations = preferred.map_or(&[][..], |preferred| &preferred.0);
        let soft = taints(&node.node).filter(|taint| taint.effect == "PreferNoSchedule");
        let not_tolerated = soft.filter(|taint| toleration(tolerations, taint).is_none());
        not_tolerated.count() as i64
    }

    fn normalize_scores(&self, _: &Cycle<'_>, scores: &mut [NodeScore<'_>]) {
        scale(scores, Better::Less);
    }
}
