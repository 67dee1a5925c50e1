//! What happens in the cluster that may let a pod be scheduled that could not be before.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-scheduler/framework/types.go`: `ClusterEvent`, `QueueingHint`
//! - `pkg/scheduler/framework/events.go`: `NodeSchedulingPropertiesChange`

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use crate::pod::Pod;

/// Something that happened in the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// A node is new.
    NodeAdded(&'a Node),
    /// A node changed in something that scheduling depends on.
    NodeUpdated {
        /// As it was.
        old: &'a Node,
        /// As it is.
        new: &'a Node,
    },
    /// A node is gone.
    NodeDeleted(&'a Node),
    /// A pod got a node, or is new and has one.
    AssignedPodAdded(&'a Pod),
    /// A pod that has a node changed.
    AssignedPodUpdated {
        /// As it was.
        old: &'a Pod,
        /// As it is.
        new: &'a Pod,
    },
    /// A pod that had a node is gone or has finished.
    AssignedPodDeleted(&'a Pod),
    /// The pod that waits changed itself, in more than its status.
    PodUpdated {
        /// As it was.
        old: &'a Pod,
        /// As it is.
        new: &'a Pod,
    },
    /// A claim is new or changed.
    Claim(&'a PersistentVolumeClaim),
    /// A volume is new or changed.
    Volume(&'a PersistentVolume),
    /// A storage class is new or changed.
    StorageClass(&'a StorageClass),
    /// What the storage drivers of a node allow is new or changed.
    CsiNode(&'a CSINode),
    /// The labels of a namespace changed, or it is new.
    Namespace,
}

impl ClusterEvent<'_> {
    /// Its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            ClusterEvent::NodeAdded(_) => "NodeAdd",
            ClusterEvent::NodeUpdated { .. } => "NodeUpdate",
            ClusterEvent::NodeDeleted(_) => "NodeDelete",
            ClusterEvent::AssignedPodAdded(_) => "AssignedPodAdd",
            ClusterEvent::AssignedPodUpdated { .. } => "AssignedPodUpdate",
            ClusterEvent::AssignedPodDeleted(_) => "AssignedPodDelete",
            ClusterEvent::PodUpdated { .. } => "PodUpdate",
            ClusterEvent::Claim(_) => "PersistentVolumeClaimUpdate",
            ClusterEvent::Volume(_) => "PersistentVolumeUpdate",
            ClusterEvent::StorageClass(_) => "StorageClassUpdate",
            ClusterEvent::CsiNode(_) => "CSINodeUpdate",
            ClusterEvent::Namespace => "NamespaceUpdate",
        }
    }

    /// The node that is new or changed.
    pub fn node(&self) -> Option<&Node> {
        match self {
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeUpdated { new: node, .. } => {
                Some(node)
            }
            _ => None,
        }
    }
}

/// Whether an event is worth a new attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingHint {
    /// It may let the pod be scheduled.
    Queue,
    /// It cannot.
    Skip,
}

impl From<bool> for QueueingHint {
    fn from(helps: bool) -> Self {
        if helps {
            QueueingHint::Queue
        } else {
            QueueingHint::Skip
        }
    }
}

/// Whether scheduling depends on what changed of the node: heartbeats are the most of its changes.
pub fn matters_to_scheduling(old: &Node, new: &Node) -> bool {
    let allocatable = |node: &Node| {
        let status = node.status.as_ref();
        status.and_then(|status| status.allocatable.clone())
    };
    old.spec != new.spec
        || old.metadata.labels != new.metadata.labels
        || allocatable(old) != allocatable(new)
}
