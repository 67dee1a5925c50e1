//! A pod, as much of it as its node looks at.
//!
//! Nothing is executed, so of a spec little more than names counts. The fields
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
    /// Its metadata, all of them.
    pub metadata: ObjectMeta,
    /// What it is to run.
    pub spec: Option<PodSpec>,
    /// What was reported of it: whole, for it is written back.
    pub status: Option<PodStatus>,
}

/// What a pod is to run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Its containers.
    pub containers: Vec<Container>,
    /// Those that joined it later.
    pub ephemeral_containers: Option<Vec<Container>>,
    /// Whether it has the host's address.
    pub host_network: Option<bool>,
    /// Those that run before, or beside as sidecars.
    pub init_containers: Option<Vec<Container>>,
}

/// A container, of any of the lists.
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

/// The fields above as they stand in JSON: the others are not even decoded.
const LOOKED_AT: [&str; 11] = [
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
    "status",
];

/// How pods are read from the API server.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new().only(LOOKED_AT)
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

    /// A pod with all that the type has: a new field is to be set here too.
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
