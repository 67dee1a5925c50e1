//! Keeps the number of pods of a ReplicaSet, or a ReplicationController, at the replicas in its spec.
//!
//! `scale` creates and deletes pods; `rank` decides which are deleted first; `status` reports;
//! `replicated` is what both kinds have in common.
//!
//! There are no "expectations" here: reads include this program's own writes, so a sync
//! right after a create counts the new pods.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set.go`: `NewBaseController`, `getPodReplicaSets`,
//!   `syncReplicaSet`, `claimPods`
//! - `pkg/controller/replication/replication_controller.go`: `NewReplicationManager`

mod rank;
mod replicated;
mod scale;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use sendo::claim::Claim;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Reader, Result};

use self::replicated::Replicated;
use crate::pods::{self, BY_CONTROLLER, ORPHANS, Pod};

/// The controller of ReplicaSets.
pub fn controller() -> Controller {
    declare::<ReplicaSet>("replicaset-controller", "replicaset-controller")
}

/// The controller of ReplicationControllers.
pub fn replication_controllers() -> Controller {
    declare::<ReplicationController>("replicationcontroller-controller", "replication-controller")
}

fn declare<S: Replicated>(name: &str, events_as: &str) -> Controller {
    Controller::new::<S>()
        .named(name)
        .events_as(events_as)
        .owns::<Pod>()
        .watches(kind::<Pod>(), map_object(that_may_adopt::<S>))
        .reads::<ReplicaSet>()
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .workers(5)
        .reconcile(sync::<S>)
}

/// The objects that may adopt a pod: if it has no controller, those whose selector matches it.
fn that_may_adopt<S: Replicated>(pod: &Pod, cx: &Reader) -> Vec<ObjectKey> {
    if pod.controller().is_some() {
        return Vec::new();
    }
    let sets = cx
        .list::<S>()
        .in_namespace(pod.namespace().unwrap_or_default());
    sets.filter(|set| {
        let selector = set.selector();
        selector.is_some_and(|selector| selector.matches(pod.metadata.labels.as_ref()))
    })
    .keys()
}

async fn sync<S: Replicated>(set: Arc<S>, cx: Context) -> Result<Action> {
    let Some(selector) = set.selector() else {
        return Ok(Action::done());
    };
    let claim = Claim::new(&*set, &selector, &BY_CONTROLLER, &ORPHANS);
    let mut pods = claim.claim(pods::is_active, &cx).await?;
    pods.retain(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"));
    let (terminating, active): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| pod.is_being_deleted());

    // A failure is reported in the status before the sync is retried.
    let scaled = match set.is_being_deleted() {
        false => scale::scale(&*set, &active, &cx).await,
        true => Ok(()),
    };
    let again = status::write(&*set, &active, terminating.len(), &scaled, &cx).await?;
    scaled?;
    Ok(match again {
        Some(delay) => Action::after(delay),
        None => Action::done(),
    })
}
