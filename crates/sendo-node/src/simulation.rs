//! Simulated containers: the state of a pod's containers at a given time.
//!
//! A pod's life on its node is a sequence of times: the node acknowledges the pod,
//! its init containers run one after the other, its containers start, some exit by
//! themselves and may be started again, and, once termination is requested, all stop. All of them follow from when the pod was
//! acknowledged, when an ephemeral container was added to it, when its termination
//! was requested, and the pace; so the state at any time is a pure function, and an
//! agent that restarts finds these times in the pod's status.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kuberuntime/kuberuntime_manager.go`: `computePodActions`, `SyncPod`
//! - `pkg/kubelet/kuberuntime/kuberuntime_manager.go`: `doBackOff`
//! - `pkg/kubelet/kubelet_pods.go`: `convertToAPIContainerStatuses`

use std::collections::BTreeMap;
use std::time::Duration;

use sendo::Timestamp;

use crate::Pace;
use crate::exits::{self, Exit};
use crate::pod::{Container, Pod};

/// The delay before the second restart of a container; each further one doubles it.
const BACKOFF: Duration = Duration::from_secs(10);
/// The longest delay before a restart.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started: an init container before it has not finished, or it is being created.
    Waiting {
        /// `PodInitializing`, `ContainerCreating`, or `CrashLoopBackOff` between two runs.
        reason: &'static str,
    },
    /// Running since a time.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Terminated.
    Terminated {
        /// When it started.
        started: Timestamp,
        /// When it terminated.
        finished: Timestamp,
        /// Its exit code: 0 for an init container that finished, 143 for one that was terminated,
        /// or that of its [`Exit`].
        code: i32,
    },
}

/// A pod's containers at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The init containers, in order.
    pub init: Vec<ContainerState>,
    /// The containers.
    pub main: Vec<ContainerState>,
    /// How often the containers have been started again.
    pub restarts: Vec<Restarts>,
    /// The ephemeral containers; the state of the pod does not depend on them.
    pub ephemeral: Vec<ContainerState>,
    /// When the state changes next if nothing else happens; `None` if it does not.
    pub next: Option<Timestamp>,
}

/// The earlier runs of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restarts {
    /// How many have ended and were followed by another one.
    pub count: i32,
    /// How the last one ended.
    pub last: Option<ContainerState>,
}

impl Snapshot {
    /// Whether all init containers have finished, or run as sidecars.
    pub fn initialized(&self) -> bool {
        self.init.iter().all(|state| {
            matches!(
                state,
                ContainerState::Terminated { code: 0, .. } | ContainerState::Running { .. }
            )
        })
    }

    /// Whether all containers run.
    pub fn running(&self) -> bool {
        let running = |state: &ContainerState| matches!(state, ContainerState::Running { .. });
        self.main.iter().all(running)
    }

    /// Whether no container runs, and none will.
    pub fn terminated(&self) -> bool {
        let stopped = |state: &ContainerState| !matches!(state, ContainerState::Running { .. });
        let all = self.init.iter().chain(&self.main).chain(&self.ephemeral);
        self.next.is_none() && all.into_iter().all(stopped)
    }
}

/// The times of what has happened to a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// When the node acknowledged the pod: `status.startTime`.
    pub acknowledged: Timestamp,
    /// When the node first saw its ephemeral containers, by name.
    pub ephemeral_seen: BTreeMap<String, Timestamp>,
    /// When its termination was requested, if it was.
    pub termination_requested: Option<Timestamp>,
}

/// The state of a pod's containers at `now`.
pub fn snapshot(pod: &Pod, history: &History, pace: Pace, now: Timestamp) -> Snapshot {
    let spec = pod.spec.clone().unwrap_or_default();
    let stop = history.termination_requested;
    let mut timeline = Timeline {
        pace,
        stop,
        stopped: stop.map(|stop| stop + pace.stop.min(grace(pod))),
        now,
        next: None,
    };
    let mut previous_done = history.acknowledged;
    let mut init = Vec::new();
    for container in spec.init_containers.iter().flatten() {
        let (state, after) = timeline.init(container, previous_done);
        init.push(state);
        previous_done = after;
    }
    let exit = exits::exit(pod, pace);
    let runs: Vec<_> = spec
        .containers
        .iter()
        .map(|_| match &exit {
            None => {
                let state = timeline.main(previous_done, history.acknowledged);
                (state, Restarts::default())
            }
            Some(exit) => timeline.exiting(previous_done, history.acknowledged, exit),
        })
        .collect();
    let (main, restarts): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    if let Some(finished) = all_finished(&main) {
        timeline.stop_sidecars(&mut init, finished);
    }
    // Ephemeral containers wait for no other container.
    let ephemeral = ephemeral_containers(pod).map(|name| {
        let seen = history.ephemeral_seen.get(name).copied();
        timeline.main(seen.unwrap_or(history.acknowledged), history.acknowledged)
    });
    let ephemeral = ephemeral.collect();
    Snapshot {
        init,
        main,
        restarts,
        ephemeral,
        next: timeline.next,
    }
}

