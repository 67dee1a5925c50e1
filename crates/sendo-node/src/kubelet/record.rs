//! What the agent remembers of a pod between two reconciles.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerStatus;
use sendo::{ObjectExt, Timestamp};

use crate::admission::{Demand, Rejection};
use crate::pod::{Container, Pod};
use crate::probes::Probes;
use crate::restart::{BACKOFF, Backoff, MAX_BACKOFF};
use crate::runtime::{ProbeKind, Run, RunState, Runs, StartFailure};
use crate::status::{ContainerFacts, is_between_runs};
use crate::stop::{Hook, Stopping};

/// A pod of this node.
#[derive(Debug)]
pub(super) struct PodRecord {
    /// When the node acknowledged it: more exact than in the API, which has whole seconds.
    pub(super) acknowledged: Timestamp,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) demand: Demand,
    /// Why it was not admitted.
    pub(super) rejection: Option<Rejection>,
    pub(super) containers: BTreeMap<String, ContainerRecord>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerRecord {
    /// The run that the fields below are about, up to `stopping`.
    pub(super) run: String,
    pub(super) probes: Probes,
    pub(super) post_start: Option<Hook>,
    pub(super) stopping: Option<Stopping>,
    /// Whether it is stopped to be started again.
    pub(super) restart_is_due: bool,
    pub(super) backoff: Backoff,
    /// Until when its next start is delayed, if that was reported.
    pub(super) backs_off_until: Option<Timestamp>,
    pub(super) failed_start: Option<FailedStart>,
}

/// A start that failed, and is tried again.
#[derive(Clone, Debug)]
pub(super) struct FailedStart {
    failure: StartFailure,
    delay: Duration,
    since: Timestamp,
}

/// How long the failure itself is shown, before it is shown that the next attempt waits.
const FAILURE_SHOWN: Duration = Duration::from_secs(2);

impl FailedStart {
    /// A failure at `now`, after the one before it. Attempts to pull an image become rarer.
    pub(super) fn new(failure: StartFailure, before: Option<&FailedStart>, now: Timestamp) -> Self {
        let is_pull = failure.reason == PULL_FAILED;
        let delay = match before.filter(|_| is_pull) {
            Some(before) => (before.delay * 2).min(MAX_BACKOFF),
            None => BACKOFF,
        };
        FailedStart {
            failure,
            delay,
            since: now,
        }
    }

    /// When it is tried again.
    pub(super) fn retry_at(&self) -> Timestamp {
        self.since + self.delay
    }

    /// When what is shown of it changes.
    pub(super) fn next(&self, now: Timestamp) -> Timestamp {
        let shown_until = self.since + FAILURE_SHOWN;
        match self.failure.reason == PULL_FAILED && now < shown_until {
            true => shown_until,
            false => self.retry_at(),
        }
    }

    /// The reason and the message in the container's status.
    fn shown(&self, container: &Container, now: Timestamp) -> (String, String) {
        let StartFailure { reason, message } = &self.failure;
        if *reason == PULL_FAILED && now >= self.since + FAILURE_SHOWN {
            let image = container.image.as_deref().unwrap_or_default();
            let message = format!("Back-off pulling image {image:?}: {reason}: {message}");
            return ("ImagePullBackOff".to_owned(), message);
        }
        ((*reason).to_owned(), message.clone())
    }
}

/// The reason of a start that failed for its image.
const PULL_FAILED: &str = "ErrImagePull";

impl PodRecord {
    /// The record of a container, of its newest run.
    pub(super) fn container(
        &mut self,
        pod: &Pod,
        container: &Container,
        run: Option<&Run>,
    ) -> &mut ContainerRecord {
        let record = self.containers.entry(container.name.clone()).or_default();
        let Some(run) = run.filter(|run| run.id != record.run) else {
            return record;
        };
        let is_first = record.run.is_empty();
        *record = ContainerRecord {
            run: run.id.clone(),
            backoff: record.backoff,
            ..ContainerRecord::default()
        };
        if is_first {
            record.recall(pod, run);
        }
        record
    }

    /// The runs as they are reported: a container is not running before its hook has ended.
    pub(super) fn shown(&self, mut runs: Runs, now: Timestamp) -> Runs {
        for (name, runs) in &mut runs {
            let hook = self
                .containers
                .get(name)
                .and_then(|record| record.post_start);
            if runs.current.is_running() && hook.is_some_and(|hook| hook.pending(now).is_err()) {
                runs.current.state = RunState::Created;
            }
        }
        runs
    }

    /// What the status of a container is made of, beside its runs.
    pub(super) fn facts(
        &self,
        pod: &Pod,
        container: &Container,
        runs: &Runs,
        now: Timestamp,
    ) -> ContainerFacts {
        let run = runs.get(&container.name).map(|runs| &runs.current);
        let default = ContainerRecord::default();
        let record = self.containers.get(&container.name).unwrap_or(&default);
        let is_delayed = record.backs_off_until.is_some() && is_between_runs(pod, container, run);
        let waiting = match &record.failed_start {
            Some(failed) => Some(failed.shown(container, now)),
            None if is_delayed => run.and_then(Run::exit).map(|exit| {
                let delay = record.backoff.delay(exit.finished).as_secs();
                let message = format!(
                    "back-off {} restarting failed container={} pod={}",
                    go_seconds(delay),
                    container.name,
                    identity(pod)
                );
                ("CrashLoopBackOff".to_owned(), message)
            }),
            None => None,
        };
        ContainerFacts {
            waiting,
            is_started: record.probes.is_started(container),
            is_ready: record.probes.is_ready(container),
        }
    }
}

impl ContainerRecord {
    /// Takes over what an agent before this one reported of the run.
    fn recall(&mut self, pod: &Pod, run: &Run) {
        let since = match &run.state {
            RunState::Created => return,
            RunState::Running { since } => *since,
            RunState::Exited(exit) => exit.started,
        };
        self.backoff = Backoff::after_restarts(run.attempt, since);
        let reported = statuses(pod).find(|status| status.container_id.as_deref() == Some(&run.id));
        let Some(status) = reported.filter(|_| run.is_running()) else {
            return;
        };
        self.probes = Probes::reported(status.started == Some(true), status.ready);
        if status
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
        {
            self.post_start = Some(Hook::Done);
        }
    }

    /// When a probe is asked next.
    pub(super) fn probe_due(
        &self,
        kind: ProbeKind,
        container: &Container,
        run: &Run,
    ) -> Option<Timestamp> {
        match run.state {
            RunState::Running { since } => self.probes.due(kind, container, since),
            _ => None,
        }
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let lists = pod.status.iter().flat_map(|status| {
        [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ]
    });
    lists.flatten().flatten()
}

/// A pod as messages name it: `name_namespace(uid)`.
pub(super) fn identity(pod: &Pod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    format!("{}_{namespace}({})", pod.name(), pod.uid())
}

/// A duration as Go writes it: `10s`, `1m20s`, `5m0s`.
fn go_seconds(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
