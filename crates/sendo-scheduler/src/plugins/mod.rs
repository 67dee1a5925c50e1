//! The plugins of a default cluster, each named as in Kubernetes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/apis/config/v1/default_plugins.go`: `getDefaultPlugins`, `applyFeatureGates`

mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod scheduling_gates;
mod taint_toleration;
#[cfg(test)]
mod tests;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

pub use default_binder::DefaultBinder;
pub use default_preemption::DefaultPreemption;
pub use dynamic_resources::DynamicResources;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use node_affinity::NodeAffinity;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources::{NodeResourcesBalancedAllocation, NodeResourcesFit};
pub use node_unschedulable::NodeUnschedulable;
pub use node_volume_limits::NodeVolumeLimits;
pub use pod_topology_spread::PodTopologySpread;
pub use scheduling_gates::SchedulingGates;
pub use taint_toleration::TaintToleration;
pub use volume_binding::VolumeBinding;
pub use volume_restrictions::VolumeRestrictions;
pub use volume_zone::VolumeZone;

use crate::framework::Profile;

impl Profile {
    /// A profile with the plugins of a default cluster, in their order and with their weights.
    /// The queue's order, by priority and then by time, is no plugin here.
    pub fn default_plugins(scheduler_name: &str) -> Self {
        Profile::new(scheduler_name)
            .with(SchedulingGates, 0)
            .with(NodeUnschedulable, 0)
            .with(NodeName, 0)
            .with(TaintToleration, 3)
            .with(NodeAffinity, 2)
            .with(NodePorts, 0)
            .with(NodeResourcesFit, 1)
            .with(VolumeRestrictions, 0)
            .with(NodeVolumeLimits, 0)
            .with(VolumeBinding::default(), 0)
            .with(VolumeZone, 0)
            .with(PodTopologySpread::default(), 2)
            .with(InterPodAffinity::default(), 2)
            .with(DynamicResources, 0)
            .with(DefaultPreemption::default(), 0)
            .with(NodeResourcesBalancedAllocation, 1)
            .with(ImageLocality, 1)
            .with(DefaultBinder, 0)
    }
}