/// When the last container terminated, if all have.
fn all_finished(main: &[ContainerState]) -> Option<Timestamp> {
    let times = main.iter().map(|state| match state {
        ContainerState::Terminated { finished, .. } => Some(*finished),
        _ => None,
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The names of a pod's ephemeral containers.
pub(crate) fn ephemeral_containers(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.ephemeral_containers.iter().flatten())
        .map(|container| container.name.as_str())
}

/// When the node first saw each ephemeral container that has started according to the pod's status.
pub(crate) fn ephemeral_seen(pod: &Pod, pace: Pace) -> BTreeMap<String, Timestamp> {
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.ephemeral_container_statuses.iter().flatten());
    let started = statuses.filter_map(|status| {
        let running = status.state.as_ref()?.running.as_ref()?;
        let since = running.started_at.as_ref()?.0;
        Some((status.name.clone(), since - pace.start))
    });
    started.collect()
}

/// When the termination of the pod was requested, to the second: its deletion timestamp lies a
/// grace period after that.
pub(crate) fn termination_requested(pod: &Pod) -> Option<Timestamp> {
    let due = pod.metadata.deletion_timestamp.as_ref()?.0;
    Some(due - grace(pod))
}

fn grace(pod: &Pod) -> Duration {
    let seconds = pod.metadata.deletion_grace_period_seconds;
    Duration::from_secs(seconds.unwrap_or_default().max(0) as u64)
}

/// The sequence of times of a pod, from which the states of its containers are computed in order.
struct Timeline {
    pace: Pace,
    stop: Option<Timestamp>,
    stopped: Option<Timestamp>,
    now: Timestamp,
    next: Option<Timestamp>,
}

impl Timeline {
    /// Whether `time` has passed. If it will pass later, the state changes then, which `next` records.
    fn has_passed(&mut self, time: Timestamp) -> bool {
        if time <= self.now {
            return true;
        }
        // No container starts after termination was requested.
        if self.stop.is_none_or(|stop| time <= stop) {
            self.next = Some(self.next.map_or(time, |next| next.min(time)));
        }
        false
    }

    /// Whether something that would start at `start` never does.
    fn never_starts(&self, start: Timestamp) -> bool {
        self.stop.is_some_and(|stop| start > stop)
    }

    /// The state of an init container that may be created at `previous_done`, and when the next
    /// container may be created.
    fn init(
        &mut self,
        container: &Container,
        previous_done: Timestamp,
    ) -> (ContainerState, Timestamp) {
        let start = previous_done + self.pace.start;
        let waiting = ContainerState::Waiting {
            reason: "PodInitializing",
        };
        if self.never_starts(start) || !self.has_passed(start) {
            return (waiting, start + self.pace.init);
        }
        if container.restart_policy.as_deref() == Some("Always") {
            // A sidecar keeps running: the containers after it do not wait for its termination.
            return (self.until_stopped(start), start);
        }
        let done = start + self.pace.init;
        if self.stop.is_none_or(|stop| done <= stop) && self.has_passed(done) {
            let finished = ContainerState::Terminated {
                started: start,
                finished: done,
                code: 0,
            };
            return (finished, done);
        }
        (self.until_stopped(start), done)
    }

    fn main(&mut self, previous_done: Timestamp, acknowledged: Timestamp) -> ContainerState {
        let start = previous_done + self.pace.start;
        if self.never_starts(start) || !self.has_passed(start) {
            let initializing = previous_done > acknowledged && previous_done > self.now;
            let reason = if initializing {
                "PodInitializing"
            } else {
                "ContainerCreating"
            };
            return ContainerState::Waiting { reason };
        }
        self.until_stopped(start)
    }

    /// The state of a container that exits by itself, and is started again if its pod wants that.
    fn exiting(
        &mut self,
        previous_done: Timestamp,
        acknowledged: Timestamp,
        exit: &Exit,
    ) -> (ContainerState, Restarts) {
        let mut restarts = Restarts::default();
        let mut created = previous_done;
        loop {
            let start = created + self.pace.start;
            let end = start + exit.after;
            if self.never_starts(start)
                && let Some(last) = &restarts.last
            {
                // Nothing follows the last run.
                restarts.count -= 1;
                return (last.clone(), restarts);
            }
            let terminated_before = self.stopped.is_some_and(|stopped| stopped < end);
            if self.never_starts(start) || terminated_before || !self.has_passed(end) {
                let waiting = restarts.count > 0 && !self.has_passed(start);
                let state = match waiting {
                    true => ContainerState::Waiting {
                        reason: "CrashLoopBackOff",
                    },
                    false => self.main(created, acknowledged),
                };
                return (state, restarts);
            }
            let ended = ContainerState::Terminated {
                started: start,
                finished: end,
                code: exit.code,
            };
            if !exit.restarts {
                return (ended, restarts);
            }
            let delay = match u32::try_from(restarts.count).unwrap_or(u32::MAX) {
                0 => Duration::ZERO,
                count => BACKOFF.saturating_mul(2_u32.saturating_pow(count - 1)),
            };
            created = end + delay.min(MAX_BACKOFF);
            restarts.count += 1;
            restarts.last = Some(ended);
        }
    }

    /// Sidecars stop after all containers have terminated for good.
    fn stop_sidecars(&mut self, init: &mut [ContainerState], finished: Timestamp) {
        let stopped = finished + self.pace.stop;
        for state in init {
            let ContainerState::Running { since } = *state else {
                continue;
            };
            if self.has_passed(stopped) {
                *state = ContainerState::Terminated {
                    started: since,
                    finished: stopped,
                    code: 0,
                };
            }
        }
    }

    /// Running from `start` until the pod's containers stop.
    fn until_stopped(&mut self, start: Timestamp) -> ContainerState {
        match self.stopped {
            Some(stopped) if stopped <= self.now => ContainerState::Terminated {
                started: start,
                finished: stopped,
                code: 143,
            },
            Some(stopped) => {
                self.next = Some(self.next.map_or(stopped, |next| next.min(stopped)));
                ContainerState::Running { since: start }
            }
            None => ContainerState::Running { since: start },
        }
    }
}

/// When a pod was acknowledged by its node according to its status.
pub(crate) fn acknowledged(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    status.start_time.as_ref().map(|time| time.0)
}

/// Whether a pod has finished according to its status.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PACE: Pace = Pace {
        start: Duration::from_secs(1),
        init: Duration::from_secs(10),
        stop: Duration::from_secs(2),
        job: Duration::from_secs(5),
    };

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn pod(init: &[Value], metadata: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"initContainers": init, "containers": [{"name": "main"}]},
        }))
        .unwrap()
    }

    fn after(pod: &Pod, seconds: u64) -> Snapshot {
        let history = History {
            acknowledged: start(),
            ephemeral_seen: [("debugger".to_owned(), start() + Duration::from_secs(40))].into(),
            termination_requested: termination_requested(pod),
        };
        snapshot(pod, &history, PACE, start() + Duration::from_secs(seconds))
    }

    #[test]
    fn init_containers_run_one_after_the_other_and_then_the_containers() {
        let pod = pod(&[json!({"name": "a"}), json!({"name": "b"})], json!({}));
        // a: 1..11, b: 12..22, main: 23..
        let early = after(&pod, 5);
        assert!(matches!(early.init[0], ContainerState::Running { .. }));
        assert!(matches!(early.init[1], ContainerState::Waiting { .. }));
        assert!(matches!(
            early.main[0],
            ContainerState::Waiting {
                reason: "PodInitializing"
            }
        ));
        assert_eq!(early.next, Some(start() + Duration::from_secs(11)));

        let later = after(&pod, 15);
        assert!(matches!(
            later.init[0],
            ContainerState::Terminated { code: 0, .. }
        ));
        assert!(matches!(later.init[1], ContainerState::Running { .. }));

        let last = after(&pod, 23);
        assert!(last.initialized() && last.running());
        assert_eq!(last.next, None);
    }

    #[test]
    fn an_ephemeral_container_runs_from_when_it_is_added_until_the_pod_terminates() {
        let mut pod = pod(
            &[],
            json!({"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}),
        );
        let debugger = json!([{"name": "debugger", "image": "i"}]);
        let spec = pod.spec.as_mut().unwrap();
        spec.ephemeral_containers = serde_json::from_value(debugger).unwrap();
        let creating = ContainerState::Waiting {
            reason: "ContainerCreating",
        };
        assert_eq!(after(&pod, 40).ephemeral, [creating]);
        let since = start() + Duration::from_secs(41);
        assert_eq!(
            after(&pod, 41).ephemeral,
            [ContainerState::Running { since }]
        );
        assert!(after(&pod, 62).terminated());
    }

    #[test]
    fn containers_do_not_wait_for_the_end_of_a_sidecar() {
        let pod = pod(
            &[json!({"name": "proxy", "restartPolicy": "Always"})],
            json!({}),
        );
        let later = after(&pod, 2);
        assert!(later.initialized() && later.running());
        assert!(matches!(later.init[0], ContainerState::Running { .. }));
    }

    #[test]
    fn a_terminating_pod_stops_within_its_grace_period() {
        // Termination is requested at 00:01:00, with a grace period of 30 s.
        let pod = pod(
            &[],
            json!({"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}),
        );
        let terminating = after(&pod, 60);
        assert!(terminating.running() && !terminating.terminated());
        assert_eq!(terminating.next, Some(start() + Duration::from_secs(62)));
        let stopped = after(&pod, 62);
        assert!(stopped.terminated());
        assert!(matches!(
            stopped.main[0],
            ContainerState::Terminated { code: 143, .. }
        ));
    }

    #[test]
    fn a_pod_that_terminates_before_it_starts_never_starts() {
        let pod = pod(
            &[json!({"name": "a"})],
            json!({"deletionTimestamp": "2026-01-01T00:00:35Z", "deletionGracePeriodSeconds": 30}),
        );
        // Termination is requested at 5 s, while the init container runs.
        let stopped = after(&pod, 20);
        assert!(stopped.terminated(), "{stopped:?}");
        assert!(matches!(stopped.main[0], ContainerState::Waiting { .. }));
    }

    fn exiting(policy: &str, code: &str) -> Pod {
        let annotations = json!({exits::RUN_FOR: "4s", exits::EXIT_CODE: code});
        let mut pod = pod(&[], json!({ "annotations": annotations }));
        pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
        pod
    }

    #[test]
    fn a_container_exits_after_its_time() {
        let pod = exiting("Never", "3");
        // It runs from 1 to 5.
        assert!(after(&pod, 4).running());
        assert_eq!(after(&pod, 4).next, Some(start() + Duration::from_secs(5)));
        let ended = after(&pod, 5);
        assert!(matches!(
            ended.main[0],
            ContainerState::Terminated { code: 3, .. }
        ));
        assert_eq!((ended.next, ended.restarts[0].count), (None, 0));
    }

    #[test]
    fn a_container_that_is_started_again_backs_off() {
        let pod = exiting("Always", "3");
        // It runs from 1 to 5, from 6 to 10, and from 21 to 25, a back-off of 10 later.
        let second = after(&pod, 7);
        assert!(second.running() && second.restarts[0].count == 1);
        let waiting = after(&pod, 12);
        let reason = "CrashLoopBackOff";
        assert_eq!(waiting.main, [ContainerState::Waiting { reason }]);
        assert_eq!(waiting.next, Some(start() + Duration::from_secs(21)));
        assert_eq!(after(&pod, 22).restarts[0].count, 2);
        let last = after(&pod, 22).restarts[0].last.clone();
        assert!(matches!(
            last,
            Some(ContainerState::Terminated { code: 3, .. })
        ));
        // Success ends it, if only failures are to be started again.
        assert!(matches!(
            after(&exiting("OnFailure", "0"), 100).main[0],
            ContainerState::Terminated { code: 0, .. }
        ));
    }

    #[test]
    fn sidecars_stop_when_all_containers_have_exited() {
        let mut pod = exiting("Never", "0");
        let sidecar = json!([{"name": "proxy", "restartPolicy": "Always"}]);
        pod.spec.as_mut().unwrap().init_containers = serde_json::from_value(sidecar).unwrap();
        // The sidecar starts at 1, the container runs from 2 to 6.
        assert!(matches!(
            after(&pod, 7).init[0],
            ContainerState::Running { .. }
        ));
        let stopped = after(&pod, 8);
        assert!(matches!(
            stopped.init[0],
            ContainerState::Terminated { code: 0, .. }
        ));
        assert!(stopped.initialized() && stopped.next.is_none());
    }
}
