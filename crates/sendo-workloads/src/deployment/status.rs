//! The status of a Deployment, and whether its rollout progresses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/progress.go`
//! - `pkg/controller/deployment/sync.go`: `syncDeploymentStatus`, `calculateStatus`
//! - `pkg/controller/deployment/util/deployment_util.go`:
//!   `GetTerminatingReplicaCountForReplicaSets`, `DeploymentComplete`, `DeploymentProgressing`,
//!   `DeploymentTimedOut`

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use sendo::{ObjectExt, Result};

use super::conditions::{AVAILABLE, PROGRESSING, REPLICA_FAILURE, reason};
use super::revision::REVISION;
use super::rollout::{Rollout, Stage};
use super::sets::{actual, available, ready, size, total};

impl Rollout<'_> {
    /// Writes the status if it changed. Returns after what time to reconcile again because the
    /// progress deadline may have passed by then. `stage` is what the sync did, `None` if it
    /// failed.
    pub(super) async fn write_status(&mut self, stage: Option<&Stage>) -> Result<Option<Duration>> {
        let mut status = self.count();
        if stage == Some(&Stage::RollingOut) {
            self.set_progressing(&status);
            self.copy_replica_failure();
        }
        let complete = is_complete_as(self.deployment, &status);
        status.conditions = self.conditions.clone().into_list();

        let mut changed = self.deployment.clone();
        if let Some(revision) = &self.revision {
            let annotations = changed.metadata.annotations.get_or_insert_default();
            annotations.insert(REVISION.to_owned(), revision.clone());
        }
        let known = self.deployment.status.clone().unwrap_or_default();
        let has_changed = without_zeros(known) != status
            || changed.annotation(REVISION) != self.deployment.annotation(REVISION);
        if has_changed {
            changed.status = Some(status);
            self.cx.client().replace_status(&changed).await?;
        }
        Ok(match stage {
            Some(Stage::RollingOut) if !complete => self.deadline_in(),
            _ => None,
        })
    }

    /// The counts of the status; sets the condition `Available`.
    fn count(&mut self) -> DeploymentStatus {
        let available = total(self.sets(), available);
        let unavailable = total(self.sets(), size) - available;
        let (status, why, message) = match available >= self.bounds.min_available() {
            true => (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            ),
            false => (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            ),
        };
        let message = message.to_owned();
        self.conditions.set(AVAILABLE, status, why, message);
        without_zeros(DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: Some(total(self.sets(), actual)),
            updated_replicas: Some(total(&self.new, actual)),
            ready_replicas: Some(total(self.sets(), ready)),
            available_replicas: Some(available),
            unavailable_replicas: Some(unavailable.max(0)),
            terminating_replicas: terminating(self.sets()),
            collision_count: self.collisions,
            conditions: None,
        })
    }

    /// Sets the condition `Progressing`: whether the rollout is complete, progresses or has timed out.
    fn set_progressing(&mut self, status: &DeploymentStatus) {
        let Some(deadline) = self.deadline() else {
            self.conditions.remove(PROGRESSING);
            return;
        };
        // Scaling a Deployment whose rollout is complete does not start another rollout.
        let was_complete = self.conditions.reason(PROGRESSING) == reason::COMPLETE;
        if was_complete && status.replicas == status.updated_replicas {
            return;
        }
        let what = match &self.new {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", self.deployment.name()),
        };
        let known = self.deployment.status.clone().unwrap_or_default();
        if is_complete_as(self.deployment, status) {
            let message = format!("{what} has successfully progressed.");
            let reason = reason::COMPLETE;
            self.conditions.set(PROGRESSING, "True", reason, message);
        } else if has_progressed(&known, status) {
            let message = format!("{what} is progressing.");
            let reason = reason::UPDATED;
            self.conditions.update(PROGRESSING, "True", reason, message);
        } else if self.has_timed_out(deadline) {
            let message = format!("{what} has timed out progressing.");
            let reason = reason::TIMED_OUT;
            self.conditions.set(PROGRESSING, "False", reason, message);
        }
    }

    fn has_timed_out(&self, deadline: i32) -> bool {
        let Some(condition) = self.conditions.get(PROGRESSING) else {
            return false;
        };
        match condition.reason.as_deref() {
            Some(reason::COMPLETE) => false,
            Some(reason::TIMED_OUT) => true,
            _ => since_last_update(condition, self.cx.now())
                .is_some_and(|passed| passed > i64::from(deadline) * 1000),
        }
    }

    /// The time until the progress deadline has passed for certain.
    fn deadline_in(&self) -> Option<Duration> {
        let deadline = self.deadline()?;
        let condition = self.conditions.get(PROGRESSING)?;
        if condition.reason.as_deref() == Some(reason::TIMED_OUT) {
            return None;
        }
        let passed = since_last_update(condition, self.cx.now())?;
        let left = (i64::from(deadline) * 1000 - passed).max(0);
        // The update time of the condition is in whole seconds.
        Some(Duration::from_millis(left.unsigned_abs() + 1000))
    }

    /// Copies the condition `ReplicaFailure` from a ReplicaSet: from the new one if it has the
    /// condition, else from the first old one that has it.
    fn copy_replica_failure(&mut self) {
        let mut sets = self.new.iter().chain(&self.old);
        let failure = sets.find_map(|set| {
            let status = set.status.as_ref()?;
            let mut conditions = status.conditions.iter().flatten();
            conditions.find(|condition| condition.type_ == REPLICA_FAILURE)
        });
        let Some(failure) = failure.cloned() else {
            return self.conditions.remove(REPLICA_FAILURE);
        };
        let known = self.conditions.get(REPLICA_FAILURE);
        if known
            .is_none_or(|known| known.status != failure.status || known.reason != failure.reason)
        {
            self.conditions.replace(DeploymentCondition {
                type_: failure.type_,
                status: failure.status,
                reason: failure.reason,
                message: failure.message,
                last_update_time: failure.last_transition_time.clone(),
                last_transition_time: failure.last_transition_time,
            });
        }
    }
}

