//! The part of a pod that the scheduler reads.
//!
//! Every pod of the cluster is cached, and decoded at each of its changes: a whole
//! one would take several times the memory. The fields have the names and the
//! meaning that they have in [`v1::Pod`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self, ContainerPort, NodeAffinity, PodSchedulingGate, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use sendo::cache::KindOptions;
use serde::{Deserialize, Serialize};

/// A pod that is to be scheduled, or that uses resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, Resource)]
#[resource(inherit = v1::Pod)]
#[serde(default)]
pub struct Pod {
    /// Its metadata, without labels and annotations.
    pub metadata: ObjectMeta,
    /// What it requests, and where it may run.
    pub spec: Option<PodSpec>,
    /// Its status.
    pub status: Option<PodStatus>,
}

/// What a pod requires of a node, and the node it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Which nodes it requires or prefers.
    pub affinity: Option<Affinity>,
    /// Its containers.
    pub containers: Vec<Container>,
    /// Its init containers, sidecars among them.
    pub init_containers: Option<Vec<Container>>,
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// Labels that its node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// What running it takes in addition to its containers.
    pub overhead: Option<BTreeMap<String, Quantity>>,
    /// The scheduler that is responsible for it.
    pub scheduler_name: Option<String>,
    /// Gates that keep it from being scheduled.
    pub scheduling_gates: Option<Vec<PodSchedulingGate>>,
    /// The taints that it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
}

/// Which nodes a pod requires or prefers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// By labels and fields of nodes.
    pub node_affinity: Option<NodeAffinity>,
}

/// A container, of either list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its ports; some may be ports of the host.
    pub ports: Option<Vec<ContainerPort>>,
    /// What it requests.
    pub resources: Option<Resources>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// The resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Resources {
    /// How much of each resource it requests.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct PodStatus {
    /// `PodScheduled` among them.
    pub conditions: Option<Vec<Condition>>,
    /// Its phase.
    pub phase: Option<String>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The message.
    pub message: Option<String>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 18] = [
    "spec.affinity.nodeAffinity",
    "spec.containers.ports",
    "spec.containers.resources.requests",
    "spec.containers.restartPolicy",
    "spec.initContainers.ports",
    "spec.initContainers.resources.requests",
    "spec.initContainers.restartPolicy",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.overhead",
    "spec.schedulerName",
    "spec.schedulingGates",
    "spec.tolerations",
    "status.conditions.lastTransitionTime",
    "status.conditions.message",
    "status.conditions.status",
    "status.conditions.type",
    "status.phase",
];

/// How pods are decoded and cached.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new()
        .only(FIELDS)
        .without(["metadata.annotations", "metadata.labels"])
}

impl Pod {
    /// The node it is bound to.
    pub fn node(&self) -> Option<&str> {
        let spec = self.spec.as_ref()?;
        spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The taints that it tolerates.
    pub fn tolerations(&self) -> &[Toleration] {
        let spec = self.spec.as_ref();
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
        tolerations.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod with every field of the type set; a new field has to be set here too.
    fn full() -> Pod {
        let requests = || Some([("cpu".to_owned(), Quantity("1".to_owned()))].into());
        let container = || Container {
            ports: Some(vec![ContainerPort {
                host_ip: Some("10.0.0.1".to_owned()),
                host_port: Some(80),
                protocol: Some("UDP".to_owned()),
                ..ContainerPort::default()
            }]),
            resources: Some(Resources {
                requests: requests(),
            }),
            restart_policy: Some("Always".to_owned()),
        };
        let terms = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
            ]},
        });
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                affinity: Some(Affinity {
                    node_affinity: serde_json::from_value(terms).expect("an affinity"),
                }),
                containers: vec![container()],
                init_containers: Some(vec![container()]),
                node_name: Some("n".to_owned()),
                node_selector: Some([("k".to_owned(), "v".to_owned())].into()),
                overhead: requests(),
                scheduler_name: Some("s".to_owned()),
                scheduling_gates: Some(vec![PodSchedulingGate {
                    name: "g".to_owned(),
                }]),
                tolerations: Some(vec![Toleration {
                    key: Some("t".to_owned()),
                    ..Toleration::default()
                }]),
            }),
            status: Some(PodStatus {
                conditions: Some(vec![Condition {
                    type_: "PodScheduled".to_owned(),
                    status: "False".to_owned(),
                    message: Some("no".to_owned()),
                    last_transition_time: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
                }]),
                phase: Some("Pending".to_owned()),
            }),
        }
    }

    #[test]
    fn every_field_is_named_as_in_kubernetes_and_read() {
        let whole: v1::Pod = serde_json::from_value(json!(full())).expect("a whole pod");
        let kept = cached().kept(json!(whole).to_string().as_bytes());
        assert_eq!(kept, Ok(full()));
    }

    #[test]
    fn a_pod_is_small() {
        assert!(size_of::<Pod>() <= 1024);
    }
}
