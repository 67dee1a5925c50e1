//! Runs the pods of a StatefulSet, each with a name and with claims of its own.
//!
//! `revisions` says which templates the pods have, `replicas` creates and deletes pods in order,
//! `update` replaces those of an old template, `pod` builds them, `claims` creates their claims and
//! says whom these are deleted with, `status` reports.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set.go`: `NewStatefulSetController`,
//!   `getPodsForStatefulSet`, `syncStatefulSet`
//! - `pkg/controller/statefulset/stateful_set_control.go`: `UpdateStatefulSet`, `performUpdate`,
//!   `updateStatefulSet`

mod claims;
mod pod;
mod replicas;
mod revisions;
mod status;
mod update;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use sendo::claim::Claim;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Reader, Result, Selector};

use self::replicas::Sync;
use crate::pods::{BY_CONTROLLER, ORPHANS, Pod};

/// The controller of StatefulSets.
pub fn controller() -> Controller {
    Controller::new::<StatefulSet>()
        .named("statefulset-controller")
        .owns::<Pod>()
        .watches(kind::<Pod>(), map_object(sets_that_may_adopt))
        .reads::<PersistentVolumeClaim>()
        .reads::<ControllerRevision>()
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .index(&crate::revisions::BY_CONTROLLER)
        .index(&crate::revisions::ORPHANS)
        .workers(5)
        .reconcile(sync)
}

/// The StatefulSets that may adopt a pod: if it has no controller, those whose selector matches it.
fn sets_that_may_adopt(pod: &Pod, cx: &Reader) -> Vec<ObjectKey> {
    if pod.controller().is_some() {
        return Vec::new();
    }
    let sets = cx
        .list::<StatefulSet>()
        .in_namespace(pod.namespace().unwrap_or_default());
    sets.filter(|set| selector(set).is_some_and(|s| s.matches(pod.metadata.labels.as_ref())))
        .keys()
}

/// The StatefulSet's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(set: &StatefulSet) -> Option<Selector> {
    let spec = set.spec.as_ref()?;
    Selector::try_from(&spec.selector).ok()
}

async fn sync(set: Arc<StatefulSet>, cx: Context) -> Result<Action> {
    let Some(selector) = selector(&set) else {
        return Ok(Action::done());
    };
    let known = crate::revisions::claim(&*set, &selector, &cx).await?;
    let is_member = |pod: &Pod| pod::ordinal_in(set.name(), pod.name()).is_some();
    let claim = Claim::new(&*set, &selector, &BY_CONTROLLER, &ORPHANS);
    let mut pods = claim.claim(is_member, &cx).await?;
    pods.retain(|pod| is_member(pod));

    let revisions = revisions::find(&set, &known, &cx).await?;
    let mut sync = Sync::new(&set, revisions, &pods, &cx);
    // A failure is reported in the status before the sync is tried again.
    let result = match set.is_being_deleted() {
        true => Ok(()),
        false => sync.advance().await,
    };
    let status = sync.write_status().await;
    result?;
    status?;
    sync.prune_history(&known).await?;
    Ok(match sync.next_available_in() {
        Some(delay) => Action::after(delay),
        None => Action::done(),
    })
}
