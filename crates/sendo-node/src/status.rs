//! The status of a pod that its node reports.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet_pods.go`: `generateAPIPodStatus`, `getPhase`,
//!   `convertToAPIContainerStatuses`
//! - `pkg/kubelet/status/generate.go`: `GeneratePodReadyCondition`,
//!   `GenerateContainersReadyCondition`, `GeneratePodInitializedCondition`,
//!   `GeneratePodReadyToStartContainersCondition`
//! - `pkg/kubelet/status/status_manager.go`: `mergePodStatus`
//! - `pkg/kubelet/prober/prober_manager.go`: `UpdatePodStatus`

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::Timestamp;

use crate::pod::{Container, Pod};
use crate::restart::{restarts_after, should_start};
use crate::runtime::{Exit, Run, RunState, Runs};

/// What the status of a pod is made of, beside the pod.
pub(crate) struct Facts<'a> {
    pub(crate) runs: &'a Runs,
    pub(crate) host_ip: Ipv4Addr,
    pub(crate) pod_ip: Option<Ipv4Addr>,
    /// When the node acknowledged the pod.
    pub(crate) acknowledged: Timestamp,
    /// Why the pod has ended, if not by its containers: reason and message.
    pub(crate) ended: Option<(&'a str, &'a str)>,
    /// Whether no container runs, and none will.
    pub(crate) is_over: bool,
}

/// What is known of a container beside its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerFacts {
    /// Why it waits for its next start: reason and message.
    pub(crate) waiting: Option<(String, String)>,
    /// Whether the startup probe has succeeded, or there is none.
    pub(crate) is_started: bool,
    /// Whether the readiness probe succeeds, or there is none.
    pub(crate) is_ready: bool,
}

/// The status of `pod`. Conditions whose status does not change keep their transition time.
pub(crate) fn pod_status(
    pod: &Pod,
    facts: &Facts<'_>,
    of_container: impl Fn(&str) -> ContainerFacts,
    now: Timestamp,
) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    let statuses = |containers: &[Container], role| {
        let statuses = containers.iter().map(|container| {
            let known = of_container(&container.name);
            container_status(pod, container, role, facts, &known)
        });
        statuses.collect::<Vec<_>>()
    };
    let init = statuses(pod.init_containers(), Role::Init);
    let main = statuses(pod.containers(), Role::Main);
    let ephemeral = statuses(pod.ephemeral_containers(), Role::Ephemeral);

    let computed = match (before.phase.as_deref(), facts.ended) {
        // A pod that has ended, also because somebody else said so, stays that way.
        (Some("Succeeded"), _) => "Succeeded",
        (Some("Failed"), _) | (_, Some(_)) => "Failed",
        (_, None) => phase(pod, &init, &main, facts.is_over),
    };
    let has_ended = matches!(computed, "Succeeded" | "Failed");
    let runs = facts.runs.values().any(|runs| runs.current.is_active());
    // The pod has ended when none of its containers runs any more.
    let phase = match before.phase.as_deref() {
        Some("Succeeded" | "Failed") => computed,
        Some("Running") if has_ended && runs => "Running",
        _ if has_ended && runs => "Pending",
        Some("Running") if computed == "Pending" && has_run(pod, facts.runs) => "Running",
        _ => computed,
    };
    let (reason, message) = match facts.ended {
        Some((reason, message)) if !runs => (Some(reason.to_owned()), Some(message.to_owned())),
        _ if before.phase.as_deref() == Some(phase) => {
            (before.reason.clone(), before.message.clone())
        }
        _ => (None, None),
    };

    let mut conditions = Conditions {
        before: before.conditions.clone().unwrap_or_default(),
        generation: pod.metadata.generation,
        now,
        list: Vec::new(),
    };
    let unready = match computed {
        "Succeeded" => Some(("PodCompleted", String::new())),
        "Failed" => Some(("PodFailed", String::new())),
        _ => not_ready(pod, &init, &main),
    };
    let uninitialized = match computed {
        "Succeeded" => None,
        _ => not_initialized(pod, &init, &main),
    };
    conditions.set("PodReadyToStartContainers", !has_ended, None);
    conditions.set("Initialized", uninitialized.is_none(), uninitialized);
    let gates = unready
        .clone()
        .or_else(|| closed_gates(pod, &conditions.before));
    conditions.set("Ready", gates.is_none(), gates);
    conditions.set("ContainersReady", unready.is_none(), unready);
    conditions.keep_others();

    let some = |statuses: Vec<ContainerStatus>| (!statuses.is_empty()).then_some(statuses);
    let ip = facts.pod_ip.map(|ip| ip.to_string());
    PodStatus {
        phase: Some(phase.to_owned()),
        reason,
        message,
        conditions: Some(conditions.list),
        host_ip: Some(facts.host_ip.to_string()),
        host_ips: Some(vec![HostIP {
            ip: facts.host_ip.to_string(),
        }]),
        pod_ip: ip.clone(),
        pod_ips: ip.map(|ip| vec![PodIP { ip }]),
        start_time: Some(time(facts.acknowledged)),
        init_container_statuses: some(init),
        container_statuses: some(main),
        ephemeral_container_statuses: some(ephemeral),
        observed_generation: pod.metadata.generation,
        ..before
    }
}

