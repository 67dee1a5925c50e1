//! Amounts of resources: what a pod requests, what a node has.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/types.go`: `Resource`
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `PodRequests`,
//!   `AggregateContainerRequests`
//! - `pkg/scheduler/util/pod_resources.go`: `DefaultMilliCPURequest`, `DefaultMemoryRequest`

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Container, Pod};

/// What a container without a CPU request counts as when nodes are scored.
const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;

/// What a container without a memory request counts as when nodes are scored.
const DEFAULT_MEMORY_REQUEST: i64 = 200 << 20;

/// An amount of each resource that is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Local storage in bytes.
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages, by name.
    pub scalar: BTreeMap<String, i64>,
}

impl Resource {
    /// The amounts that quantities say.
    pub fn from_quantities(quantities: Option<&BTreeMap<String, Quantity>>) -> Self {
        let mut all = Resource::default();
        for (name, quantity) in quantities.into_iter().flatten() {
            let Ok(quantity) = quantity.0.parse::<sendo_apimachinery::Quantity>() else {
                continue;
            };
            match name.as_str() {
                "cpu" => all.milli_cpu = quantity.milli(),
                "memory" => all.memory = quantity.units(),
                "ephemeral-storage" => all.ephemeral_storage = quantity.units(),
                "pods" => {}
                _ => {
                    all.scalar.insert(name.clone(), quantity.units());
                }
            }
        }
        all
    }

    /// Adds `other` once, or with -1 takes it away.
    pub fn add(&mut self, other: &Resource, times: i64) {
        self.milli_cpu += other.milli_cpu * times;
        self.memory += other.memory * times;
        self.ephemeral_storage += other.ephemeral_storage * times;
        for (name, amount) in &other.scalar {
            *self.scalar.entry(name.clone()).or_default() += amount * times;
        }
    }

    /// Makes each amount at least that of `other`.
    fn at_least(&mut self, other: &Resource) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let known = self.scalar.entry(name.clone()).or_default();
            *known = (*known).max(*amount);
        }
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            other => self.scalar.get(other).copied().unwrap_or_default(),
        }
    }
}

/// What a pod requests: the sum over its containers and sidecars, or what its init containers
/// take if that is more; what it requests as a whole instead; and its overhead.
pub fn pod_requests(pod: &Pod) -> Resource {
    requests(pod, |container| {
        Resource::from_quantities(container_requests(container))
    })
}

/// What a pod counts as when nodes are scored: a container that requests nothing counts as a
/// small one, so that such pods are spread too.
pub fn scored_requests(pod: &Pod) -> Resource {
    requests(pod, |container| {
        let quantities = container_requests(container);
        let has = |name| quantities.is_some_and(|quantities| quantities.contains_key(name));
        let mut all = Resource::from_quantities(quantities);
        if !has("cpu") {
            all.milli_cpu = DEFAULT_MILLI_CPU_REQUEST;
        }
        if !has("memory") {
            all.memory = DEFAULT_MEMORY_REQUEST;
        }
        all
    })
}

fn container_requests(container: &Container) -> Option<&BTreeMap<String, Quantity>> {
    container.resources.as_ref()?.requests.as_ref()
}

fn requests(pod: &Pod, of_container: impl Fn(&Container) -> Resource) -> Resource {
    let Some(spec) = &pod.spec else {
        return Resource::default();
    };
    let mut all = Resource::default();
    for container in &spec.containers {
        all.add(&of_container(container), 1);
    }
    // A sidecar runs beside the init containers after it, and beside the containers.
    let (mut sidecars, mut starting) = (Resource::default(), Resource::default());
    for container in spec.init_containers.iter().flatten() {
        let one = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            all.add(&one, 1);
            sidecars.add(&one, 1);
            starting.at_least(&sidecars);
        } else {
            let mut beside = sidecars.clone();
            beside.add(&one, 1);
            starting.at_least(&beside);
        }
    }
    all.at_least(&starting);
    let whole = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    if let Some(whole) = whole {
        let amounts = Resource::from_quantities(Some(whole));
        if whole.contains_key("cpu") {
            all.milli_cpu = amounts.milli_cpu;
        }
        if whole.contains_key("memory") {
            all.memory = amounts.memory;
        }
        all.scalar.extend(amounts.scalar);
    }
    all.add(&Resource::from_quantities(spec.overhead.as_ref()), 1);
    all
}
