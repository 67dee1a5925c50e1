//! The part of a pod that the scheduler reads.
//!
//! Every pod of the cluster is cached, and decoded at each of its changes: a whole
//! one would take several times the memory. The fields have the names and the
//! meaning that they have in [`v1::Pod`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self, AWSElasticBlockStoreVolumeSource, Affinity, ContainerPort, GCEPersistentDiskVolumeSource,
    ImageVolumeSource, PersistentVolumeClaimVolumeSource, PodSchedulingGate, Toleration,
    TopologySpreadConstraint,
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
    /// Its metadata, without annotations.
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
    /// Which nodes it requires or prefers, by themselves and by the pods that run there.
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
    /// `Never`, or whether pods of lower priority make way for it.
    pub preemption_policy: Option<String>,
    /// The higher, the sooner it is scheduled.
    pub priority: Option<i32>,
    /// The devices that it claims.
    pub resource_claims: Option<Vec<ResourceClaim>>,
    /// What it requests as a whole.
    pub resources: Option<Resources>,
    /// The scheduler that is responsible for it.
    pub scheduler_name: Option<String>,
    /// Gates that keep it from being scheduled.
    pub scheduling_gates: Option<Vec<PodSchedulingGate>>,
    /// The taints that it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
    /// How it and pods like it are spread.
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Its volumes.
    pub volumes: Option<Vec<Volume>>,
}

/// A container, of either list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its image.
    pub image: Option<String>,
    /// Its ports; some may be ports of the host.
    pub ports: Option<Vec<ContainerPort>>,
    /// What it requests.
    pub resources: Option<Resources>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// The resources of a container, or of a pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Resources {
    /// How much of each resource it requests.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// A claim of devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ResourceClaim {
    /// Its name in the pod.
    pub name: String,
}

/// A volume: the sources that say something about the node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// A disk that one node at a time writes to.
    pub aws_elastic_block_store: Option<AWSElasticBlockStoreVolumeSource>,
    /// A claim made for this pod, named after it and the volume.
    pub ephemeral: Option<Ephemeral>,
    /// A disk that one node at a time writes to.
    pub gce_persistent_disk: Option<GCEPersistentDiskVolumeSource>,
    /// An image.
    pub image: Option<ImageVolumeSource>,
    /// A disk that one node at a time writes to.
    pub iscsi: Option<Iscsi>,
    /// Its name.
    pub name: String,
    /// A claim.
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    /// A disk that one node at a time writes to.
    pub rbd: Option<Rbd>,
}

/// That a volume is a claim made for its pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Ephemeral {}

/// An iSCSI disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Iscsi {
    /// Its name.
    pub iqn: String,
    /// Whether it is only read.
    pub read_only: Option<bool>,
}

/// A Ceph block device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rbd {
    /// The image in the pool.
    pub image: String,
    /// Where it is.
    pub monitors: Vec<String>,
    /// The pool.
    pub pool: Option<String>,
    /// Whether it is only read.
    pub read_only: Option<bool>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `PodScheduled` and `DisruptionTarget` among them.
    pub conditions: Option<Vec<Condition>>,
    /// The node on which pods make way for it.
    pub nominated_node_name: Option<String>,
    /// Its phase.
    pub phase: Option<String>,
    /// When its node took it on.
    pub start_time: Option<Time>,
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
    /// The reason.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 40] = [
    "spec.affinity",
    "spec.containers.image",
    "spec.containers.ports",
    "spec.containers.resources.requests",
    "spec.containers.restartPolicy",
    "spec.initContainers.image",
    "spec.initContainers.ports",
    "spec.initContainers.resources.requests",
    "spec.initContainers.restartPolicy",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.overhead",
    "spec.preemptionPolicy",
    "spec.priority",
    "spec.resourceClaims.name",
    "spec.resources.requests",
    "spec.schedulerName",
    "spec.schedulingGates",
    "spec.tolerations",
    "spec.topologySpreadConstraints",
    "spec.volumes.awsElasticBlockStore",
    "spec.volumes.ephemeral",
    "spec.volumes.gcePersistentDisk",
    "spec.volumes.image",
    "spec.volumes.iscsi.iqn",
    "spec.volumes.iscsi.readOnly",
    "spec.volumes.name",
    "spec.volumes.persistentVolumeClaim",
    "spec.volumes.rbd.image",
    "spec.volumes.rbd.monitors",
    "spec.volumes.rbd.pool",
    "spec.volumes.rbd.readOnly",
    "status.conditions.lastTransitionTime",
    "status.conditions.message",
    "status.conditions.reason",
    "status.conditions.status",
    "status.conditions.type",
    "status.nominatedNodeName",
    "status.phase",
    "status.startTime",
];