/// A time as the API has it, in whole seconds, so that a status that is computed again compares
/// equal to the one that was written.
fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The list of a pod's spec that a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Init,
    Main,
    Ephemeral,
}

fn container_status(
    pod: &Pod,
    container: &Container,
    role: Role,
    facts: &Facts<'_>,
    known: &ContainerFacts,
) -> ContainerStatus {
    let runs = facts.runs.get(&container.name);
    let run = runs.map(|runs| &runs.current);
    let mut last = runs
        .and_then(|runs| runs.last.as_ref())
        .and_then(exit_state);
    let state = match run.map(|run| &run.state) {
        Some(RunState::Running { since }) => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(time(*since)),
            }),
            ..ContainerState::default()
        },
        Some(RunState::Exited(_)) if known.waiting.is_none() => {
            run.and_then(exit_state).unwrap_or_default()
        }
        _ => {
            last = run.and_then(exit_state).or(last);
            waiting(pod, known)
        }
    };
    let is_running = state.running.is_some();
    let has_succeeded = state
        .terminated
        .as_ref()
        .is_some_and(|end| end.exit_code == 0);
    let (started, ready) = match role {
        Role::Ephemeral => (None, false),
        Role::Init if !container.is_sidecar() => (Some(is_running), has_succeeded),
        _ => (
            Some(is_running && known.is_started),
            is_running && known.is_ready,
        ),
    };
    let exists = state.waiting.is_none();
    let shown = run
        .filter(|_| exists)
        .or(runs.and_then(|runs| match &runs.current.state {
            RunState::Exited(_) => Some(&runs.current),
            _ => runs.last.as_ref(),
        }));
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: shown.map(|run| run.image_id.clone()).unwrap_or_default(),
        container_id: shown.map(|run| run.id.clone()),
        ready,
        started,
        restart_count: run.map_or(0, |run| run.attempt),
        state: Some(state),
        last_state: last,
        ..ContainerStatus::default()
    }
}

fn waiting(pod: &Pod, known: &ContainerFacts) -> ContainerState {
    let initial = match pod.init_containers().is_empty() {
        true => "ContainerCreating",
        false => "PodInitializing",
    };
    let (reason, message) = match &known.waiting {
        Some((reason, message)) => (reason.clone(), Some(message.clone())),
        None => (initial.to_owned(), None),
    };
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason),
            message,
        }),
        ..ContainerState::default()
    }
}

fn exit_state(run: &Run) -> Option<ContainerState> {
    let exit: &Exit = run.exit()?;
    Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(run.id.clone()),
            exit_code: exit.code,
            reason: Some(exit.reason.clone()),
            message: exit.message.clone(),
            started_at: Some(time(exit.started)),
            finished_at: Some(time(exit.finished)),
            signal: None,
        }),
        ..ContainerState::default()
    })
}

/// Whether a container has been running, so that the pod does not become pending again.
fn has_run(pod: &Pod, runs: &Runs) -> bool {
    let mut main = pod.containers().iter();
    main.any(|container| runs.contains_key(&container.name))
}

/// The exit code that a status tells of: that of its state, or the last one while it waits.
fn exit_code(status: &ContainerStatus) -> Option<i32> {
    let of = |state: Option<&ContainerState>| Some(state?.terminated.as_ref()?.exit_code);
    match &status.state {
        Some(state) if state.terminated.is_some() => of(Some(state)),
        Some(state) if state.waiting.is_some() => of(status.last_state.as_ref()),
        _ => None,
    }
}

