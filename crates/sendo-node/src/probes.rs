//! The probes of one container: when they are due, and what their answers mean.
//!
//! A pure state machine. It is told the time and the answers; what carries a probe out is elsewhere.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/prober/worker.go`: `doProbe`
//! - `pkg/kubelet/prober/prober_manager.go`: `UpdatePodStatus`

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use sendo::Timestamp;

use crate::actions::{Health, Startup};
use crate::pod::Container;
use crate::runtime::{ProbeAnswer, ProbeKind};

/// The state of the probes of one run of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Probes {
    startup: ProbeState,
    liveness: ProbeState,
    readiness: ProbeState,
}

/// The state of one probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProbeState {
    /// Whether it holds, as far as thresholds have been passed; `None` before that.
    result: Option<bool>,
    /// The last answer, and how often it came in a row.
    last: Option<(bool, i32)>,
    /// When it was asked last.
    asked: Option<Timestamp>,
    /// Whether an answer is awaited.
    is_asked: bool,
}

impl Probes {
    fn state(&mut self, kind: ProbeKind) -> &mut ProbeState {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Liveness => &mut self.liveness,
            ProbeKind::Readiness => &mut self.readiness,
        }
    }

    fn get(&self, kind: ProbeKind) -> ProbeState {
        match kind {
            ProbeKind::Startup => self.startup,
            ProbeKind::Liveness => self.liveness,
            ProbeKind::Readiness => self.readiness,
        }
    }

    /// The probes of a container that an earlier agent reported as started and ready.
    pub(crate) fn reported(is_started: bool, is_ready: bool) -> Self {
        let result = |holds: bool| ProbeState {
            result: holds.then_some(true),
            ..ProbeState::default()
        };
        Probes {
            startup: result(is_started),
            liveness: ProbeState::default(),
            readiness: result(is_ready),
        }
    }

    /// Whether the container has started, as its startup probe says.
    pub(crate) fn is_started(&self, container: &Container) -> bool {
        container.startup_probe.is_none() || self.startup.result == Some(true)
    }

    /// Whether the container serves, as its readiness probe says.
    pub(crate) fn is_ready(&self, container: &Container) -> bool {
        let answers = container.readiness_probe.is_none() || self.readiness.result == Some(true);
        self.is_started(container) && answers
    }

    /// What the probes found, for the next actions.
    pub(crate) fn health(&self, container: &Container, restart_is_due: bool) -> Health {
        let startup = match (&container.startup_probe, self.startup.result) {
            (None, _) | (_, Some(true)) => Startup::Started,
            (_, Some(false)) => Startup::Failed,
            (_, None) => Startup::Unknown,
        };
        Health {
            startup,
            is_dead: container.liveness_probe.is_some() && self.liveness.result == Some(false),
            restart_is_due,
        }
    }

    /// When a probe of a container that runs since `since` is to be asked next; `None` if it is
    /// not: it waits for an answer or for the startup probe, or has found what it was for.
    pub(crate) fn due(
        &self,
        kind: ProbeKind,
        container: &Container,
        since: Timestamp,
    ) -> Option<Timestamp> {
        let probe = kind.probe(container)?;
        let state = self.get(kind);
        let is_its_turn = match kind {
            ProbeKind::Startup => state.result.is_none(),
            ProbeKind::Liveness => self.is_started(container) && state.result != Some(false),
            ProbeKind::Readiness => self.is_started(container),
        };
        if !is_its_turn || state.is_asked {
            return None;
        }
        let first = since + seconds(probe.initial_delay_seconds, 0);
        let period = seconds(probe.period_seconds, 10);
        Some(state.asked.map_or(first, |asked| asked + period))
    }

    /// Notes that a probe is asked at `now`.
    pub(crate) fn ask(&mut self, kind: ProbeKind, now: Timestamp) {
        let state = self.state(kind);
        state.asked = Some(now);
        state.is_asked = true;
    }

    /// Whether an answer that does not change tells nothing more.
    pub(crate) fn is_settled(&self, kind: ProbeKind, answer: &ProbeAnswer) -> bool {
        self.get(kind).result == Some(answer.is_ok())
    }

    /// Takes an answer. The result of a probe changes when its threshold is reached.
    pub(crate) fn answered(&mut self, kind: ProbeKind, probe: &Probe, answer: &ProbeAnswer) {
        let state = self.state(kind);
        state.is_asked = false;
        let holds = answer.is_ok();
        let times = match state.last {
            Some((last, times)) if last == holds => times + 1,
            _ => 1,
        };
        state.last = Some((holds, times));
        let threshold = match holds {
            true => probe.success_threshold.unwrap_or(1),
            false => probe.failure_threshold.unwrap_or(3),
        };
        if times >= threshold {
            state.result = Some(holds);
        }
    }
}

