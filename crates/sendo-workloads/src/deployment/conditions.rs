//! The conditions of a Deployment.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/util/deployment_util.go`: `NewDeploymentCondition`,
//!   `SetDeploymentCondition`, `RemoveDeploymentCondition`

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::Timestamp;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The reasons of the condition `Progressing`.
pub(super) mod reason {
    pub(crate) const CREATED: &str = "NewReplicaSetCreated";
    pub(crate) const FOUND: &str = "FoundNewReplicaSet";
    pub(crate) const NOT_CREATED: &str = "ReplicaSetCreateError";
    pub(crate) const UPDATED: &str = "ReplicaSetUpdated";
    pub(crate) const COMPLETE: &str = "NewReplicaSetAvailable";
    pub(crate) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub(crate) const PAUSED: &str = "DeploymentPaused";
    pub(crate) const RESUMED: &str = "DeploymentResumed";
}

/// The conditions as a sync changes them.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn from_deployment(deployment: &Deployment, now: Timestamp) -> Self {
        let status = deployment.status.as_ref();
        Conditions {
            list: status
                .and_then(|s| s.conditions.clone())
                .unwrap_or_default(),
            now,
        }
    }

    pub(super) fn get(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_ == kind)
    }

    /// The reason of a condition; empty if there is no such condition.
    pub(super) fn reason(&self, kind: &str) -> &str {
        let condition = self.get(kind);
        condition.and_then(|c| c.reason.as_deref()).unwrap_or("")
    }

    /// Sets a condition, unless it has this status and reason already.
    pub(super) fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let is_same = |known: &DeploymentCondition| {
            known.status == status && known.reason.as_deref() == Some(reason)
        };
        if !self.get(kind).is_some_and(is_same) {
            self.update(kind, status, reason, message);
        }
    }

    /// Sets a condition with the current time as its update time. Its transition time stays if its
    /// status does.
    pub(super) fn update(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let before = self.get(kind).filter(|known| known.status == status);
        let since = before.and_then(|known| known.last_transition_time.clone());
        self.replace(DeploymentCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(Time(self.now)),
            last_transition_time: since.or(Some(Time(self.now))),
        });
    }

    /// Removes the condition of this type and appends this one.
    pub(super) fn replace(&mut self, condition: DeploymentCondition) {
        self.remove(&condition.type_);
        self.list.push(condition);
    }

    pub(super) fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| condition.type_ != kind);
    }

    pub(super) fn into_list(self) -> Option<Vec<DeploymentCondition>> {
        (!self.list.is_empty()).then_some(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Conditions {
        Conditions {
            list: Vec::new(),
            now: Timestamp::UNIX_EPOCH + Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_condition_that_stays_keeps_its_times() {
        let mut conditions = at(1);
        conditions.set(PROGRESSING, "True", reason::CREATED, "made".to_owned());
        conditions.now += Duration::from_secs(1);
        conditions.set(
            PROGRESSING,
            "True",
            reason::CREATED,
            "made again".to_owned(),
        );
        let condition = conditions.get(PROGRESSING).unwrap().clone();
        assert_eq!(condition.message.as_deref(), Some("made"));

        // Another reason changes the update time, but not the transition time.
        conditions.set(
            PROGRESSING,
            "True",
            reason::UPDATED,
            "on its way".to_owned(),
        );
        let updated = conditions.get(PROGRESSING).unwrap();
        assert_eq!(updated.last_transition_time, condition.last_transition_time);
        assert_ne!(updated.last_update_time, condition.last_update_time);

        conditions.set(PROGRESSING, "False", reason::TIMED_OUT, "stuck".to_owned());
        let changed = conditions.get(PROGRESSING).unwrap();
        assert_eq!(changed.last_transition_time, Some(Time(conditions.now)));
    }

    #[test]
    fn the_condition_that_changed_last_is_last() {
        let mut conditions = at(1);
        conditions.set(PROGRESSING, "True", reason::CREATED, String::new());
        conditions.set(AVAILABLE, "True", "MinimumReplicasAvailable", String::new());
        conditions.set(PROGRESSING, "True", reason::COMPLETE, String::new());
        let order: Vec<_> = conditions.list.iter().map(|c| &*c.type_).collect();
        assert_eq!(order, [AVAILABLE, PROGRESSING]);
    }
}