fn is_running(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some())
}

fn phase(
    pod: &Pod,
    init: &[ContainerStatus],
    main: &[ContainerStatus],
    is_over: bool,
) -> &'static str {
    let mut pending = false;
    let mut running = 0;
    let mut waiting = 0;
    let has_started = main
        .iter()
        .any(|status| is_running(status) || exit_code(status).is_some());
    for (container, status) in pod.init_containers().iter().zip(init) {
        let code = exit_code(status);
        if container.is_sidecar() {
            let is_pending = code.is_none() && status.started != Some(true);
            pending |= is_pending && !has_started;
            running += usize::from(is_running(status));
            waiting += usize::from(is_pending && !is_running(status));
            continue;
        }
        match code {
            Some(0) => {}
            Some(code) if !restarts_after(pod, container, code) => return "Failed",
            // It failed, and is started again.
            Some(_) => pending = true,
            None => pending = true,
        }
    }
    let mut stopped = 0;
    let mut for_good = 0;
    let mut succeeded = 0;
    for (container, status) in pod.containers().iter().zip(main) {
        match exit_code(status) {
            _ if is_running(status) => running += 1,
            None => waiting += 1,
            Some(code) => {
                stopped += 1;
                for_good += usize::from(!restarts_after(pod, container, code));
                succeeded += usize::from(code == 0);
            }
        }
    }
    let outcome = if stopped == succeeded {
        "Succeeded"
    } else {
        "Failed"
    };
    match () {
        () if pending || waiting > 0 => "Pending",
        () if running > 0 => "Running",
        () if stopped == 0 => "Pending",
        () if is_over || stopped == for_good => outcome,
        () => "Running",
    }
}

/// The reason and the message of a condition that does not hold.
type Reason = Option<(&'static str, String)>;

fn not_ready(pod: &Pod, init: &[ContainerStatus], main: &[ContainerStatus]) -> Reason {
    let init = pod.init_containers().iter().zip(init);
    let sidecars = init.filter(|(container, _)| container.is_sidecar());
    let statuses = sidecars.map(|(_, status)| status).chain(main);
    let unready = statuses.filter(|status| !status.ready);
    let names: Vec<&str> = unready.map(|status| status.name.as_str()).collect();
    let message = format!("containers with unready status: [{}]", names.join(" "));
    (!names.is_empty()).then_some(("ContainersNotReady", message))
}

fn closed_gates(pod: &Pod, conditions: &[PodCondition]) -> Reason {
    let gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed = gates.filter_map(|gate| {
        let type_ = &gate.condition_type;
        let condition = conditions
            .iter()
            .find(|condition| condition.type_ == *type_);
        match condition.map(|condition| condition.status.as_str()) {
            Some("True") => None,
            Some(status) => Some(format!(
                "the status of pod readiness gate {type_:?} is not \"True\", but {status}"
            )),
            None => Some(format!(
                "corresponding condition of pod readiness gate {type_:?} does not exist."
            )),
        }
    });
    let closed: Vec<String> = closed.collect();
    (!closed.is_empty()).then(|| ("ReadinessGatesNotReady", closed.join(", ")))
}

fn not_initialized(pod: &Pod, init: &[ContainerStatus], main: &[ContainerStatus]) -> Reason {
    let has_started = |status: &ContainerStatus| is_running(status) || exit_code(status).is_some();
    if main.iter().any(has_started) {
        return None;
    }
    let pairs = pod.init_containers().iter().zip(init);
    let incomplete = pairs.filter(|(container, status)| match container.is_sidecar() {
        true => status.started != Some(true),
        false => !status.ready,
    });
    let names: Vec<&str> = incomplete.map(|(_, status)| status.name.as_str()).collect();
    let message = format!("containers with incomplete status: [{}]", names.join(" "));
    (!names.is_empty()).then_some(("ContainersNotInitialized", message))
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
            last_transition_time: since.or(Some(time(self.now))),
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

/// Whether the newest run has exited and another one follows.
pub(crate) fn is_between_runs(pod: &Pod, container: &Container, run: Option<&Run>) -> bool {
    run.is_some_and(|run| run.exit().is_some()) && should_start(pod, container, run)
}
