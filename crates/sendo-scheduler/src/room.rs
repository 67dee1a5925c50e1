//! A node and how much of it is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Container, Pod};

/// What a pod asks for, or a node has: thousandths of processors and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Thousandths of a processor.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
}

/// A node with the pods that are on it or on their way to it.
#[derive(Clone, Debug)]
pub struct Room {
    /// The node.
    pub node: Arc<Node>,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// What the node has.
    pub has: Amount,
    /// How many pods it takes.
    pub most_pods: i64,
    /// What its pods ask for, together.
    pub taken: Amount,
}

impl Room {
    /// The node with its pods counted up.
    pub fn new(node: Arc<Node>, pods: Vec<Arc<Pod>>) -> Self {
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let taken = pods
            .iter()
            .map(|pod| requested(pod))
            .fold(Amount::default(), |sum, one| Amount {
                milli_cpu: sum.milli_cpu + one.milli_cpu,
                memory: sum.memory + one.memory,
            });
        Room {
            has: amount(allocatable),
            most_pods: whole(allocatable, "pods"),
            pods,
            taken,
            node,
        }
    }
}

/// What a pod asks for: the sum over its containers, or its largest init
/// container if that is more, plus its overhead.
pub fn requested(pod: &Pod) -> Amount {
    let Some(spec) = &pod.spec else {
        return Amount::default();
    };
    let asks = |container: &Container| {
        let resources = container.resources.as_ref();
        amount(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut sum = Amount::default();
    let mut add = |one: Amount| {
        sum.milli_cpu += one.milli_cpu;
        sum.memory += one.memory;
    };
    spec.containers.iter().map(asks).for_each(&mut add);
    let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter().flatten();
    init.clone().filter(is_sidecar).map(asks).for_each(&mut add);
    for one in init.filter(|c| !is_sidecar(c)).map(asks) {
        sum.milli_cpu = sum.milli_cpu.max(one.milli_cpu);
        sum.memory = sum.memory.max(one.memory);
    }
    let overhead = amount(spec.overhead.as_ref());
    Amount {
        milli_cpu: sum.milli_cpu + overhead.milli_cpu,
        memory: sum.memory + overhead.memory,
    }
}

fn amount(quantities: Option<&BTreeMap<String, Quantity>>) -> Amount {
    let cpu = quantities.and_then(|q| q.get("cpu"));
    let cpu = cpu.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
    Amount {
        milli_cpu: cpu.map_or(0, |q| q.milli()),
        memory: whole(quantities, "memory"),
    }
}

fn whole(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> i64 {
    let quantity = quantities.and_then(|q| q.get(name));
    let parsed = quantity.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
    parsed.map_or(0, |q| q.units())
}
