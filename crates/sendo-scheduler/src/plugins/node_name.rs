//! Pods that name their node.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodename/node_name.go`: `Filter`

use crate::framework::{ClusterEvent, Cycle, Plugin, PreFilter, QueuedPod, QueueingHint, Rejected};
use crate::snapshot::node_info::NodeInfo;

/// Rejects nodes of another name than the pod says.
#[derive(Clone, Copy, Debug)]
pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn queueing_hint(&self, _: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        matches!(event, ClusterEvent::NodeAdded(_)).into()
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        Ok(match cycle.pod.pod.node() {
            None => PreFilter::Skip,
            Some(_) => PreFilter::AllNodes,
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        match cycle.pod.pod.node().is_none_or(|name| name == node.name()) {
            true => Ok(()),
            false => Err(Rejected::unresolvable(
                "node(s) didn't match the requested node name",
            )),
        }
    }
}
