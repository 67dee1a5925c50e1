//! Records checks in the status of a resource, and computes when the next one is due.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::conditions::{self, News};
use sendo::{ObjectExt, Timestamp};

use crate::api::{CHECK_ANNOTATION, StorageBucket, StorageBucketStatus};
use crate::manage::Synced;
use crate::store::Health;

/// The condition that says whether the bucket is healthy.
const READY: &str = "Ready";

/// How often the interval is doubled with consecutive failures.
const BACKOFF_STEPS: i64 = 2;

impl StorageBucket {
    /// Whether the bucket is to be checked: never checked, changed since the
    /// last check, asked for by annotation, or that was long enough ago. One
    /// that is paused or on its way out is not.
    pub fn is_due(&self, now: Timestamp) -> bool {
        if self.spec.paused || self.is_being_deleted() {
            return false;
        }
        let Some(status) = &self.status else {
            return true;
        };
        let Some(last) = &status.last_check_time else {
            return true;
        };
        let since = now.duration_since(last.0);
        status.observed_generation != self.metadata.generation
            || status.handled_request.as_deref() != self.annotation(CHECK_ANNOTATION)
            || since.unsigned_abs() >= self.wait()
    }

    /// The time from the last check to the next: a bucket that keeps failing is
    /// asked for less often.
    fn wait(&self) -> Duration {
        let failures = self.status.as_ref().map_or(0, |s| s.consecutive_failures);
        let steps = (failures - 1).clamp(0, BACKOFF_STEPS);
        self.spec.check_every() * (1 << steps)
    }
}

/// The conditions that a check has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transitions {
    /// The change of the condition `Ready`.
    pub ready: News,
    /// The change of the condition `Synced`.
    pub synced: News,
}

impl StorageBucketStatus {
    /// Records the result of a check of `bucket` that began at `began`, and returns the conditions
    /// that have changed.
    pub fn record(
        &mut self,
        bucket: &StorageBucket,
        health: &Health,
        synced: &Synced,
        began: Timestamp,
    ) -> Transitions {
        let healthy = health.problem().is_none();
        let (reason, message) = (health.reason(), health.message());
        let ready = conditions::condition(bucket, began, READY, healthy, &reason, message);
        let turns = Transitions {
            ready: conditions::set(&mut self.conditions, ready),
            synced: conditions::set(&mut self.conditions, synced.condition(bucket, began)),
        };
        if turns.ready == News::Status {
            self.last_transition_time = Some(Time(began));
        }
        self.healthy = Some(healthy);
        self.last_check_time = Some(Time(began));
        self.observed_generation = bucket.metadata.generation;
        self.handled_request = bucket.annotation(CHECK_ANNOTATION).map(str::to_owned);
        self.message = Some(message.to_owned());
        (self.latency_ms, self.consecutive_failures) = match health {
            Health::Healthy { latency, .. } => (i64::try_from(latency.as_millis()).ok(), 0),
            Health::Unhealthy(_) => (None, self.consecutive_failures.saturating_add(1)),
        };
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Probe, StorageBucketSpec};
    use crate::store::{Problem, Reason};
    use serde_json::json;

    const MINUTE: Duration = Duration::from_secs(60);

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn healthy() -> Health {
        Health::Healthy {
            latency: Duration::from_millis(7),
            probe: Probe::List,
        }
    }

    fn unreachable() -> Health {
        Health::Unhealthy(Problem {
            reason: Reason::Unreachable,
            message: "nobody is there".to_owned(),
        })
    }

    fn bucket() -> StorageBucket {
        let spec = json!({"endpoint": "http://localhost", "bucket": "logs"});
        let spec: StorageBucketSpec = serde_json::from_value(spec).unwrap();
        let mut bucket = StorageBucket::new("logs", spec);
        bucket.metadata.generation = Some(1);
        bucket
    }

    /// Whether the bucket has turned healthy or unhealthy.
    fn record(status: &mut StorageBucketStatus, health: &Health, at: Timestamp) -> bool {
        let turns = status.record(&bucket(), health, &Synced::Observed, at);
        turns.ready == News::Status
    }

    fn check(bucket: &mut StorageBucket, health: &Health, at: Timestamp) {
        let mut status = bucket.status.take().unwrap_or_default();
        status.record(bucket, health, &Synced::Observed, at);
        // As it comes back from the API server, which keeps times to the second.
        let sent = serde_json::to_value(status).unwrap();
        bucket.status = serde_json::from_value(sent).unwrap();
    }

