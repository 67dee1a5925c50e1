//! A node with its pods, what it can allocate to pods and what they request.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/types.go`: `NodeInfo`, `Resource`
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `PodRequests`,
//!   `AggregateContainerRequests`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Container, Pod};

/// An amount of each resource that is scheduled: what a pod requests, or a node can allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

/// A node with the pods that are bound to it or assumed to be.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The node.
    pub node: Arc<Node>,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// What the node can allocate to pods.
    pub allocatable: Resource,
    /// How many pods it can run.
    pub allowed_pods: i64,
    /// The sum of what its pods request.
    pub requested: Resource,
}

impl NodeInfo {
    /// The node with these pods; sums up their requests.
    pub fn new(node: Arc<Node>, pods: Vec<Arc<Pod>>) -> Self {
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let requested =
            pods.iter()
                .map(|pod| pod_requests(pod))
                .fold(Resource::default(), |sum, one| Resource {
                    milli_cpu: sum.milli_cpu + one.milli_cpu,
                    memory: sum.memory + one.memory,
                });
        NodeInfo {
            allocatable: resource_from_quantities(allocatable),
            allowed_pods: integer(allocatable, "pods"),
            pods,
            requested,
            node,
        }
    }

    /// What its pods have not requested.
    pub(crate) fn free(&self) -> Resource {
        Resource {
            milli_cpu: self.allocatable.milli_cpu - self.requested.milli_cpu,
            memory: self.allocatable.memory - self.requested.memory,
        }
    }
}

/// What a pod requests: the sum over its containers and sidecars, or the largest init
/// container if that is more, plus its overhead.
pub fn pod_requests(pod: &Pod) -> Resource {
    let Some(spec) = &pod.spec else {
        return Resource::default();
    };
    let requests = |container: &Container| {
        let resources = container.resources.as_ref();
        resource_from_quantities(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut sum = Resource::default();
    let mut add = |one: Resource| {
        sum.milli_cpu += one.milli_cpu;
        sum.memory += one.memory;
    };
    spec.containers.iter().map(requests).for_each(&mut add);
    let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter().flatten();
    init.clone()
        .filter(is_sidecar)
        .map(requests)
        .for_each(&mut add);
    for one in init.filter(|c| !is_sidecar(c)).map(requests) {
        sum.milli_cpu = sum.milli_cpu.max(one.milli_cpu);
        sum.memory = sum.memory.max(one.memory);
    }
    let overhead = resource_from_quantities(spec.overhead.as_ref());
    Resource {
        milli_cpu: sum.milli_cpu + overhead.milli_cpu,
        memory: sum.memory + overhead.memory,
    }
}

fn resource_from_quantities(quantities: Option<&BTreeMap<String, Quantity>>) -> Resource {
    let cpu = quantities.and_then(|q| q.get("cpu"));
    let cpu = cpu.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
    Resource {
        milli_cpu: cpu.map_or(0, |q| q.milli()),
        memory: integer(quantities, "memory"),
    }
}

fn integer(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> i64 {
    let quantity = quantities.and_then(|q| q.get(name));
    let parsed = quantity.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
    parsed.map_or(0, |q| q.units())
}
