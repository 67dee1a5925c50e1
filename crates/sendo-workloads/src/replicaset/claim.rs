//! Which pods are a set's own: adopts orphans that match, releases pods that no longer do.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use sendo::{Context, Error, ObjectExt, Patch, Result, Selector};
use serde_json::json;

use crate::pods::{self, BY_CONTROLLER, ORPHANS};

/// The pods that are this set's after claiming.
pub(super) async fn claim(
    set: &ReplicaSet,
    selector: &Selector,
    cx: &Context,
) -> Result<Vec<Arc<Pod>>> {
    let mut ours = Vec::new();
    for pod in cx.list::<Pod>().by(&BY_CONTROLLER, set.uid()) {
        if selector.matches(pod.metadata.labels.as_ref()) {
            ours.push(pod);
        } else if !set.is_being_deleted() {
            release(set, &pod, cx).await?;
        }
    }
    if set.is_being_deleted() {
        return Ok(ours);
    }
    let namespace = set.namespace().unwrap_or_default().to_owned();
    let orphans = cx.list::<Pod>().by(&ORPHANS, namespace);
    let adoptable = orphans
        .filter(|pod| pods::is_active(pod) && selector.matches(pod.metadata.labels.as_ref()));
    let mut may_adopt = false;
    for pod in adoptable {
        if !may_adopt {
            refuse_if_replaced(set, cx).await?;
            may_adopt = true;
        }
        if let Some(adopted) = adopt(set, &pod, cx).await? {
            ours.push(adopted);
        }
    }
    Ok(ours)
}

/// The cache may be old: a set that is going away, or another of its name, must
/// not take pods, or they would be collected with it.
async fn refuse_if_replaced(set: &ReplicaSet, cx: &Context) -> Result<()> {
    let live = cx.client().live().get::<ReplicaSet>(set.key()).await?;
    match live {
        Some(live) if live.uid() == set.uid() && !live.is_being_deleted() => Ok(()),
        _ => Err(Error::message(format!(
            "{} has been deleted or replaced, so it adopts no pods",
            set.key()
        ))),
    }
}

async fn adopt(set: &ReplicaSet, pod: &Pod, cx: &Context) -> Result<Option<Arc<Pod>>> {
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": pod.uid().as_str(),
        "ownerReferences": [owner_reference(set)],
    }}));
    match cx.client().patch(pod, patch).await {
        Ok(adopted) => Ok(Some(Arc::new(adopted))),
        // Gone, or another pod by now: nothing to adopt.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn release(set: &ReplicaSet, pod: &Pod, cx: &Context) -> Result<()> {
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": pod.uid().as_str(),
        "ownerReferences": [{"$patch": "delete", "uid": set.uid().as_str()}],
    }}));
    match cx.client().patch(pod, patch).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The reference by which pods name this set as their controller.
pub(super) fn owner_reference(set: &ReplicaSet) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": set.name(),
        "uid": set.uid().as_str(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
