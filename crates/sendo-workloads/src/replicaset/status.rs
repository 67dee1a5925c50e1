//! The status of a ReplicaSet.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set_utils.go`: `updateReplicaSetStatus`,
//!   `calculateStatus`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Context, Result, Timestamp};

use super::scale::Failure;
use crate::pods::{self, Pod};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Writes the status if it changed. Returns after what time to reconcile again because a ready pod
/// becomes available then.
pub(super) async fn write(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    scaled: &Result<(), Failure>,
    cx: &Context,
) -> Result<Option<Duration>> {
    let now = cx.now();
    let spec = set.spec.clone().unwrap_or_default();
    let min_ready = Duration::from_secs(spec.min_ready_seconds.unwrap_or(0).max(0) as u64);
    let template = spec.template.and_then(|t| t.metadata).unwrap_or_default();
    let wanted_labels = template.labels.unwrap_or_default();
    let fully_labeled = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        wanted_labels
            .iter()
            .all(|(name, value)| labels.and_then(|l| l.get(name)) == Some(value))
    };
    let available_in: Vec<_> = active
        .iter()
        .filter_map(|pod| pods::available_in(pod, min_ready, now))
        .collect();
    let count = |wanted: &dyn Fn(&Pod) -> bool| {
        Some(active.iter().filter(|pod| wanted(pod)).count() as i32)
    };

    let new_status = ReplicaSetStatus {
        replicas: active.len() as i32,
        fully_labeled_replicas: count(&fully_labeled),
        ready_replicas: count(&pods::is_ready),
        available_replicas: Some(available_in.iter().filter(|wait| wait.is_zero()).count() as i32),
        terminating_replicas: Some(terminating as i32),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, scaled, now),
    };
    cx.client()
        .status(set, |status| *status = new_status)
        .await?;
    Ok(available_in
        .into_iter()
        .filter(|wait| !wait.is_zero())
        .min())
}

/// The conditions of the ReplicaSet, with `ReplicaFailure` according to this sync. One that is set
/// already stays as it is.
fn conditions(
    set: &ReplicaSet,
    scaled: &Result<(), Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let before = set
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    let mut conditions = before.unwrap_or_default();
    let known = conditions.iter().position(|c| c.type_ == REPLICA_FAILURE);
    match (scaled, known) {
        (Ok(()), Some(at)) => {
            conditions.remove(at);
        }
        (Err(failure), None) => {
            let reason = match failure {
                Failure::Create(_) => "FailedCreate",
                Failure::Delete(_) => "FailedDelete",
            };
            let (Failure::Create(cause) | Failure::Delete(cause)) = failure;
            conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(cause.to_string()),
                last_transition_time: Some(Time(now)),
            });
        }
        _ => {}
    }
    (!conditions.is_empty()).then_some(conditions)
}
