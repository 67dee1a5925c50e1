//! What is asked of a ReplicaSet, and of several; and how one is written.

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use sendo::{Context, Error, ObjectExt, Result};

/// How many pods the set is asked to keep.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    let spec = set.spec.as_ref();
    spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How many pods the set last reported.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    status(set, |status| Some(status.replicas))
}

/// How many of them serve.
pub(super) fn ready(set: &ReplicaSet) -> i32 {
    status(set, |status| status.ready_replicas)
}

/// How many of them have served for long enough.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    status(set, |status| status.available_replicas)
}

fn status(set: &ReplicaSet, field: impl Fn(&ReplicaSetStatus) -> Option<i32>) -> i32 {
    set.status.as_ref().and_then(field).unwrap_or(0)
}

/// The sum of a number over sets.
pub(super) fn total<'a>(
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
    of: impl Fn(&ReplicaSet) -> i32,
) -> i32 {
    sets.into_iter().map(of).sum()
}

/// The older one first; names decide between sets of one second.
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    let born = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    born(a).cmp(&born(b)).then_with(|| a.name().cmp(b.name()))
}

/// Puts a changed set in its place. If it is gone, what was read of it is outdated.
pub(super) async fn write(set: &ReplicaSet, cx: &Context) -> Result<ReplicaSet> {
    let written = cx.client().update(set).await;
    written.map_err(|error| match error.is_not_found() {
        true => Error::conflict(error),
        false => error.into(),
    })
}
