//! When a Job creates a pod in the place of one that failed.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/backoff_utils.go`

use std::sync::Arc;
use std::time::Duration;

use sendo::Timestamp;
use sendo::queue::Backoff;

use crate::pods::{self, ContainerStatus, Pod};

/// The delay after one failure, which doubles with each further one up to a maximum.
const DELAY: Backoff = Backoff {
    first: Duration::from_secs(10),
    max: Duration::from_secs(600),
    factor: 2.0,
};

/// The failures of a Job's pods since one succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: u32,
    last: Option<Timestamp>,
}

impl Failures {
    /// With pods that have newly finished.
    pub(super) fn with(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let counted = failed.iter().map(|pod| finished_at(pod));
        let counted = counted.filter(|at| last_success.is_none_or(|success| *at > success));
        let before = match last_success {
            Some(_) => Failures::default(),
            None => self,
        };
        let new: Vec<_> = counted.collect();
        Failures {
            count: before.count + u32::try_from(new.len()).unwrap_or(u32::MAX),
            last: new.into_iter().max().or(before.last),
        }
    }

    /// The time until the next pod may be created.
    pub(super) fn remaining(self, now: Timestamp) -> Duration {
        match self.last {
            Some(last) => remaining(self.count, last, now),
            None => Duration::ZERO,
        }
    }
}

/// The time that is left of the delay after `failures`, of which the last was at `last`.
pub(super) fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let elapsed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    DELAY.after(failures - 1).saturating_sub(elapsed)
}

/// When a pod finished, as far as its status says so.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let not_ready = pods::condition(pod, "Ready").filter(|ready| ready.status == "False");
    let not_ready_since = not_ready.and_then(|ready| ready.last_transition_time.as_ref());
    let deleted_at = || {
        let due = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(due - Duration::from_secs(grace.try_into().unwrap_or_default()))
    };
    let created = pod.metadata.creation_timestamp.as_ref();
    last_container_finished(pod)
        .or_else(|| not_ready_since.map(|time| time.0))
        .or_else(deleted_at)
        .or_else(|| created.map(|time| time.0))
        .unwrap_or_default()
}

/// When the last container finished; `None` unless all containers and sidecars have.
fn last_container_finished(pod: &Pod) -> Option<Timestamp> {
    let init = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let is_sidecar = |status: &&ContainerStatus| sidecars.contains(&status.name.as_str());
    let init = pods::init_container_statuses(pod).iter().filter(is_sidecar);
    let finished = pods::container_statuses(pod).iter().chain(init).map(|c| {
        let terminated = c.state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.as_ref().map(|time| time.0)
    });
    let all: Option<Vec<_>> = finished.collect();
    all?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const START: &str = "2026-01-01T00:00:00Z";

    fn at(seconds: u64) -> Timestamp {
        START.parse::<Timestamp>().unwrap() + Duration::from_secs(seconds)
    }

    fn pod(status: Value) -> Arc<Pod> {
        let pod = json!({"metadata": {"creationTimestamp": START}, "status": status});
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn finished(seconds: u64) -> Arc<Pod> {
        let terminated = json!({"exitCode": 1, "finishedAt": at(seconds).to_string()});
        pod(json!({"containerStatuses": [{"name": "c", "state": {"terminated": terminated}}]}))
    }

    #[test]
    fn the_delay_doubles_with_each_failure() {
        let one = Failures::default().with(&[], &[finished(5)]);
        assert_eq!(one.remaining(at(5)), Duration::from_secs(10));
        assert_eq!(one.remaining(at(12)), Duration::from_secs(3));
        let three = one.with(&[], &[finished(30), finished(20)]);
        assert_eq!(three.remaining(at(30)), Duration::from_secs(40));
        assert_eq!(three.remaining(at(80)), Duration::ZERO);
        let many = Failures {
            count: 50,
            last: Some(at(0)),
        };
        assert_eq!(many.remaining(at(0)), Duration::from_secs(600));
    }

    #[test]
    fn a_success_starts_the_count_again() {
        let two = Failures::default().with(&[], &[finished(5), finished(6)]);
        assert_eq!(two.with(&[finished(7)], &[]), Failures::default());
        // Failures after the last success count.
        let after = two.with(&[finished(7)], &[finished(6), finished(9)]);
        assert_eq!(after.remaining(at(9)), Duration::from_secs(10));
    }

    #[test]
    fn a_pod_without_finished_containers_ended_when_it_became_unready() {
        let unready = json!([{"type": "Ready", "status": "False",
            "lastTransitionTime": at(3).to_string()}]);
        assert_eq!(finished_at(&pod(json!({ "conditions": unready }))), at(3));
        assert_eq!(finished_at(&pod(json!({}))), at(0));
    }
}
