//! The status of a ReplicaSet.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set_utils.go`: `updateReplicaSetStatus`,
//!   `calculateStatus`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Context, Result, Timestamp};

use super::replicated::Replicated;
use crate::pods::control::Failure;
use crate::pods::{self, Pod};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Writes the status if it changed. Returns after what time to reconcile again because a ready pod
/// becomes available then.
pub(super) async fn write<S: Replicated>(
    set: &S,
    active: &[Arc<Pod>],
    terminating: usize,
    scaled: &Result<(), Failure>,
    cx: &Context,
) -> Result<Option<Duration>> {
    let now = cx.now();
    let min_ready = Duration::from_secs(set.min_ready_seconds().unwrap_or(0).max(0) as u64);
    let template = set
        .template()
        .and_then(|template| template.metadata.as_ref());
    let wanted_labels = template.and_then(|metadata| metadata.labels.clone());
    let wanted_labels = wanted_labels.unwrap_or_default();
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
        observed_generation: set.meta().generation,
        conditions: conditions(set, scaled, now),
    };
    set.write_status(new_status, cx).await?;
    Ok(available_in
        .into_iter()
        .filter(|wait| !wait.is_zero())
        .min())
}

/// The conditions of the object, with `ReplicaFailure` according to this sync. One that is set
/// already stays as it is.
fn conditions<S: Replicated>(
    set: &S,
    scaled: &Result<(), Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = set.status().conditions.unwrap_or_default();
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
