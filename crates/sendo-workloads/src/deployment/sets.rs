//! Reads the sizes of ReplicaSets, orders them, and writes one.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/util/deployment_util.go`: `GetReplicaCountForReplicaSets`,
//!   `GetActualReplicaCountForReplicaSets`, `GetReadyReplicaCountForReplicaSets`,
//!   `GetAvailableReplicaCountForReplicaSets`
//! - `pkg/controller/controller_utils.go`: `ReplicaSetsByCreationTimestamp`

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use sendo::{Context, Error, ObjectExt, Result};

/// The replicas in the spec.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The pods in the status.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    status(set, |status| Some(status.replicas))
}

/// The ready pods in the status.
pub(super) fn ready(set: &ReplicaSet) -> i32 {
    status(set, |status| status.ready_replicas)
}

/// The available pods in the status.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    status(set, |status| status.available_replicas)
}

fn status(set: &ReplicaSet, field: impl Fn(&ReplicaSetStatus) -> Option<i32>) -> i32 {
    set.status.as_ref().and_then(field).unwrap_or(0)
}

/// The sum of `number` over ReplicaSets.
pub(super) fn total<'a>(
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
    number: impl Fn(&ReplicaSet) -> i32,
) -> i32 {
    sets.into_iter().map(number).sum()
}

/// Orders by creation time, the oldest first; by name if that is equal.
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    let created = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    created(a)
        .cmp(&created(b))
        .then_with(|| a.name().cmp(b.name()))
}

/// Updates a ReplicaSet. One that is not found is a conflict: what was read is out of date.
pub(super) async fn write(set: &ReplicaSet, cx: &Context) -> Result<ReplicaSet> {
    let written = cx.client().update(set).await;
    written.map_err(|error| match error.is_not_found() {
        true => Error::conflict(error),
        false => error.into(),
    })
}
