//! Ports of the node that a pod wants for itself.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodeports/node_ports.go`: `PreFilter`, `Filter`, `fitsPorts`,
//!   `isSchedulableAfterPodDeleted`

use crate::framework::{ClusterEvent, Cycle, Plugin, PreFilter, QueuedPod, QueueingHint, Rejected};
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::PodInfo;

/// Rejects nodes where another pod uses a port that the pod wants.
#[derive(Clone, Copy, Debug)]
pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        match event {
            ClusterEvent::NodeAdded(_) => QueueingHint::Queue,
            ClusterEvent::AssignedPodDeleted(gone) => {
                let freed = PodInfo::new(gone).host_ports;
                let mut wanted = pod.info.host_ports.iter();
                wanted
                    .any(|wanted| freed.iter().any(|port| port.conflicts_with(wanted)))
                    .into()
            }
            _ => QueueingHint::Skip,
        }
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        Ok(match cycle.pod.info.host_ports.is_empty() {
            true => PreFilter::Skip,
            false => PreFilter::AllNodes,
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let mut wanted = cycle.pod.info.host_ports.iter();
        let taken = |port| node.used_ports.iter().any(|used| used.conflicts_with(port));
        match wanted.any(taken) {
            false => Ok(()),
            true => Err(Rejected::unschedulable(
                "node(s) didn't have free ports for the requested pod ports",
            )),
        }
    }
}