    #[test]
    fn the_interval_grows_with_failures() {
        let mut bucket = bucket();
        let mut at = start();
        for minutes in [1, 2, 4, 4] {
            check(&mut bucket, &unreachable(), at);
            assert!(!bucket.is_due(at + MINUTE * minutes - Duration::from_secs(1)));
            at += MINUTE * minutes;
            assert!(bucket.is_due(at), "{minutes}");
        }
        check(&mut bucket, &healthy(), at);
        assert!(bucket.is_due(at + MINUTE));
    }

    #[test]
    fn an_annotation_starts_a_check_and_a_pause_prevents_it() {
        let mut bucket = bucket();
        check(&mut bucket, &healthy(), start());
        let request = [(CHECK_ANNOTATION.to_owned(), "now".to_owned())];
        bucket.metadata.annotations = Some(request.into());
        assert!(bucket.is_due(start()));
        check(&mut bucket, &healthy(), start());
        assert!(!bucket.is_due(start()));
        bucket.spec.paused = true;
        assert!(!bucket.is_due(start() + MINUTE * 60));
    }

    #[test]
    fn a_check_is_recorded_whole() {
        let mut bucket = bucket();
        bucket.metadata.generation = Some(3);
        let mut status = StorageBucketStatus::default();
        let began = start() + Duration::from_millis(400);
        status.record(&bucket, &unreachable(), &Synced::Observed, began);
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({
                "healthy": false,
                "message": "nobody is there",
                "lastCheckTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "consecutiveFailures": 1,
                "observedGeneration": 3,
                "conditions": [{
                    "type": "Ready",
                    "status": "False",
                    "reason": "Unreachable",
                    "message": "nobody is there",
                    "observedGeneration": 3,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }, {
                    "type": "Synced",
                    "status": "True",
                    "reason": "Observed",
                    "message": "the bucket is only looked at",
                    "observedGeneration": 3,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            })
        );
    }

    #[test]
    fn only_a_change_of_status_moves_the_transition_time() {
        let mut status = StorageBucketStatus::default();
        let checks = [
            (healthy(), true),
            (healthy(), false),
            (unreachable(), true),
            (unreachable(), false),
            (healthy(), true),
        ];
        let mut turned_at = start();
        let mut at = start();
        for (health, turns) in checks {
            if turns {
                turned_at = at;
            }
            assert_eq!(record(&mut status, &health, at), turns);
            assert_eq!(status.last_transition_time, Some(Time(turned_at)));
            assert_eq!(status.conditions.len(), 2);
            assert_eq!(status.conditions[0].last_transition_time, Time(turned_at));
            at += MINUTE;
        }
    }

    #[test]
    fn failures_are_counted_until_one_succeeds() {
        let mut status = StorageBucketStatus::default();
        for failures in 1..=3 {
            record(&mut status, &unreachable(), start());
            assert_eq!(
                (status.consecutive_failures, status.latency_ms),
                (failures, None)
            );
        }
        record(&mut status, &healthy(), start());
        assert_eq!(
            (status.consecutive_failures, status.latency_ms),
            (0, Some(7))
        );
    }

    #[test]
    fn other_conditions_are_kept() {
        let mut status = StorageBucketStatus::default();
        record(&mut status, &healthy(), start());
        status.conditions[0].type_ = "Audited".to_owned();
        record(&mut status, &healthy(), start());
        let types: Vec<_> = status.conditions.iter().map(|c| &*c.type_).collect();
        assert_eq!(types, ["Audited", "Synced", "Ready"]);
    }

    #[test]
    fn a_bucket_is_due_when_its_interval_has_passed() {
        let mut bucket = bucket();
        assert!(bucket.is_due(start()));
        check(
            &mut bucket,
            &healthy(),
            start() + Duration::from_millis(900),
        );
        assert!(!bucket.is_due(start() + MINUTE - Duration::from_secs(1)));
        assert!(bucket.is_due(start() + MINUTE));
    }

    #[test]
    fn a_changed_bucket_is_due_at_once() {
        let mut bucket = bucket();
        check(&mut bucket, &healthy(), start());
        bucket.metadata.generation = Some(2);
        assert!(bucket.is_due(start()));
    }

    #[test]
    fn a_check_time_in_the_future_does_not_prevent_checks() {
        let mut bucket = bucket();
        check(&mut bucket, &healthy(), start() + MINUTE * 60 * 24);
        assert!(bucket.is_due(start()));
    }
}
