//! Containers that are only told of: what a pod's status is at a given time.
//!
//! A pod's life on its node is a row of moments: it was taken up, its init
//! containers ran one after the other, its containers started, and, once asked,
//! they stopped. All of them follow from when the pod was taken up, when somebody
//! joined an ephemeral container to it, when it was asked to end, and the pace;
//! so the state at any time is a pure function, and an agent that restarts finds
//! what it has to remember in the pod's status.

use std::collections::BTreeMap;
use std::time::Duration;

use sendo::{ObjectExt, Timestamp};

use crate::Pace;
use crate::pod::{Container, Pod};

/// Where a container is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started: an init container before it is not done, or it is being created.
    Waiting {
        /// `PodInitializing` or `ContainerCreating`.
        reason: &'static str,
    },
    /// Running since a time.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Ended.
    Ended {
        /// When it started.
        started: Timestamp,
        /// When it ended.
        finished: Timestamp,
        /// Its exit code: 0 for an init container that is done, 143 for one that was asked to end.
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
    /// The ephemeral containers, of which the pod's own state does not depend.
    pub ephemeral: Vec<ContainerState>,
    /// When something changes next, if ever by itself.
    pub next: Option<Timestamp>,
}

impl Snapshot {
    /// All init containers are done.
    pub fn initialized(&self) -> bool {
        self.init.iter().all(|state| {
            matches!(
                state,
                ContainerState::Ended { code: 0, .. } | ContainerState::Running { .. }
            )
        })
    }

    /// All containers run.
    pub fn running(&self) -> bool {
        let running = |state: &ContainerState| matches!(state, ContainerState::Running { .. });
        self.main.iter().all(running)
    }

    /// Nothing runs any more, and nothing will.
    pub fn ended(&self) -> bool {
        let ended = |state: &ContainerState| !matches!(state, ContainerState::Running { .. });
        let all = self.init.iter().chain(&self.main).chain(&self.ephemeral);
        self.next.is_none() && all.into_iter().all(ended)
    }
}

/// What has happened to a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// When the node took it up.
    pub taken_up: Timestamp,
    /// When the node first saw its ephemeral containers, by name.
    pub joined: BTreeMap<String, Timestamp>,
    /// When it was asked to end, if it was.
    pub asked_to_end: Option<Timestamp>,
}

/// The state at `now` of a pod with that history.
pub fn at(pod: &Pod, history: &History, pace: Pace, now: Timestamp) -> Snapshot {
    let spec = pod.spec.clone().unwrap_or_default();
    let stop = history.asked_to_end;
    let mut line = Line {
        pace,
        stop,
        stopped: stop.map(|stop| stop + pace.stop.min(grace(pod))),
        now,
        next: None,
    };
    let mut clear = history.taken_up;
    let mut init = Vec::new();
    for container in spec.init_containers.iter().flatten() {
        let (state, after) = line.init(container, clear);
        init.push(state);
        clear = after;
    }
    let main = spec
        .containers
        .iter()
        .map(|_| line.main(clear, history.taken_up))
        .collect();
    // They wait for nobody.
    let ephemeral = ephemeral(pod).map(|name| {
        let joined = history.joined.get(name).copied();
        line.main(joined.unwrap_or(history.taken_up), history.taken_up)
    });
    let ephemeral = ephemeral.collect();
    Snapshot {
        init,
        main,
        ephemeral,
        next: line.next,
    }
}

/// The names of a pod's ephemeral containers.
pub(crate) fn ephemeral(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.ephemeral_containers.iter().flatten())
        .map(|container| container.name.as_str())
}

/// When ephemeral containers joined the pod, of those that its status tells have started.
pub(crate) fn joined(pod: &Pod, pace: Pace) -> BTreeMap<String, Timestamp> {
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.ephemeral_container_statuses.iter().flatten());
    let started = statuses.filter_map(|status| {
        let running = status.state.as_ref()?.running.as_ref()?;
        let since = running.started_at.as_ref()?.0;
        Some((status.name.clone(), since - pace.start))
    });
    started.collect()
}

/// When the pod was asked to end, to the second: its deletion time lies a grace period after that.
pub(crate) fn asked_to_end(pod: &Pod) -> Option<Timestamp> {
    let due = pod.metadata.deletion_timestamp.as_ref()?.0;
    Some(due - grace(pod))
}

fn grace(pod: &Pod) -> Duration {
    let seconds = pod.metadata.deletion_grace_period_seconds;
    Duration::from_secs(seconds.unwrap_or_default().max(0) as u64)
}

/// The row of moments, as it is walked along.
struct Line {
    pace: Pace,
    stop: Option<Timestamp>,
    stopped: Option<Timestamp>,
    now: Timestamp,
    next: Option<Timestamp>,
}

