//! What the agent does next for a pod: a function of the pod, what runs of it, what the agent
//! remembers, and the time.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet.go`: `SyncPod`, `SyncTerminatingPod`
//! - `pkg/kubelet/kuberuntime/kuberuntime_manager.go`: `SyncPod`
//! - `pkg/kubelet/kuberuntime/kuberuntime_container.go`: `startContainer`, `killContainersWithSyncResult`
//! - `pkg/kubelet/active_deadline.go`: `pastActiveDeadline`

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use sendo::EventSeverity::{self, Normal, Warning};
use sendo::{ObjectExt, Timestamp};

use super::record::{PodRecord, identity};
use crate::actions::{StopContainer, actions};
use crate::pod::{Container, Pod};
use crate::runtime::{ContainerRuntime, ProbeKind, Run, Runs, Signal};
use crate::stop::{Hook, Stopping};

/// What is to be done for a pod now, and when to look at it again.
#[derive(Debug, Default)]
pub(super) struct Step<'p> {
    pub(super) starts: Vec<Start<'p>>,
    pub(super) signals: Vec<(&'p str, Signal)>,
    pub(super) jobs: Vec<Job<'p>>,
    pub(super) events: Vec<(EventSeverity, &'static str, String)>,
    /// When something is due next.
    pub(super) next: Option<Timestamp>,
    /// Whether no container is to run any more.
    pub(super) is_terminating: bool,
}

/// A container to start.
#[derive(Debug)]
pub(super) struct Start<'p> {
    pub(super) container: &'p Container,
    pub(super) attempt: i32,
    /// When its last run ended.
    pub(super) exited: Option<Timestamp>,
}

/// Work that takes a while.
#[derive(Debug)]
pub(super) enum Job<'p> {
    Probe(&'p Container, ProbeKind),
    PostStart(&'p Container, &'p LifecycleHandler),
    PreStop(&'p Container, &'p LifecycleHandler),
}

impl<'p> Step<'p> {
    fn look_at(&mut self, time: Timestamp) {
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }

    fn event(&mut self, severity: EventSeverity, reason: &'static str, message: String) {
        self.events.push((severity, reason, message));
    }
}

/// Finds out what to do at `now`, and notes in the record that it is being done.
pub(super) fn next_step<'p>(
    pod: &'p Pod,
    record: &mut PodRecord,
    runs: &Runs,
    runtime: &impl ContainerRuntime,
    now: Timestamp,
) -> Step<'p> {
    let mut step = Step::default();
    if let Some(deadline) = deadline(pod, record).filter(|deadline| *deadline > now) {
        step.look_at(deadline);
    }
    step.is_terminating = is_terminating(pod, record, now);
    for container in pod.all_containers() {
        let run = runs.get(&container.name).map(|runs| &runs.current);
        record.container(pod, container, run);
        if let Some(run) = run.filter(|run| run.is_running()) {
            post_start(container, record, now, &mut step);
            probe(pod, container, run, record, runtime, now, &mut step);
        }
    }
    if step.is_terminating {
        stop_pod(pod, runs, record, now, &mut step);
    } else {
        let shown = record.shown(runs.clone(), now);
        let next = actions(pod, &shown, |container| {
            let known = record.containers.get(&container.name);
            let known = known.cloned().unwrap_or_default();
            known.probes.health(container, known.restart_is_due)
        });
        if next.stop_pod {
            stop_pod(pod, runs, record, now, &mut step);
        }
        for stop in &next.stop {
            stop_for_probe(pod, stop, record, now, &mut step);
        }
        for container in next.start {
            start(pod, container, runs, record, now, &mut step);
        }
    }
    signal(pod, runs, record, now, &mut step);
    step
}

/// When the pod has been active for as long as it may.
pub(super) fn deadline(pod: &Pod, record: &PodRecord) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let allowed = Duration::from_secs(u64::try_from(seconds).ok()?);
    Some(record.acknowledged + allowed)
}

fn is_terminating(pod: &Pod, record: &PodRecord, now: Timestamp) -> bool {
    pod.is_being_deleted()
        || pod.has_ended()
        || record.rejection.is_some()
        || deadline(pod, record).is_some_and(|deadline| deadline <= now)
}

/// Begins the hook of a container that has just started, and ends the container if it failed.
fn post_start<'p>(
    container: &'p Container,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let hooks = container.lifecycle.as_ref();
    let Some(hook) = hooks.and_then(|hooks| hooks.post_start.as_ref()) else {
        return;
    };
    let Some(known) = record.containers.get_mut(&container.name) else {
        return;
    };
    let begun = *known.post_start.get_or_insert_with(|| {
        if hook.sleep.is_none() {
            step.jobs.push(Job::PostStart(container, hook));
        }
        begin(hook, now)
    });
    if let Err(Some(end)) = begun.pending(now) {
        step.look_at(end);
    }
}

/// A hook that begins now.
fn begin(hook: &LifecycleHandler, now: Timestamp) -> Hook {
    match &hook.sleep {
        Some(sleep) => {
            let seconds = u64::try_from(sleep.seconds).unwrap_or_default();
            Hook::SleepsUntil(now + Duration::from_secs(seconds))
        }
        None => Hook::Running,
    }
}

