//! The part of a pod that the controllers of this crate read.
//!
//! Every pod of the cluster is cached, and decoded at each of its changes: a whole
//! one would take several times the memory. The fields have the names and the
//! meaning that they have in [`v1::Pod`], which is the type of pods to create.

use k8s_openapi::api::core::v1::{
    self, PersistentVolumeClaimVolumeSource, ResourceRequirements, Toleration,
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
    #[serde(deserialize_with = "only_named_ports")]
    pub(crate) containers: Option<Vec<Container>>,
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "only_named_ports")]
    pub(crate) init_containers: Option<Vec<Container>>,
    pub(crate) node_name: Option<String>,
    pub(crate) subdomain: Option<String>,
    pub(crate) tolerations: Option<Vec<Toleration>>,
    #[serde(deserialize_with = "only_volumes_of_claims")]
    pub(crate) volumes: Option<Vec<Volume>>,
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

/// A container with ports that a Service can name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
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
    let mut containers = Option::<Vec<Container>>::deserialize(from)?.unwrap_or_default();
    for container in &mut containers {
        if let Some(ports) = &mut container.ports {
            ports.retain(|port| !port.name.is_empty());
        }
    }
    let has_ports = |container: &Container| container.ports.iter().flatten().next().is_some();
    containers.retain(has_ports);
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
    pub(crate) init_container_statuses: Option<Vec<InitContainerStatus>>,
    pub(crate) phase: Option<String>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Option<Vec<PodIp>>,
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
    /// What it has now; boxed, because few nodes report it.
    pub(crate) resources: Option<Box<ResourceRequirements>>,
    pub(crate) restart_count: i32,
}

/// What an init container has now, if it is a sidecar.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct InitContainerStatus {
    pub(crate) resources: Option<Box<ResourceRequirements>>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 25] = [
    "spec.activeDeadlineSeconds",
    "spec.containers.ports.containerPort",
    "spec.containers.ports.name",
    "spec.containers.ports.protocol",
    "spec.containers.restartPolicy",
    "spec.hostname",
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
    "status.containerStatuses.resources",
    "status.containerStatuses.restartCount",
    "status.initContainerStatuses.resources",
    "status.phase",
    "status.podIP",
    "status.podIPs.ip",
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
        let container = |restart_policy: Option<&str>| Container {
            ports: Some(vec![Port {
                container_port: 8080,
                name: "http".to_owned(),
                protocol: "TCP".to_owned(),
            }]),
            restart_policy: restart_policy.map(str::to_owned),
        };
        let resources = || {
            let requests = [("cpu".to_owned(), Quantity("1".to_owned()))].into();
            Some(Box::new(ResourceRequirements {
                requests: Some(requests),
                ..ResourceRequirements::default()
            }))
        };
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                active_deadline_seconds: Some(60),
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
                container_statuses: Some(vec![ContainerStatus {
                    resources: resources(),
                    restart_count: 3,
                }]),
                init_container_statuses: Some(vec![InitContainerStatus {
                    resources: resources(),
                }]),
                phase: Some("Running".to_owned()),
                pod_ip: Some("192.0.2.1".to_owned()),
                pod_ips: Some(vec![PodIp {
                    ip: "192.0.2.1".to_owned(),
                }]),
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