/// Milliseconds since the condition was last updated.
fn since_last_update(condition: &DeploymentCondition, now: sendo::Timestamp) -> Option<i64> {
    let at = condition.last_update_time.as_ref()?.0;
    i64::try_from(now.duration_since(at).as_millis()).ok()
}

/// Whether the rollout is complete according to the Deployment's status: all replicas are updated
/// and available, and no old pod is left.
pub(super) fn is_complete(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    is_complete_as(deployment, &status)
}

fn is_complete_as(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let spec = deployment.spec.as_ref();
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let is_all = |number: Option<i32>| number.unwrap_or(0) == wanted;
    is_all(status.updated_replicas)
        && is_all(status.replicas)
        && is_all(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Whether there are more updated pods, fewer old ones, or more that are ready or available.
fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let updated = |status: &DeploymentStatus| status.updated_replicas.unwrap_or(0);
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - updated(status);
    let ready = |status: &DeploymentStatus| status.ready_replicas.unwrap_or(0);
    let available = |status: &DeploymentStatus| status.available_replicas.unwrap_or(0);
    updated(now) > updated(before)
        || old(now) < old(before)
        || ready(now) > ready(before)
        || available(now) > available(before)
}

/// The number of terminating pods; unknown if a ReplicaSet that was reconciled does not report it.
fn terminating<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> Option<i32> {
    let mut sum = 0;
    for status in sets.filter_map(|set| set.status.as_ref()) {
        let is_new = status.observed_generation.unwrap_or(0) == 0;
        match status.terminating_replicas {
            Some(number) => sum += number,
            None if is_new => {}
            None => return None,
        }
    }
    Some(sum)
}

/// The status as it is sent: counts of zero are left out, except that of terminating pods, which
/// is absent only if it is unknown.
fn without_zeros(mut status: DeploymentStatus) -> DeploymentStatus {
    for count in [
        &mut status.replicas,
        &mut status.updated_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
        &mut status.unavailable_replicas,
    ] {
        count.take_if(|number| *number == 0);
    }
    status
}