/// A number of seconds in a probe; where there is none, its default.
pub(crate) fn seconds(value: Option<i32>, default: u64) -> Duration {
    let given = value.and_then(|value| u64::try_from(value).ok());
    Duration::from_secs(given.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn container(probes: Value) -> Container {
        let mut container = json!({"name": "c"});
        for (name, probe) in probes.as_object().unwrap() {
            container[name] = probe.clone();
        }
        serde_json::from_value(container).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn answer(probes: &mut Probes, kind: ProbeKind, container: &Container, holds: bool) {
        let answer = if holds { Ok(()) } else { Err("no".to_owned()) };
        probes.answered(kind, kind.probe(container).unwrap(), &answer);
    }

    #[test]
    fn a_probe_begins_after_its_delay_and_is_repeated() {
        let container = container(json!({"readinessProbe":
            {"initialDelaySeconds": 5, "periodSeconds": 3}}));
        let mut probes = Probes::default();
        let due = |probes: &Probes| probes.due(ProbeKind::Readiness, &container, at(100));
        assert_eq!(due(&probes), Some(at(105)));
        probes.ask(ProbeKind::Readiness, at(106));
        assert_eq!(due(&probes), None);
        answer(&mut probes, ProbeKind::Readiness, &container, true);
        assert_eq!(due(&probes), Some(at(109)));
        assert_eq!(probes.due(ProbeKind::Liveness, &container, at(100)), None);
    }

    #[test]
    fn thresholds_count_answers_in_a_row() {
        let container = container(json!({"readinessProbe":
            {"successThreshold": 2, "failureThreshold": 2}}));
        let mut probes = Probes::default();
        let mut ready = Vec::new();
        for holds in [true, true, false, true, false, false] {
            answer(&mut probes, ProbeKind::Readiness, &container, holds);
            ready.push(probes.is_ready(&container));
        }
        assert_eq!(ready, [false, true, true, true, true, false]);
    }

    #[test]
    fn the_startup_probe_goes_before_the_others() {
        let container = container(json!({"startupProbe": {"failureThreshold": 2},
            "livenessProbe": {}, "readinessProbe": {}}));
        let mut probes = Probes::default();
        let due = |probes: &Probes, kind| probes.due(kind, &container, at(0)).is_some();
        assert!(due(&probes, ProbeKind::Startup));
        assert!(!due(&probes, ProbeKind::Liveness) && !due(&probes, ProbeKind::Readiness));
        let mut failing = probes.clone();
        answer(&mut failing, ProbeKind::Startup, &container, false);
        assert_eq!(failing.health(&container, false).startup, Startup::Unknown);
        answer(&mut failing, ProbeKind::Startup, &container, false);
        assert_eq!(failing.health(&container, false).startup, Startup::Failed);

        answer(&mut probes, ProbeKind::Startup, &container, true);
        assert!(probes.is_started(&container) && !probes.is_ready(&container));
        assert!(!due(&probes, ProbeKind::Startup));
        assert!(due(&probes, ProbeKind::Liveness) && due(&probes, ProbeKind::Readiness));
    }

    #[test]
    fn a_container_is_alive_until_its_probe_has_failed_often_enough() {
        let container = container(json!({"livenessProbe": {}}));
        let mut probes = Probes::default();
        for expected in [false, false, true] {
            answer(&mut probes, ProbeKind::Liveness, &container, false);
            assert_eq!(probes.health(&container, false).is_dead, expected);
        }
        assert_eq!(probes.due(ProbeKind::Liveness, &container, at(0)), None);
    }
}
