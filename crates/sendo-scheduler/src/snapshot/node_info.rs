//! A node with its pods, what it can allocate to pods and what they request.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/types.go`: `NodeInfo`, `AddPodInfo`, `RemovePod`, `SetNode`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use sendo::{ObjectExt, Uid};

use super::pod_info::{ExclusiveDisk, HostPort, PodInfo};
use super::resource::Resource;

/// A node with the pods that are bound to it or assumed to be. The sums are kept up to date as
/// pods come and go.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// The node.
    pub node: Arc<Node>,
    /// The pods, by uid.
    pub pods: BTreeMap<Uid, Arc<PodInfo>>,
    /// What the node can allocate to pods.
    pub allocatable: Resource,
    /// How many pods it can run.
    pub allowed_pods: usize,
    /// The sum of what its pods request.
    pub requested: Resource,
    /// The same as nodes are scored by it: CPU in thousandths of a core.
    pub scored_milli_cpu: i64,
    /// The same for memory in bytes.
    pub scored_memory: i64,
    /// The ports that its pods use.
    pub used_ports: Vec<HostPort>,
    /// The disks that its pods use, by pod.
    pub used_disks: Vec<(Uid, ExclusiveDisk)>,
    /// The size of each image that it has, by name.
    pub images: BTreeMap<String, i64>,
    /// Its number in the snapshot.
    pub id: NodeId,
}

/// The number of a node in the snapshot; another node may have it when this one is gone.
pub type NodeId = u32;

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Arc<Node>) -> Self {
        let mut info = NodeInfo::default();
        info.set_node(node);
        info
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// The value of one of its labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.node.label(name)
    }

    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let pods = allocatable.and_then(|amounts| amounts.get("pods"));
        let pods = pods.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
        self.allowed_pods = pods.map_or(0, |q| usize::try_from(q.units()).unwrap_or(0));
        self.allocatable = Resource::from_quantities(allocatable);
        let images = status.into_iter().flat_map(|status| status.images.iter());
        self.images = images
            .flatten()
            .flat_map(|image| {
                let size = image.size_bytes.unwrap_or_default();
                let names = image.names.iter().flatten();
                names.map(move |name| (name.clone(), size))
            })
            .collect();
        self.node = node;
    }

    /// Adds a pod; one that is there already is replaced.
    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.remove_pod(&pod.uid);
        self.sum_up(&pod, 1);
        self.used_ports.extend(pod.host_ports.iter().cloned());
        let disks = pod.disks.iter().cloned();
        self.used_disks
            .extend(disks.map(|disk| (pod.uid.clone(), disk)));
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Takes a pod away.
    pub fn remove_pod(&mut self, uid: &Uid) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(uid)?;
        self.sum_up(&pod, -1);
        for port in &pod.host_ports {
            if let Some(place) = self.used_ports.iter().position(|used| used == port) {
                self.used_ports.swap_remove(place);
            }
        }
        if !pod.disks.is_empty() {
            self.used_disks.retain(|(user, _)| user != uid);
        }
        Some(pod)
    }

    fn sum_up(&mut self, pod: &PodInfo, times: i64) {
        self.requested.add(&pod.requests, times);
        self.scored_milli_cpu += pod.scored_milli_cpu * times;
        self.scored_memory += pod.scored_memory * times;
    }
}