/// How pods are decoded and cached.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new()
        .only(FIELDS)
        .without(["metadata.annotations"])
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

    /// Its priority; 0 if it has none.
    pub fn priority(&self) -> i32 {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.priority).unwrap_or_default()
    }

    /// The scheduler that is responsible for it.
    pub fn scheduler_name(&self) -> &str {
        let spec = self.spec.as_ref();
        let name = spec.and_then(|spec| spec.scheduler_name.as_deref());
        name.unwrap_or(crate::NAME)
    }

    /// The node on which pods make way for it.
    pub fn nominated_node(&self) -> Option<&str> {
        let name = self.status.as_ref()?.nominated_node_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// Its containers, the init containers after the others.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        let spec = self.spec.iter();
        spec.flat_map(|s| {
            s.containers
                .iter()
                .chain(s.init_containers.iter().flatten())
        })
    }

    /// Its volumes.
    pub fn volumes(&self) -> &[Volume] {
        let spec = self.spec.as_ref();
        let volumes = spec.and_then(|spec| spec.volumes.as_deref());
        volumes.unwrap_or_default()
    }

    /// The names of the claims that it mounts, and whether each was made for this pod.
    pub fn claims(&self) -> impl Iterator<Item = (String, bool)> {
        self.volumes().iter().filter_map(|volume| {
            if let Some(source) = &volume.persistent_volume_claim {
                return Some((source.claim_name.clone(), false));
            }
            let name = self.metadata.name.as_deref().unwrap_or_default();
            let made = volume.ephemeral.as_ref();
            made.map(|_| (format!("{name}-{}", volume.name), true))
        })
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let conditions = self.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Whether it has finished, so that it uses no resources of its node.
    pub fn is_finished(&self) -> bool {
        let phase = self.status.as_ref().and_then(|s| s.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
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
            image: Some("i".to_owned()),
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
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
            ]},
        }});
        let spread =
            json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]);
        let volume = json!({
            "name": "v",
            "awsElasticBlockStore": {"volumeID": "a"},
            "ephemeral": {},
            "gcePersistentDisk": {"pdName": "g"},
            "image": {"reference": "r"},
            "iscsi": {"iqn": "q", "readOnly": true},
            "persistentVolumeClaim": {"claimName": "c"},
            "rbd": {"image": "i", "monitors": ["m"], "pool": "p", "readOnly": true},
        });
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                labels: Some([("app".to_owned(), "x".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                affinity: serde_json::from_value(affinity).expect("an affinity"),
                containers: vec![container()],
                init_containers: Some(vec![container()]),
                node_name: Some("n".to_owned()),
                node_selector: Some([("k".to_owned(), "v".to_owned())].into()),
                overhead: requests(),
                preemption_policy: Some("Never".to_owned()),
                priority: Some(7),
                resource_claims: Some(vec![ResourceClaim {
                    name: "c".to_owned(),
                }]),
                resources: Some(Resources {
                    requests: requests(),
                }),
                scheduler_name: Some("s".to_owned()),
                scheduling_gates: Some(vec![PodSchedulingGate {
                    name: "g".to_owned(),
                }]),
                tolerations: Some(vec![Toleration {
                    key: Some("t".to_owned()),
                    ..Toleration::default()
                }]),
                topology_spread_constraints: serde_json::from_value(spread).expect("constraints"),
                volumes: Some(vec![serde_json::from_value(volume).expect("a volume")]),
            }),
            status: Some(PodStatus {
                conditions: Some(vec![Condition {
                    type_: "PodScheduled".to_owned(),
                    status: "False".to_owned(),
                    reason: Some("Unschedulable".to_owned()),
                    message: Some("no".to_owned()),
                    last_transition_time: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
                }]),
                nominated_node_name: Some("n".to_owned()),
                phase: Some("Pending".to_owned()),
                start_time: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
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
