//! Nodes that are cordoned.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`: `Filter`

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::framework::{ClusterEvent, Cycle, Plugin, QueuedPod, QueueingHint, Rejected};
use crate::snapshot::node_info::NodeInfo;
use crate::taints::toleration;

/// Rejects nodes that are cordoned, unless the pod tolerates that.
#[derive(Clone, Copy, Debug)]
pub struct NodeUnschedulable;

fn is_cordoned(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.unschedulable) == Some(true)
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn queueing_hint(&self, _: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let own = matches!(event, ClusterEvent::PodUpdated { .. });
        (own || event.node().is_some_and(|node| !is_cordoned(node))).into()
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        if !is_cordoned(&node.node) {
            return Ok(());
        }
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        match toleration(cycle.pod.pod.tolerations(), &taint) {
            Some(_) => Ok(()),
            None => Err(Rejected::unresolvable("node(s) were unschedulable")),
        }
    }
}
