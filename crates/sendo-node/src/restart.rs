//! Whether a container is started again after it exited, and how long that waits.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/v1/pod/util.go`: `ContainerShouldRestart`
//! - `pkg/kubelet/container/helpers.go`: `ShouldContainerBeRestarted`
//! - `pkg/kubelet/kuberuntime/kuberuntime_manager.go`: `doBackOff`
//! - `staging/src/k8s.io/client-go/util/flowcontrol/backoff.go`: `Next`, `IsInBackOffSince`

use std::time::Duration;

use sendo::{ObjectExt, Timestamp};

use crate::pod::{Container, Pod, RestartRule};
use crate::runtime::{Run, RunState};

/// The delay before the second restart of a container; each further one doubles it.
pub(crate) const BACKOFF: Duration = Duration::from_secs(10);
/// The longest delay before a restart.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// A container that ran for longer starts with no delay again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// Whether the pod's policy, or the container's own, has it started again after this exit code.
pub(crate) fn restarts_after(pod: &Pod, container: &Container, code: i32) -> bool {
    let by_policy = |policy: &str| match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    if let Some(own) = &container.restart_policy {
        let mut rules = container.restart_policy_rules.iter().flatten();
        return rules.any(|rule| matches(rule, code)) || by_policy(own);
    }
    by_policy(pod_policy(pod))
}

/// The pod's policy, `Always` by default.
pub(crate) fn pod_policy(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let policy = spec.and_then(|spec| spec.restart_policy.as_deref());
    policy.unwrap_or("Always")
}

fn matches(rule: &RestartRule, code: i32) -> bool {
    let Some(codes) = rule
        .exit_codes
        .as_ref()
        .filter(|_| rule.action == "Restart")
    else {
        return false;
    };
    let is_listed = codes.values.iter().flatten().any(|value| *value == code);
    match codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

/// Whether a container is to be started, given its newest run.
pub(crate) fn should_start(pod: &Pod, container: &Container, run: Option<&Run>) -> bool {
    if pod.is_being_deleted() {
        return false;
    }
    match run.map(|run| &run.state) {
        None => true,
        Some(RunState::Created | RunState::Running { .. }) => false,
        Some(RunState::Exited(exit)) => restarts_after(pod, container, exit.code),
    }
}

/// The delay of a container's next restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The delay after the next exit, and when it was set; none before the first restart.
    set: Option<(Duration, Timestamp)>,
}

impl Backoff {
    /// The delay of a container that was restarted this often before, the last time at `started`.
    pub(crate) fn after_restarts(restarts: i32, started: Timestamp) -> Self {
        let Ok(doublings) = u32::try_from(restarts - 1) else {
            return Backoff::default();
        };
        let delay = BACKOFF.saturating_mul(2_u32.saturating_pow(doublings));
        Backoff {
            set: Some((delay.min(MAX_BACKOFF), started)),
        }
    }

    /// How long a container that exited at `finished` waits, counted from then.
    pub(crate) fn delay(&self, finished: Timestamp) -> Duration {
        match self.set {
            Some((delay, since)) if !is_forgiven(since, finished) => delay,
            _ => Duration::ZERO,
        }
    }

    /// Notes a restart at `now` of a container that exited at `finished`.
    pub(crate) fn restarted(&mut self, finished: Timestamp, now: Timestamp) {
        let delay = match self.set {
            Some((delay, since)) if !is_forgiven(since, finished) => delay * 2,
            _ => BACKOFF,
        };
        self.set = Some((delay.min(MAX_BACKOFF), now));
    }
}

fn is_forgiven(started: Timestamp, finished: Timestamp) -> bool {
    finished.duration_since(started) > FORGIVEN_AFTER.try_into().expect("ten minutes are in range")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn restarts(pod_policy: &str, own: serde_json::Value, code: i32) -> bool {
        let pod = json!({"spec": {"restartPolicy": pod_policy, "containers": [own]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        restarts_after(&pod, &pod.containers()[0], code)
    }

    #[test]
    fn the_pods_policy_decides_by_the_exit_code() {
        for (policy, code, expected) in [
            ("Always", 0, true),
            ("OnFailure", 0, false),
            ("OnFailure", 1, true),
            ("Never", 1, false),
        ] {
            assert_eq!(restarts(policy, json!({"name": "c"}), code), expected);
        }
    }

    #[test]
    fn a_containers_own_policy_and_rules_come_first() {
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        let own = json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
        assert!(restarts("Never", own.clone(), 42));
        assert!(!restarts("Always", own, 1));
        let rules =
            json!([{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [1]}}]);
        let own = json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
        assert!(restarts("Never", own.clone(), 2) && !restarts("Never", own, 1));
    }

    #[test]
    fn the_delay_doubles_up_to_five_minutes_and_is_forgotten_after_a_long_run() {
        let mut now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut backoff = Backoff::default();
        let mut delays = Vec::new();
        for _ in 0..8 {
            let delay = backoff.delay(now);
            delays.push(delay.as_secs());
            backoff.restarted(now, now + delay);
            now += delay;
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(
            backoff.delay(now + Duration::from_secs(601)),
            Duration::ZERO
        );
        assert_eq!(Backoff::after_restarts(3, now).delay(now).as_secs(), 40);
    }
}
