//! What a check leaves in the status of a resource, and when the next one is due.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use sendo::Timestamp;

use crate::api::{StorageBucket, StorageBucketStatus};
use crate::store::Health;

/// The condition that says whether the bucket is healthy.
const READY: &str = "Ready";

impl StorageBucket {
    /// Whether the bucket is to be checked: never checked, changed since the
    /// last check, or that was long enough ago.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some(status) = &self.status else {
            return true;
        };
        let Some(last) = &status.last_check_time else {
            return true;
        };
        let since = now.duration_since(last.0);
        status.observed_generation != self.metadata.generation
            || since.unsigned_abs() >= self.spec.check_every()
    }
}

impl StorageBucketStatus {
    /// Records what a check of `generation` that began at `began` has found.
    ///
    /// Says whether the bucket has turned healthy or unhealthy with it, as it
    /// does with the first check.
    pub fn record(&mut self, health: &Health, generation: Option<i64>, began: Timestamp) -> bool {
        // Kubernetes keeps times to the second.
        let began = Time(Timestamp::from_second(began.as_second()).unwrap_or(began));
        let healthy = health.problem().is_none();
        let turned = self.healthy != Some(healthy);
        if turned {
            self.last_transition_time = Some(began.clone());
        }
        self.healthy = Some(healthy);
        self.observed_generation = generation;
        self.message = Some(health.message().to_owned());
        (self.latency_ms, self.consecutive_failures) = match health {
            Health::Healthy { latency } => (i64::try_from(latency.as_millis()).ok(), 0),
            Health::Unhealthy(_) => (None, self.consecutive_failures.saturating_add(1)),
        };
        self.set_condition(Condition {
            type_: READY.to_owned(),
            status: if healthy { "True" } else { "False" }.to_owned(),
            reason: health.reason(),
            message: health.message().to_owned(),
            observed_generation: generation,
            last_transition_time: self.last_transition_time.clone().unwrap_or(began.clone()),
        });
        self.last_check_time = Some(began);
        turned
    }

    fn set_condition(&mut self, condition: Condition) {
        let of_its_type = |other: &&mut Condition| other.type_ == condition.type_;
        match self.conditions.iter_mut().find(of_its_type) {
            Some(before) => *before = condition,
            None => self.conditions.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::StorageBucketSpec;
    use crate::store::{Problem, Reason};
    use serde_json::json;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn healthy() -> Health {
        Health::Healthy {
            latency: Duration::from_millis(7),
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

    #[test]
    fn a_check_is_recorded_whole() {
        let mut status = StorageBucketStatus::default();
        assert!(status.record(
            &unreachable(),
            Some(3),
            start() + Duration::from_millis(400)
        ));
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
                }],
            })
        );
    }

    #[test]
    fn only_a_turn_moves_the_transition_time() {
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
            assert_eq!(status.record(&health, Some(1), at), turns);
            assert_eq!(status.last_transition_time, Some(Time(turned_at)));
            assert_eq!(status.conditions.len(), 1);
            assert_eq!(status.conditions[0].last_transition_time, Time(turned_at));
            at += MINUTE;
        }
    }

    #[test]
    fn failures_are_counted_until_one_succeeds() {
        let mut status = StorageBucketStatus::default();
        for failures in 1..=3 {
            status.record(&unreachable(), None, start());
            assert_eq!(
                (status.consecutive_failures, status.latency_ms),
                (failures, None)
            );
        }
        status.record(&healthy(), None, start());
        assert_eq!(
            (status.consecutive_failures, status.latency_ms),
            (0, Some(7))
        );
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let mut status = StorageBucketStatus::default();
        status.record(&healthy(), None, start());
        status.conditions[0].type_ = "Audited".to_owned();
        status.record(&healthy(), None, start());
        let types: Vec<_> = status.conditions.iter().map(|c| &*c.type_).collect();
        assert_eq!(types, ["Audited", "Ready"]);
    }

    #[test]
    fn a_bucket_is_due_when_its_interval_has_passed() {
        let mut bucket = bucket();
        assert!(bucket.is_due(start()));
        let status = bucket.status.get_or_insert_default();
        status.record(&healthy(), Some(1), start() + Duration::from_millis(900));
        assert!(!bucket.is_due(start() + MINUTE - Duration::from_secs(1)));
        assert!(bucket.is_due(start() + MINUTE));
    }

    #[test]
    fn a_changed_bucket_is_due_at_once() {
        let mut bucket = bucket();
        let status = bucket.status.get_or_insert_default();
        status.record(&healthy(), Some(1), start());
        bucket.metadata.generation = Some(2);
        assert!(bucket.is_due(start()));
    }

    #[test]
    fn a_check_from_the_far_future_does_not_silence_a_bucket() {
        let mut bucket = bucket();
        let status = bucket.status.get_or_insert_default();
        status.record(&healthy(), Some(1), start() + MINUTE * 60 * 24);
        assert!(bucket.is_due(start()));
    }
}
