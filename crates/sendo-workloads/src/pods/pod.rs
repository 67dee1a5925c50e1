//! The part of a pod that the controllers of this crate read.
//!
//! Every pod of the cluster is cached, and decoded at each of its changes: a whole
//! one would take several times the memory. The fields have the names and the
//! meaning that they have in [`v1::Pod`], which is the type of pods to create.

use k8s_openapi::api::core::v1::{
    self, NodeAffinity, PersistentVolumeClaimVolumeSource, ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use sendo::cache::KindOptions;
use serde::{Deserialize, Deserializer, Serialize};

/// A cached pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, Resource)]
#[resource(inherit = v1::Pod)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<PodSpec>,
    pub(crate) status: Option<PodStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) affinity: Option<Affinity>,
    #[serde(deserialize_with = "only_named_ports")]
    pub(crate) containers: Option<Vec<Container>>,
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "only_named_ports_and_sidecars")]
    pub(crate) init_containers: Option<Vec<Container>>,
    pub(crate) node_name: Option<String>,
    pub(crate) subdomain: Option<String>,
    pub(crate) tolerations: Option<Vec<Toleration>>,
    #[serde(deserialize_with = "only_volumes_of_claims")]
    pub(crate) volumes: Option<Vec<Volume>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Affinity {
    pub(crate) node_affinity: Option<NodeAffinity>,
}

/// The volumes that refer to a claim: nearly every pod has volumes, and few have one of these.
fn only_volumes_of_claims<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Volume>>, D::Error> {
    let mut volumes = Option::<Vec<Volume>>::deserialize(from)?;
    if let Some(volumes) = &mut volumes {
        volumes.retain(|volume| {
            volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
        });
        volumes.shrink_to_fit();
    }
    Ok(volumes)
}

/// A container with ports that a Service can name, or a sidecar.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) ports: Option<Vec<Port>>,
    /// `Always` makes an init container a sidecar.
    pub(crate) restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Port {
    pub(crate) container_port: i32,
    pub(crate) name: String,
    pub(crate) protocol: String,
}

/// The containers that have named ports, with those: most pods have none.
fn only_named_ports<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Container>>, D::Error> {
    kept_containers(from, |_| false)
}

/// The same, and init containers that are sidecars.
fn only_named_ports_and_sidecars<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Container>>, D::Error> {
    kept_containers(from, |container| {
        container.restart_policy.as_deref() == Some("Always")
    })
}

fn kept_containers<'de, D: Deserializer<'de>>(
    from: D,
    kept_without_ports: impl Fn(&Container) -> bool,
) -> Result<Option<Vec<Container>>, D::Error> {
    let mut containers = Option::<Vec<Container>>::deserialize(from)?.unwrap_or_default();
    for container in &mut containers {
        if let Some(ports) = &mut container.ports {
            ports.retain(|port| !port.name.is_empty());
        }
    }
    let has_ports = |container: &Container| container.ports.iter().flatten().next().is_some();
    containers.retain(|container| has_ports(container) || kept_without_ports(container));
    containers.shrink_to_fit();
    Ok(Some(containers).filter(|containers| !containers.is_empty()))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) ephemeral: Option<Ephemeral>,
    pub(crate) persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
}

/// A generic ephemeral volume: its claim is created for the pod, and named after pod and volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Ephemeral {}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) conditions: Option<Vec<Condition>>,
    pub(crate) container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) init_container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) phase: Option<String>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Option<Vec<PodIp>>,
    pub(crate) start_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    /// What it has now; boxed, because few nodes report it.
    pub(crate) resources: Option<Box<ResourceRequirements>>,
    pub(crate) restart_count: i32,
    pub(crate) state: Option<ContainerState>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) finished_at: Option<Time>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 36] = [
    "spec.activeDeadlineSeconds",
    "spec.affinity.nodeAffinity",
    "spec.containers.name",
    "spec.containers.ports.containerPort",
    "spec.containers.ports.name",
    "spec.containers.ports.protocol",
    "spec.containers.restartPolicy",
    "spec.hostname",
    "spec.initContainers.name",
    "spec.initContainers.ports.containerPort",
    "spec.initContainers.ports.name",
    "spec.initContainers.ports.protocol",
    "spec.initContainers.restartPolicy",
    "spec.nodeName",
    "spec.subdomain",
    "spec.tolerations",
    "spec.volumes.ephemeral",
    "spec.volumes.name",
    "spec.volumes.persistentVolumeClaim",
    "status.conditions.lastTransitionTime",
    "status.conditions.status",
    "status.conditions.type",
    "status.containerStatuses.name",
    "status.containerStatuses.resources",
    "status.containerStatuses.restartCount",
    "status.containerStatuses.state.terminated.exitCode",
    "status.containerStatuses.state.terminated.finishedAt",
    "status.initContainerStatuses.name",
    "status.initContainerStatuses.resources",
    "status.initContainerStatuses.restartCount",
    "status.initContainerStatuses.state.terminated.exitCode",
    "status.initContainerStatuses.state.terminated.finishedAt",
    "status.phase",
    "status.podIP",
    "status.podIPs.ip",
    "status.startTime",
];

