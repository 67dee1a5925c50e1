//! The part of a pod that its node reads while it runs.
//!
//! What only the start of a process needs (commands, environment, volumes) is not here, so that a
//! node with very many simulated pods stays small. The fields have the names and the meaning that
//! they have in [`v1::Pod`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, Lifecycle, PodReadinessGate, PodStatus, Probe};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
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
    /// How long it may be active, in seconds.
    pub active_deadline_seconds: Option<i64>,
    /// Its containers.
    pub containers: Vec<Container>,
    /// Its ephemeral containers, which were added later.
    pub ephemeral_containers: Option<Vec<Container>>,
    /// Whether it uses the host's network, and so its address.
    pub host_network: Option<bool>,
    /// Its init containers, sidecars among them.
    pub init_containers: Option<Vec<Container>>,
    /// What running it costs beside its containers.
    pub overhead: Option<BTreeMap<String, Quantity>>,
    /// Conditions set by others without which it is not ready.
    pub readiness_gates: Option<Vec<PodReadinessGate>>,
    /// Whether its containers are started again after they exit: `Always`, `OnFailure` or `Never`.
    pub restart_policy: Option<String>,
    /// How long its containers may take to terminate, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
}

/// A container of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// The image it runs.
    pub image: Option<String>,
    /// What happens after its start and before its end.
    pub lifecycle: Option<Box<Lifecycle>>,
    /// Whether it has to be started again.
    pub liveness_probe: Option<Box<Probe>>,
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Option<Vec<Port>>,
    /// Whether it serves.
    pub readiness_probe: Option<Box<Probe>>,
    /// What it requests.
    pub resources: Option<Resources>,
    /// `Always` makes an init container a sidecar; of others it takes the place of the pod's.
    pub restart_policy: Option<String>,
    /// Exit codes after which it is started again whatever the policy says.
    pub restart_policy_rules: Option<Vec<RestartRule>>,
    /// Whether it has started.
    pub startup_probe: Option<Box<Probe>>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Port {
    /// The port in the pod.
    pub container_port: i32,
    /// The address of the host, all by default.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// The port on the host that is to lead to it.
    pub host_port: Option<i32>,
    /// Its name, by which probes refer to it.
    pub name: Option<String>,
    /// `TCP` by default.
    pub protocol: Option<String>,
}

/// What a container requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// How much of each resource.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// A rule of a container's restarts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    /// What happens: `Restart`.
    pub action: String,
    /// For which exit codes.
    pub exit_codes: Option<ExitCodes>,
}

/// A set of exit codes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Option<Vec<i32>>,
}

/// The JSON paths of the fields above; other fields are skipped and not decoded.
const FIELDS: [&str; 36] = [
    "spec.activeDeadlineSeconds",
    "spec.containers.image",
    "spec.containers.lifecycle",
    "spec.containers.livenessProbe",
    "spec.containers.name",
    "spec.containers.ports",
    "spec.containers.readinessProbe",
    "spec.containers.resources.requests",
    "spec.containers.restartPolicy",
    "spec.containers.restartPolicyRules",
    "spec.containers.startupProbe",
    "spec.ephemeralContainers.image",
    "spec.ephemeralContainers.lifecycle",
    "spec.ephemeralContainers.livenessProbe",
    "spec.ephemeralContainers.name",
    "spec.ephemeralContainers.ports",
    "spec.ephemeralContainers.readinessProbe",
    "spec.ephemeralContainers.resources.requests",
    "spec.ephemeralContainers.restartPolicy",
    "spec.ephemeralContainers.restartPolicyRules",
    "spec.ephemeralContainers.startupProbe",
    "spec.hostNetwork",
    "spec.initContainers.image",
    "spec.initContainers.lifecycle",
    "spec.initContainers.livenessProbe",
    "spec.initContainers.name",
    "spec.initContainers.ports",
    "spec.initContainers.readinessProbe",
    "spec.initContainers.resources.requests",
    "spec.initContainers.restartPolicy",
    "spec.initContainers.restartPolicyRules",
    "spec.initContainers.startupProbe",
    "spec.overhead",
    "spec.readinessGates",
    "spec.restartPolicy",
    "spec.terminationGracePeriodSeconds",
];

/// How pods are decoded and cached.
pub(crate) fn cached() -> KindOptions<Pod> {
    KindOptions::new().only(FIELDS.into_iter().chain(["status"]))
}

