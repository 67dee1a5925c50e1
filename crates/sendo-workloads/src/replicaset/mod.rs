//! Keeps the number of a ReplicaSet's pods at the replicas in its spec.
//!
//! `claim` adopts and releases pods as labels change; `scale` creates and deletes them;
//! `rank` decides which are deleted first; `status` reports.
//!
//! There are no "expectations" here: reads include this program's own writes, so a sync
//! right after a create counts the new pods.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set.go`: `NewBaseController`, `getPodReplicaSets`,
//!   `syncReplicaSet`, `claimPods`

mod rank;
mod scale;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Reader, Result, Selector};

use crate::claim::Claim;
use crate::pods::{self, BY_CONTROLLER, ORPHANS, Pod};

/// The controller of ReplicaSets.
pub fn controller() -> Controller {
    Controller::new::<ReplicaSet>()
        .named("replicaset-controller")
        .owns::<Pod>()
        .watches(kind::<Pod>(), map_object(replica_sets_that_may_adopt))
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .workers(5)
        .reconcile(sync)
}

/// The ReplicaSets that may adopt a pod: if it has no controller, those whose selector matches it.
fn replica_sets_that_may_adopt(pod: &Pod, cx: &Reader) -> Vec<ObjectKey> {
    if pod.controller().is_some() {
        return Vec::new();
    }
    let sets = cx
        .list::<ReplicaSet>()
        .in_namespace(pod.namespace().unwrap_or_default());
    sets.filter(|set| selector(set).is_some_and(|s| s.matches(pod.metadata.labels.as_ref())))
        .keys()
}

/// The ReplicaSet's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(set: &ReplicaSet) -> Option<Selector> {
    let spec = set.spec.as_ref()?;
    Selector::try_from(&spec.selector).ok()
}

async fn sync(set: Arc<ReplicaSet>, cx: Context) -> Result<Action> {
    let Some(selector) = selector(&set) else {
        return Ok(Action::done());
    };
    let claim = Claim {
        owner: &*set,
        selector: &selector,
        controlled: &BY_CONTROLLER,
        orphans: &ORPHANS,
    };
    let mut pods = claim.claim(pods::is_active, &cx).await?;
    pods.retain(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"));
    let (terminating, active): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| pod.is_being_deleted());

    // A failure is reported in the status before the sync is retried.
    let scaled = match set.is_being_deleted() {
        false => scale::scale(&set, &active, &cx).await,
        true => Ok(()),
    };
    let again = status::write(&set, &active, terminating.len(), &scaled, &cx).await?;
    scaled?;
    Ok(match again {
        Some(delay) => Action::after(delay),
        None => Action::done(),
    })
}