/// How pods are decoded and cached.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new().only(FIELDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::json;

    /// A pod with every field of the type set; a new field has to be set here too.
    fn full() -> Pod {
        let volume = |name: &str, ephemeral, persistent_volume_claim| Volume {
            name: name.to_owned(),
            ephemeral,
            persistent_volume_claim,
        };
        let claim = PersistentVolumeClaimVolumeSource {
            claim_name: "c".to_owned(),
            read_only: None,
        };
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}});
        let resources = || {
            let requests = [("cpu".to_owned(), Quantity("1".to_owned()))].into();
            Some(Box::new(ResourceRequirements {
                requests: Some(requests),
                ..ResourceRequirements::default()
            }))
        };
        let ended = |name: &str| ContainerStatus {
            name: name.to_owned(),
            resources: resources(),
            restart_count: 3,
            state: Some(ContainerState {
                terminated: Some(Terminated {
                    exit_code: 1,
                    finished_at: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
                }),
            }),
        };
        let container = |restart_policy: Option<&str>| Container {
            name: "c".to_owned(),
            ports: Some(vec![Port {
                container_port: 8080,
                name: "http".to_owned(),
                protocol: "TCP".to_owned(),
            }]),
            restart_policy: restart_policy.map(str::to_owned),
        };
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                active_deadline_seconds: Some(60),
                affinity: Some(Affinity {
                    node_affinity: serde_json::from_value(affinity).expect("an affinity"),
                }),
                containers: Some(vec![container(None)]),
                hostname: Some("h".to_owned()),
                init_containers: Some(vec![container(Some("Always"))]),
                node_name: Some("n".to_owned()),
                subdomain: Some("s".to_owned()),
                tolerations: Some(vec![Toleration {
                    key: Some("t".to_owned()),
                    ..Toleration::default()
                }]),
                volumes: Some(vec![
                    volume("a", None, Some(claim)),
                    volume("b", Some(Ephemeral {}), None),
                ]),
            }),
            status: Some(PodStatus {
                conditions: Some(vec![Condition {
                    type_: "Ready".to_owned(),
                    status: "True".to_owned(),
                    last_transition_time: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
                }]),
                container_statuses: Some(vec![ended("c")]),
                init_container_statuses: Some(vec![ended("i")]),
                phase: Some("Running".to_owned()),
                pod_ip: Some("192.0.2.1".to_owned()),
                pod_ips: Some(vec![PodIp {
                    ip: "192.0.2.1".to_owned(),
                }]),
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

    #[test]
    fn a_sidecar_is_kept_without_ports_too() {
        let mut pod = json!(full());
        let sidecar = json!({"name": "s", "restartPolicy": "Always"});
        pod["spec"]["initContainers"] = json!([{"name": "i"}, sidecar]);
        pod["spec"]["containers"] = json!([{"name": "c"}, sidecar]);
        let kept = cached().kept(pod.to_string().as_bytes()).expect("a pod");
        let spec = kept.spec.expect("a spec");
        let names = |containers: Option<Vec<Container>>| {
            let containers = containers.into_iter().flatten();
            containers
                .map(|container| container.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(spec.init_containers), ["s"]);
        assert!(names(spec.containers).is_empty());
    }

    #[test]
    fn only_volumes_of_claims_are_kept() {
        let mut pod = json!(full());
        let volumes = json!([{"name": "a", "emptyDir": {}}, {"name": "b", "ephemeral": {}}]);
        pod["spec"]["volumes"] = volumes;
        let kept = cached().kept(pod.to_string().as_bytes()).expect("a pod");
        let volumes = kept.spec.and_then(|spec| spec.volumes).expect("volumes");
        let names: Vec<_> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!(names, ["b"]);
    }
}
