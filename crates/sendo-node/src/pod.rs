//! The part of a pod that its node reads.
//!
//! Nothing is executed, so little more than the names in a spec is needed. The fields
//! have the names and the meaning that they have in [`v1::Pod`].

use k8s_openapi::api::core::v1::{self, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::object::HasStatus;
use sendo::cache::KindOptions;
use serde::{Deserialize, Serialize};

/// A pod of this node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, Resource)]
#[resource(inherit = v1::Pod)]
#[serde(default)]
pub struct Pod {
    /// Its whole metadata.
    pub metadata: ObjectMeta,
    /// Its spec.
    pub spec: Option<PodSpec>,
    /// Its whole status, because it is written back.
    pub status: Option<PodStatus>,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Its containers.
    pub containers: Vec<Container>,
    /// Its ephemeral containers, which were added later.
    pub ephemeral_containers: Option<Vec<Container>>,
    /// Whether it uses the host's network, and so its address.
    pub host_network: Option<bool>,
    /// Its init containers, sidecars among them.
    pub init_containers: Option<Vec<Container>>,
    /// Whether its containers are started again after they exit: `Always`, `OnFailure` or `Never`.
    pub restart_policy: Option<String>,
}

/// A container of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// The image it would run.
    pub image: Option<String>,
    /// Its name.
    pub name: String,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 12] = [
    "spec.containers.image",
    "spec.containers.name",
    "spec.containers.restartPolicy",
    "spec.ephemeralContainers.image",
    "spec.ephemeralContainers.name",
    "spec.ephemeralContainers.restartPolicy",
    "spec.hostNetwork",
    "spec.initContainers.image",
    "spec.initContainers.name",
    "spec.initContainers.restartPolicy",
    "spec.restartPolicy",
    "status",
];

/// How pods are decoded and cached.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new().only(FIELDS)
}

impl HasStatus for Pod {
    type Status = PodStatus;

    fn status(&self) -> Option<&PodStatus> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<PodStatus> {
        &mut self.status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod with every field of the type set; a new field has to be set here too.
    fn full() -> Pod {
        let container = |name: &str| Container {
            image: Some("i".to_owned()),
            name: name.to_owned(),
            restart_policy: Some("Always".to_owned()),
        };
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                containers: vec![container("a")],
                ephemeral_containers: Some(vec![container("b")]),
                host_network: Some(true),
                init_containers: Some(vec![container("c")]),
                restart_policy: Some("Never".to_owned()),
            }),
            status: Some(PodStatus {
                phase: Some("Running".to_owned()),
                pod_ip: Some("10.244.0.1".to_owned()),
                ..PodStatus::default()
            }),
        }
    }

    #[test]
    fn every_field_is_named_as_in_kubernetes_and_read() {
        let whole: v1::Pod = serde_json::from_value(json!(full())).expect("a whole pod");
        let kept = cached().kept(json!(whole).to_string().as_bytes());
        assert_eq!(kept, Ok(full()));
    }
}
