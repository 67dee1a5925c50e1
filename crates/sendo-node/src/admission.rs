//! Whether a pod fits on the node that it is bound to: its requests, its host ports, and the
//! number of pods. The scheduler looks at the same, but a pod may be bound by anybody.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/lifecycle/predicate.go`: `Admit`, `generalFilter`, `InsufficientResourceError`
//! - `pkg/scheduler/framework/plugins/noderesources/fit.go`: `fitsRequest`
//! - `pkg/scheduler/framework/plugins/nodeports/node_ports.go`: `fitsPorts`
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `PodRequests`

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use sendo_apimachinery::quantity::Quantity;

use crate::pod::{Container, Pod};

/// What a pod takes of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    /// Thousandths of processors.
    milli_cpu: i64,
    /// Bytes.
    memory: i64,
    ports: Vec<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    fn meets(&self, other: &HostPort) -> bool {
        const ALL: &str = "0.0.0.0";
        let same_address =
            self.address == other.address || self.address == ALL || other.address == ALL;
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

/// What a node has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) pods: i64,
}

/// Why a pod is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The reason in the pod's status, such as `OutOfcpu`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Demand {
    /// What the pod takes.
    pub(crate) fn new(pod: &Pod) -> Self {
        let overhead = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
        let (milli_cpu, memory) = plus(amounts(overhead), requests(pod));
        let init = pod.init_containers().iter();
        let sidecars = init.filter(|container| container.is_sidecar());
        let ports = pod.containers().iter().chain(sidecars).flat_map(host_ports);
        Demand {
            milli_cpu,
            memory,
            ports: ports.collect(),
        }
    }

    /// Whether it fits beside `others` on a node that has `capacity`.
    pub(crate) fn fits<'d>(
        &self,
        others: impl Iterator<Item = &'d Demand>,
        capacity: Capacity,
    ) -> Result<(), Rejection> {
        let mut used = Demand::default();
        let mut count = 0;
        for other in others {
            count += 1;
            used.milli_cpu += other.milli_cpu;
            used.memory += other.memory;
            if self
                .ports
                .iter()
                .any(|port| other.ports.iter().any(|own| own.meets(port)))
            {
                return Err(Rejection {
                    reason: "NodePorts",
                    message: "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports".to_owned(),
                });
            }
        }
        check("OutOfpods", "pods", 1, count, capacity.pods)?;
        let (cpu, memory) = (self.milli_cpu, self.memory);
        check("OutOfcpu", "cpu", cpu, used.milli_cpu, capacity.milli_cpu)?;
        check(
            "OutOfmemory",
            "memory",
            memory,
            used.memory,
            capacity.memory,
        )
    }
}

fn check(
    reason: &'static str,
    resource: &str,
    requested: i64,
    used: i64,
    capacity: i64,
) -> Result<(), Rejection> {
    if requested == 0 || requested <= capacity - used {
        return Ok(());
    }
    Err(Rejection {
        reason,
        message: format!(
            "Pod was rejected: Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    })
}

/// The most that the pod requests at any time: its sidecars count from when they start, and an
/// init container runs beside those before it.
fn requests(pod: &Pod) -> (i64, i64) {
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut sidecars = (0, 0);
    let mut most = (0, 0);
    for container in pod.init_containers() {
        if container.is_sidecar() {
            sidecars = plus(sidecars, of(container));
            most = max(most, sidecars);
        } else {
            most = max(most, plus(sidecars, of(container)));
        }
    }
    max(most, pod.containers().iter().map(of).fold(sidecars, plus))
}

fn plus(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0 + b.0, a.1 + b.1)
}

fn max(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.max(b.0), a.1.max(b.1))
}

/// Thousandths of processors, and bytes of memory.
fn amounts(list: Option<&BTreeMap<String, QuantityText>>) -> (i64, i64) {
    let amount = |name| list.and_then(|list| list.get(name)?.0.parse::<Quantity>().ok());
    let cpu = amount("cpu").map_or(0, |cpu: Quantity| cpu.milli());
    let memory = amount("memory").map_or(0, |memory: Quantity| memory.units());
    (cpu, memory)
}

fn host_ports(container: &Container) -> impl Iterator<Item = HostPort> {
    let ports = container.ports.iter().flatten();
    ports.filter_map(|port| {
        let number = port.host_port.filter(|port| *port > 0)?;
        let address = port.host_ip.as_deref().filter(|ip| !ip.is_empty());
        Some(HostPort {
            address: address.unwrap_or("0.0.0.0").to_owned(),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: number,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NODE: Capacity = Capacity {
        milli_cpu: 2000,
        memory: 1000,
        pods: 2,
    };

    fn demand(spec: Value) -> Demand {
        Demand::new(&serde_json::from_value(json!({ "spec": spec })).unwrap())
    }

    fn container(requests: Value, ports: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests}, "ports": ports})
    }

    fn fits(demand: &Demand, others: &[Demand]) -> Result<(), &'static str> {
        let fits = demand.fits(others.iter(), NODE);
        fits.map_err(|rejection| rejection.reason)
    }

    #[test]
    fn a_pod_fits_while_there_is_something_left() {
        let one = demand(json!({"containers": [container(json!({"cpu": "1500m"}), json!([]))]}));
        assert_eq!(fits(&one, &[]), Ok(()));
        assert_eq!(fits(&one, std::slice::from_ref(&one)), Err("OutOfcpu"));
        let large = demand(json!({"containers": [container(json!({"memory": "1Ki"}), json!([]))]}));
        assert_eq!(fits(&large, &[]), Err("OutOfmemory"));
        let none = Demand::default();
        assert_eq!(fits(&none, std::slice::from_ref(&none)), Ok(()));
        assert_eq!(fits(&none, &[none.clone(), none.clone()]), Err("OutOfpods"));
    }

    #[test]
    fn the_largest_phase_of_a_pod_counts() {
        let of = |cpu: &str| container(json!({ "cpu": cpu }), json!([]));
        let mut sidecar = of("100m");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({"initContainers": [sidecar, of("1")], "containers": [of("500m"), of("300m")],
            "overhead": {"cpu": "50m"}});
        assert_eq!(demand(spec).milli_cpu, 1150);
    }

    #[test]
    fn a_host_port_belongs_to_one_pod() {
        let on = |port: Value| demand(json!({"containers": [container(json!({}), json!([port]))]}));
        let web = on(json!({"containerPort": 80, "hostPort": 80}));
        let local = on(json!({"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}));
        let udp = on(json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"}));
        assert_eq!(fits(&local, std::slice::from_ref(&web)), Err("NodePorts"));
        assert_eq!(fits(&udp, &[web]), Ok(()));
    }
}