/// Has the probes asked that are due. Answers that are declared are taken at once.
fn probe<'p>(
    pod: &Pod,
    container: &'p Container,
    run: &Run,
    record: &mut PodRecord,
    runtime: &impl ContainerRuntime,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let Some(known) = record.containers.get_mut(&container.name) else {
        return;
    };
    if known
        .post_start
        .is_some_and(|hook| hook.pending(now).is_err())
    {
        return;
    }
    for kind in ProbeKind::ALL {
        let Some(probe) = kind.probe(container) else {
            continue;
        };
        // What is ended anyway is not started again.
        if step.is_terminating && kind != ProbeKind::Readiness {
            continue;
        }
        let declared = runtime.declared_answer(pod, container, kind);
        loop {
            let is_settled = |answer| known.probes.is_settled(kind, answer);
            if declared.as_ref().is_some_and(is_settled) {
                break;
            }
            let Some(due) = known.probe_due(kind, container, run) else {
                break;
            };
            if due > now {
                step.look_at(due);
                break;
            }
            known.probes.ask(kind, now);
            let Some(answer) = &declared else {
                step.jobs.push(Job::Probe(container, kind));
                break;
            };
            known.probes.answered(kind, probe, answer);
            if let Err(cause) = answer {
                step.event(
                    Warning,
                    "Unhealthy",
                    format!("{} probe failed: {cause}", kind.name()),
                );
            }
        }
    }
}

/// Begins to stop every container that runs.
fn stop_pod<'p>(
    pod: &'p Pod,
    runs: &Runs,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let grace = grace(pod);
    for container in pod.all_containers() {
        if runs
            .get(&container.name)
            .is_some_and(|runs| runs.current.is_active())
        {
            let message = format!("Stopping container {}", container.name);
            begin_stop(container, message, grace, record, now, step);
        }
    }
}

fn stop_for_probe<'p>(
    pod: &Pod,
    stop: &StopContainer<'p>,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let own = stop
        .grace_seconds
        .and_then(|grace| u64::try_from(grace).ok());
    let grace = own.map_or_else(|| grace(pod), Duration::from_secs);
    begin_stop(
        stop.container,
        stop.message.clone(),
        grace,
        record,
        now,
        step,
    );
    if let Some(known) = record.containers.get_mut(&stop.container.name) {
        known.restart_is_due = stop.restart;
    }
}

/// How long containers may take to terminate.
fn grace(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref();
    let of_spec = spec.and_then(|spec| spec.termination_grace_period_seconds);
    let of_deletion = pod.metadata.deletion_grace_period_seconds;
    let seconds = of_deletion.or(of_spec).unwrap_or(30);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn begin_stop<'p>(
    container: &'p Container,
    message: String,
    grace: Duration,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let known = record.containers.entry(container.name.clone()).or_default();
    if let Some(stopping) = &mut known.stopping {
        stopping.shorten(now + grace, now);
        return;
    }
    let hooks = container.lifecycle.as_ref();
    let hook = hooks.and_then(|hooks| hooks.pre_stop.as_ref());
    let hook = hook.filter(|_| !grace.is_zero());
    known.stopping = Some(Stopping::new(
        now,
        grace,
        hook.map_or(Hook::Done, |hook| begin(hook, now)),
    ));
    if let Some(hook) = hook.filter(|hook| hook.sleep.is_none()) {
        step.jobs.push(Job::PreStop(container, hook));
    }
    step.event(Normal, "Killing", message);
}

/// Signals the containers that are being stopped. Sidecars get their turn after the containers,
/// the last one first.
fn signal<'p>(
    pod: &'p Pod,
    runs: &Runs,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let is_active = |container: &Container| {
        runs.get(&container.name)
            .is_some_and(|runs| runs.current.is_active())
    };
    let mut others_have_ended = !pod.containers().iter().any(is_active);
    let sidecars = pod.init_containers().iter().rev();
    let order = pod.containers().iter().chain(pod.ephemeral_containers());
    for container in order
        .chain(sidecars)
        .filter(|container| is_active(container))
    {
        let waits = container.is_sidecar() && !others_have_ended;
        let known = record.containers.get_mut(&container.name);
        let stopping = known.and_then(|known| {
            known
                .stopping
                .as_mut()
                .map(|stop| (stop, known.restart_is_due))
        });
        let Some((stopping, is_restarted)) = stopping else {
            continue;
        };
        let next = stopping.step(!waits || is_restarted, now);
        if let Some(signal) = next.signal {
            step.signals.push((&container.name, signal));
        }
        if let Some(next) = next.next {
            step.look_at(next);
        }
        if container.is_sidecar() {
            others_have_ended = false;
        }
    }
}

/// Has a container started, unless its last run or its last attempt to start delays that.
fn start<'p>(
    pod: &Pod,
    container: &'p Container,
    runs: &Runs,
    record: &mut PodRecord,
    now: Timestamp,
    step: &mut Step<'p>,
) {
    let run = runs.get(&container.name).map(|runs| &runs.current);
    let known = record.container(pod, container, run);
    let exited = run.and_then(Run::exit).map(|exit| exit.finished);
    let allowed = exited.map(|exited| exited + known.backoff.delay(exited));
    if let Some(allowed) = allowed.filter(|allowed| *allowed > now) {
        if known.backs_off_until != Some(allowed) {
            known.backs_off_until = Some(allowed);
            let name = &container.name;
            let message = format!(
                "Back-off restarting failed container {name} in pod {}",
                identity(pod)
            );
            step.event(Warning, "BackOff", message);
        }
        step.look_at(allowed);
        return;
    }
    if let Some(failed) = &known.failed_start
        && failed.retry_at() > now
    {
        let next = failed.next(now);
        step.look_at(next);
        return;
    }
    step.starts.push(Start {
        container,
        attempt: run.map_or(0, |run| run.attempt + 1),
        exited,
    });
}