impl Pod {
    /// Its init containers, sidecars among them.
    pub(crate) fn init_containers(&self) -> &[Container] {
        let spec = self.spec.as_ref();
        let list = spec.and_then(|spec| spec.init_containers.as_deref());
        list.unwrap_or_default()
    }

    /// Its containers, without init and ephemeral ones.
    pub(crate) fn containers(&self) -> &[Container] {
        let spec = self.spec.as_ref();
        spec.map(|spec| &*spec.containers).unwrap_or_default()
    }

    /// Its ephemeral containers.
    pub(crate) fn ephemeral_containers(&self) -> &[Container] {
        let spec = self.spec.as_ref();
        let list = spec.and_then(|spec| spec.ephemeral_containers.as_deref());
        list.unwrap_or_default()
    }

    /// All its containers, in the order in which they start.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Container> {
        let init_and_main = self.init_containers().iter().chain(self.containers());
        init_and_main.chain(self.ephemeral_containers())
    }

    /// Whether it uses the host's network.
    pub(crate) fn is_on_host_network(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.host_network) == Some(true)
    }

    /// Whether it has ended according to its status.
    pub(crate) fn has_ended(&self) -> bool {
        let status = self.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }
}

impl Container {
    /// Whether an init container runs beside the containers, as a sidecar.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
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
    use k8s_openapi::api::core::v1::{LifecycleHandler, SleepAction};
    use serde_json::json;

    fn probe(seconds: i32) -> Option<Box<Probe>> {
        Some(Box::new(Probe {
            period_seconds: Some(seconds),
            ..Probe::default()
        }))
    }

    /// A pod with every field of the type set; a new field has to be set here too.
    fn full() -> Pod {
        let amounts = || BTreeMap::from([("cpu".to_owned(), Quantity("1".to_owned()))]);
        let hook = LifecycleHandler {
            sleep: Some(SleepAction { seconds: 1 }),
            ..LifecycleHandler::default()
        };
        let container = |name: &str| Container {
            image: Some("i".to_owned()),
            lifecycle: Some(Box::new(Lifecycle {
                pre_stop: Some(hook.clone()),
                ..Lifecycle::default()
            })),
            liveness_probe: probe(1),
            name: name.to_owned(),
            ports: Some(vec![Port {
                container_port: 80,
                host_ip: Some("10.0.0.1".to_owned()),
                host_port: Some(8080),
                name: Some("web".to_owned()),
                protocol: Some("TCP".to_owned()),
            }]),
            readiness_probe: probe(2),
            resources: Some(Resources {
                requests: Some(amounts()),
            }),
            restart_policy: Some("Always".to_owned()),
            restart_policy_rules: Some(vec![RestartRule {
                action: "Restart".to_owned(),
                exit_codes: Some(ExitCodes {
                    operator: "In".to_owned(),
                    values: Some(vec![42]),
                }),
            }]),
            startup_probe: probe(3),
        };
        Pod {
            metadata: ObjectMeta {
                name: Some("p".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                active_deadline_seconds: Some(60),
                containers: vec![container("a")],
                ephemeral_containers: Some(vec![container("b")]),
                host_network: Some(true),
                init_containers: Some(vec![container("c")]),
                overhead: Some(amounts()),
                readiness_gates: Some(vec![PodReadinessGate {
                    condition_type: "g".to_owned(),
                }]),
                restart_policy: Some("Never".to_owned()),
                termination_grace_period_seconds: Some(5),
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
        let kept = cached().kept(json!(full()).to_string().as_bytes());
        assert_eq!(kept, Ok(full()));
        // Kubernetes knows every one of these fields too; rules of restarts are younger than the
        // oldest release whose types can be chosen.
        let mut whole = full();
        let spec = whole.spec.as_mut().unwrap();
        let lists = [&mut spec.init_containers, &mut spec.ephemeral_containers];
        let others = lists.into_iter().flatten().flatten();
        for container in spec.containers.iter_mut().chain(others) {
            container.restart_policy_rules = None;
        }
        let typed: v1::Pod = serde_json::from_value(json!(whole)).expect("a whole pod");
        let kept = cached().kept(json!(typed).to_string().as_bytes());
        assert_eq!(kept, Ok(whole));
    }
}