impl Line {
    /// Whether `moment` has come. One that has not, and will, is when to look again.
    fn has_come(&mut self, moment: Timestamp) -> bool {
        if moment <= self.now {
            return true;
        }
        // What is asked to end starts nothing more.
        if self.stop.is_none_or(|stop| moment <= stop) {
            self.next = Some(self.next.map_or(moment, |next| next.min(moment)));
        }
        false
    }

    /// Whether something that would start at `start` never does.
    fn never_starts(&self, start: Timestamp) -> bool {
        self.stop.is_some_and(|stop| start > stop)
    }

    /// An init container whose turn comes at `clear`, and when the next one's turn comes.
    fn init(&mut self, container: &Container, clear: Timestamp) -> (ContainerState, Timestamp) {
        let start = clear + self.pace.start;
        let waiting = ContainerState::Waiting {
            reason: "PodInitializing",
        };
        if self.never_starts(start) || !self.has_come(start) {
            return (waiting, start + self.pace.init);
        }
        if container.restart_policy.as_deref() == Some("Always") {
            // A sidecar: it goes on beside the containers, which need not wait for its end.
            return (self.until_stopped(start), start);
        }
        let done = start + self.pace.init;
        if self.stop.is_none_or(|stop| done <= stop) && self.has_come(done) {
            let ended = ContainerState::Ended {
                started: start,
                finished: done,
                code: 0,
            };
            return (ended, done);
        }
        (self.until_stopped(start), done)
    }

    fn main(&mut self, clear: Timestamp, taken_up: Timestamp) -> ContainerState {
        let start = clear + self.pace.start;
        if self.never_starts(start) || !self.has_come(start) {
            let initializing = clear > taken_up && clear > self.now;
            let reason = if initializing {
                "PodInitializing"
            } else {
                "ContainerCreating"
            };
            return ContainerState::Waiting { reason };
        }
        self.until_stopped(start)
    }

    /// Running from `start` until the pod is asked to end and has had its time.
    fn until_stopped(&mut self, start: Timestamp) -> ContainerState {
        match self.stopped {
            Some(stopped) if stopped <= self.now => ContainerState::Ended {
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

/// When a pod was taken up by its node, if its status tells.
pub(crate) fn taken_up(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    status.start_time.as_ref().map(|time| time.0)
}

/// Whether a pod has nothing left to run: it is finished by its own account.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) && !pod.is_being_deleted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PACE: Pace = Pace {
        start: Duration::from_secs(1),
        init: Duration::from_secs(10),
        stop: Duration::from_secs(2),
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
            taken_up: start(),
            joined: [("debugger".to_owned(), start() + Duration::from_secs(40))].into(),
            asked_to_end: asked_to_end(pod),
        };
        at(pod, &history, PACE, start() + Duration::from_secs(seconds))
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
            ContainerState::Ended { code: 0, .. }
        ));
        assert!(matches!(later.init[1], ContainerState::Running { .. }));

        let last = after(&pod, 23);
        assert!(last.initialized() && last.running());
        assert_eq!(last.next, None);
    }

    #[test]
    fn an_ephemeral_container_runs_from_when_it_joined_and_ends_with_the_pod() {
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
        assert!(after(&pod, 62).ended());
    }

    #[test]
    fn a_sidecar_does_not_hold_up_the_containers() {
        let pod = pod(
            &[json!({"name": "proxy", "restartPolicy": "Always"})],
            json!({}),
        );
        let settled = after(&pod, 2);
        assert!(settled.initialized() && settled.running());
        assert!(matches!(settled.init[0], ContainerState::Running { .. }));
    }

    #[test]
    fn a_pod_that_is_asked_to_end_stops_within_its_grace() {
        // Asked at 00:01:00, with 30 s of grace.
        let pod = pod(
            &[],
            json!({"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}),
        );
        let asked = after(&pod, 60);
        assert!(asked.running() && !asked.ended());
        assert_eq!(asked.next, Some(start() + Duration::from_secs(62)));
        let gone = after(&pod, 62);
        assert!(gone.ended());
        assert!(matches!(
            gone.main[0],
            ContainerState::Ended { code: 143, .. }
        ));
    }

    #[test]
    fn a_pod_that_is_asked_to_end_before_it_starts_never_does() {
        let pod = pod(
            &[json!({"name": "a"})],
            json!({"deletionTimestamp": "2026-01-01T00:00:35Z", "deletionGracePeriodSeconds": 30}),
        );
        // Asked at 5 s, while the init container runs.
        let gone = after(&pod, 20);
        assert!(gone.ended(), "{gone:?}");
        assert!(matches!(gone.main[0], ContainerState::Waiting { .. }));
    }
}
