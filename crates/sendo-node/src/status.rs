//! The status of a pod that its node reports.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet_pods.go`: `generateAPIPodStatus`, `getPhase`,
//!   `convertToAPIContainerStatuses`
//! - `pkg/kubelet/status/generate.go`: `GeneratePodReadyCondition`,
//!   `GenerateContainersReadyCondition`, `GeneratePodInitializedCondition`,
//!   `GeneratePodReadyToStartContainersCondition`

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    ContainerState as State, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{ObjectExt, Timestamp};

use crate::pod::{Container, Pod};
use crate::simulation::{ContainerState, History, Snapshot};

/// The addresses and the history of a pod on this node.
#[derive(Clone, Debug)]
pub(crate) struct PodRecord {
    pub(crate) host_ip: Ipv4Addr,
    pub(crate) pod_ip: Option<Ipv4Addr>,
    pub(crate) history: History,
}

/// The status of `pod` with its containers as in `snapshot`. Conditions whose status does not
/// change keep their transition time.
pub(crate) fn pod_status(
    pod: &Pod,
    snapshot: &Snapshot,
    record: PodRecord,
    now: Timestamp,
) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let ready = snapshot.initialized() && snapshot.running() && !pod.is_being_deleted();
    let ip = record.pod_ip.map(|ip| ip.to_string());

    let mut conditions = Conditions {
        before: before.conditions.clone().unwrap_or_default(),
        generation: pod.metadata.generation,
        now,
        list: Vec::new(),
    };
    let phase = phase(&before, snapshot);
    let unready = match phase {
        "Succeeded" => Some(("PodCompleted", String::new())),
        "Failed" => Some(("PodFailed", String::new())),
        _ => not_ready(&spec.containers, &snapshot.main),
    };
    let finished = matches!(phase, "Succeeded" | "Failed");
    let uninitialized = not_initialized(
        spec.init_containers.as_deref().unwrap_or_default(),
        snapshot,
    );
    conditions.set("PodReadyToStartContainers", !finished, None);
    conditions.set("Initialized", snapshot.initialized(), uninitialized);
    conditions.set("Ready", ready, unready.clone());
    conditions.set("ContainersReady", ready, unready);
    conditions.keep_others();

    let statuses = |containers: &[Container], states: &[ContainerState]| {
        let pairs = containers.iter().zip(states);
        let statuses = pairs.map(|(container, state)| {
            let image = container.image.clone().unwrap_or_default();
            container_status(pod, &container.name, image, state)
        });
        statuses.collect::<Vec<_>>()
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions.list),
        host_ip: Some(record.host_ip.to_string()),
        host_ips: Some(vec![HostIP {
            ip: record.host_ip.to_string(),
        }]),
        pod_ip: ip.clone(),
        pod_ips: ip.map(|ip| vec![PodIP { ip }]),
        start_time: Some(Time(record.history.acknowledged)),
        init_container_statuses: spec
            .init_containers
            .as_ref()
            .map(|containers| statuses(containers, &snapshot.init)),
        container_statuses: Some(main_statuses(pod, &spec.containers, snapshot)),
        ephemeral_container_statuses: spec
            .ephemeral_containers
            .as_ref()
            .map(|containers| ephemeral_statuses(pod, containers, &snapshot.ephemeral)),
        observed_generation: pod.metadata.generation,
        ..before
    }
}

fn phase(before: &PodStatus, snapshot: &Snapshot) -> &'static str {
    let terminated = |state: &ContainerState| matches!(state, ContainerState::Terminated { .. });
    let failed = |state: &ContainerState| matches!(state, ContainerState::Terminated { code, .. } if *code != 0);
    if snapshot.main.iter().all(terminated) {
        return match snapshot.main.iter().any(failed) {
            true => "Failed",
            false => "Succeeded",
        };
    }
    // A pod that has been running does not become pending again.
    let running = snapshot.initialized() && snapshot.main.iter().any(|state| !waiting(state));
    match running || before.phase.as_deref() == Some("Running") {
        true => "Running",
        false => "Pending",
    }
}

fn waiting(state: &ContainerState) -> bool {
    matches!(state, ContainerState::Waiting { .. })
}

/// The reason and the message of a condition that does not hold.
type Reason = Option<(&'static str, String)>;

fn not_ready(containers: &[Container], states: &[ContainerState]) -> Reason {
    let running = |state: &ContainerState| matches!(state, ContainerState::Running { .. });
    let names: Vec<&str> = containers
        .iter()
        .zip(states)
        .filter(|(_, state)| !running(state))
        .map(|(container, _)| container.name.as_str())
        .collect();
    let message = format!("containers with unready status: [{}]", names.join(" "));
    (!names.is_empty()).then_some(("ContainersNotReady", message))
}

fn not_initialized(containers: &[Container], snapshot: &Snapshot) -> Reason {
    let names: Vec<&str> = containers
        .iter()
        .zip(&snapshot.init)
        .filter(|(_, state)| !matches!(state, ContainerState::Terminated { code: 0, .. }))
        .map(|(container, _)| container.name.as_str())
        .collect();
    let message = format!("containers with incomplete status: [{}]", names.join(" "));
    (!snapshot.initialized()).then_some(("ContainersNotInitialized", message))
}

/// The conditions of a pod, in the order in which they are set.
struct Conditions {
    before: Vec<PodCondition>,
    generation: Option<i64>,
    now: Timestamp,
    list: Vec<PodCondition>,
}

impl Conditions {
    fn set(&mut self, type_: &str, holds: bool, reason: Reason) {
        let status = if holds { "True" } else { "False" };
        let reason = reason.filter(|_| !holds);
        let old = self.before.iter().find(|old| old.type_ == type_);
        let since = old
            .filter(|old| old.status == status)
            .and_then(|old| old.last_transition_time.clone());
        self.list.push(PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.as_ref().map(|(reason, _)| (*reason).to_owned()),
            message: reason
                .map(|(_, message)| message)
                .filter(|text| !text.is_empty()),
            last_transition_time: since.or(Some(Time(self.now))),
            observed_generation: self.generation,
            ..PodCondition::default()
        });
    }

    /// Keeps conditions that others set, such as `PodScheduled`.
    fn keep_others(&mut self) {
        let ours: Vec<String> = self.list.iter().map(|c| c.type_.clone()).collect();
        let others = self
            .before
            .drain(..)
            .filter(|old| !ours.contains(&old.type_));
        self.list.extend(others);
    }
}

/// A container that has terminated is not ready, unlike an init container that has succeeded.
fn main_statuses(pod: &Pod, containers: &[Container], snapshot: &Snapshot) -> Vec<ContainerStatus> {
    let states = snapshot.main.iter().zip(&snapshot.restarts);
    let statuses = containers
        .iter()
        .zip(states)
        .map(|(container, (state, restarts))| {
            let image = container.image.clone().unwrap_or_default();
            let status = container_status(pod, &container.name, image, state);
            let last = restarts.last.as_ref().map(|last| {
                let image = container.image.clone().unwrap_or_default();
                container_status(pod, &container.name, image, last).state
            });
            ContainerStatus {
                ready: matches!(state, ContainerState::Running { .. }),
                restart_count: restarts.count,
                last_state: last.flatten(),
                ..status
            }
        });
    statuses.collect()
}

/// An ephemeral container has no probes, so it is neither ready nor started.
fn ephemeral_statuses(
    pod: &Pod,
    containers: &[Container],
    states: &[ContainerState],
) -> Vec<ContainerStatus> {
    let pairs = containers.iter().zip(states);
    let statuses = pairs.map(|(container, state)| {
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus {
            ready: false,
            started: None,
            ..container_status(pod, &container.name, image, state)
        }
    });
    statuses.collect()
}

fn container_status(
    pod: &Pod,
    name: &str,
    image: String,
    state: &ContainerState,
) -> ContainerStatus {
    let id = format!("simulated://{}/{name}", pod.uid());
    let (state, ready, started) = match state {
        ContainerState::Waiting { reason } => (
            State {
                waiting: Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message: None,
                }),
                ..State::default()
            },
            false,
            false,
        ),
        ContainerState::Running { since } => (
            State {
                running: Some(ContainerStateRunning {
                    started_at: Some(Time(*since)),
                }),
                ..State::default()
            },
            true,
            true,
        ),
        ContainerState::Terminated {
            started,
            finished,
            code,
        } => (
            State {
                terminated: Some(ContainerStateTerminated {
                    container_id: Some(id.clone()),
                    exit_code: *code,
                    reason: Some(if *code == 0 { "Completed" } else { "Error" }.to_owned()),
                    started_at: Some(Time(*started)),
                    finished_at: Some(Time(*finished)),
                    ..ContainerStateTerminated::default()
                }),
                ..State::default()
            },
            *code == 0,
            false,
        ),
    };
    let exists = state.waiting.is_none();
    ContainerStatus {
        name: name.to_owned(),
        image_id: if exists {
            format!("simulated://{image}")
        } else {
            String::new()
        },
        image,
        container_id: exists.then_some(id),
        ready,
        started: Some(started),
        restart_count: 0,
        state: Some(state),
        ..ContainerStatus::default()
    }
}
