//! Processes one object: deletes it, or deletes or orphans its dependents.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/garbagecollector/garbagecollector.go`: `attemptToDeleteItem`,
//!   `processDeletingDependentsItem`, `orphanDependents`
//! - `pkg/controller/garbagecollector/operations.go`: `deleteObject`, `removeFinalizer`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use sendo::client::{Patch, Propagation};
use sendo::source::AnyMeta;
use sendo::{Action, Context, Kind, ObjectExt, ReconcileKey, Result};
use serde_json::json;

use super::absent_owners::AbsentOwners;
use super::item::{FOREGROUND, Item, ORPHAN, has_finalizer};
use super::owners::{self, OwnerState};

/// After what time a dependent is processed again whose owner is not watched yet.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// The reconciler of items.
pub(super) struct Collector {
    pub(super) absent: AbsentOwners,
}

impl ReconcileKey<Item> for Collector {
    async fn reconcile(&self, item: Item, cx: Context) -> Result<Action> {
        collect(item, &self.absent, cx).await
    }
}

async fn collect(item: Item, absent: &AbsentOwners, cx: Context) -> Result<Action> {
    let cached = cx.get_of::<AnyMeta>(&item.kind, &item.key);
    let Some(object) = cached.filter(|object| object.uid() == item.uid) else {
        return Ok(Action::done());
    };
    if object.is_being_deleted() {
        if has_finalizer(&object, ORPHAN) {
            orphan_dependents(&item, &object, &cx).await?;
        } else if has_finalizer(&object, FOREGROUND) {
            delete_dependents(&item, &object, absent, &cx).await?;
        }
        return Ok(Action::done());
    }
    Ok(
        match attempt_to_delete(&item, &object, absent, &cx).await? {
            Recheck::OnEvent => Action::done(),
            Recheck::Later => Action::after(RECHECK_AFTER),
        },
    )
}

/// When an object has to be processed again.
enum Recheck {
    /// When an event requires it.
    OnEvent,
    /// After a while: an owner exists, but its kind is not watched yet, so that no event would
    /// show its deletion.
    Later,
}

/// Deletes the object if all its owners are dangling, or else removes references to those that are.
async fn attempt_to_delete(
    item: &Item,
    object: &AnyMeta,
    absent: &AbsentOwners,
    cx: &Context,
) -> Result<Recheck> {
    let references: Vec<_> = object.meta().owner_references.iter().flatten().collect();
    if references.is_empty() {
        return Ok(Recheck::OnEvent);
    }
    let mut recheck = Recheck::OnEvent;
    let mut states = Vec::new();
    for reference in &references {
        let mut state = owners::state(object, reference, absent, cx).await?;
        if state == OwnerState::Unwatched {
            recheck = Recheck::Later;
            state = OwnerState::Solid;
        }
        states.push((*reference, state));
    }
    let has = |wanted: OwnerState| states.iter().any(|(_, state)| *state == wanted);
    if has(OwnerState::Solid) {
        let kept: Vec<_> = states
            .iter()
            .filter(|(_, state)| *state == OwnerState::Solid)
            .map(|(reference, _)| *reference)
            .collect();
        if kept.len() < references.len() {
            keep_owners(item, object, &kept, cx).await?;
        }
        return Ok(recheck);
    }
    let propagation =
        if has(OwnerState::WaitingForDependents) && !dependents_of(item, cx).is_empty() {
            // Its own dependents are deleted before it, as it is deleted before its owner.
            Propagation::Foreground
        } else if has_finalizer(object, ORPHAN) {
            Propagation::Orphan
        } else if has_finalizer(object, FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
    delete(&item.kind, object, propagation, cx).await?;
    Ok(Recheck::OnEvent)
}

async fn delete(
    kind: &Kind,
    object: &AnyMeta,
    propagation: Propagation,
    cx: &Context,
) -> Result<()> {
    let client = cx.client().of_kind::<AnyMeta>(kind.clone());
    // With preconditions: only this object, if it has not changed since its owners were checked.
    let deletion = client
        .delete(object)
        .propagation(propagation)
        .if_unchanged_since(object.version());
    match deletion.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn dependents_of(owner: &Item, cx: &Context) -> Vec<(Kind, Arc<AnyMeta>)> {
    let items = super::dependents(&owner.uid, cx.reader());
    let object = |item: Item| Some((item.kind.clone(), cx.get_of(&item.kind, &item.key)?));
    items.into_iter().filter_map(object).collect()
}

/// Deletes the dependents of an owner; removes its finalizer when none that blocks its deletion
/// is left.
async fn delete_dependents(
    item: &Item,
    owner: &AnyMeta,
    absent: &AbsentOwners,
    cx: &Context,
) -> Result<()> {
    let mut blocked = false;
    for (kind, dependent) in dependents_of(item, cx) {
        let reference = reference_to(item, &dependent);
        if reference.is_some_and(|r| r.block_owner_deletion == Some(true)) {
            blocked = true;
            if !dependent.is_being_deleted() {
                attempt_to_delete(&Item::new(&kind, &dependent), &dependent, absent, cx).await?;
            }
        }
    }
    if !blocked {
        remove_finalizer(item, owner, FOREGROUND, cx).await?;
    }
    Ok(())
}

/// Removes the references to the owner from its dependents, then the owner's finalizer.
async fn orphan_dependents(item: &Item, owner: &AnyMeta, cx: &Context) -> Result<()> {
    for (kind, dependent) in dependents_of(item, cx) {
        let others: Vec<_> = dependent
            .meta()
            .owner_references
            .iter()
            .flatten()
            .filter(|reference| reference.uid != item.uid.as_str())
            .collect();
        keep_owners(&Item::new(&kind, &dependent), &dependent, &others, cx).await?;
    }
    remove_finalizer(item, owner, ORPHAN, cx).await
}

fn reference_to<'a>(owner: &Item, dependent: &'a AnyMeta) -> Option<&'a OwnerReference> {
    let mut references = dependent.meta().owner_references.iter().flatten();
    references.find(|reference| reference.uid == owner.uid.as_str())
}

async fn keep_owners(
    item: &Item,
    object: &AnyMeta,
    kept: &[&OwnerReference],
    cx: &Context,
) -> Result<()> {
    let kept = if kept.is_empty() {
        json!(null)
    } else {
        json!(kept)
    };
    patch_metadata(item, object, json!({"ownerReferences": kept}), cx).await
}

async fn remove_finalizer(
    item: &Item,
    object: &AnyMeta,
    finalizer: &str,
    cx: &Context,
) -> Result<()> {
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.retain(|known| known != finalizer);
    patch_metadata(item, object, json!({"finalizers": finalizers}), cx).await
}

/// A merge patch of metadata, refused if the object has changed since it was read.
async fn patch_metadata(
    item: &Item,
    object: &AnyMeta,
    mut change: serde_json::Value,
    cx: &Context,
) -> Result<()> {
    change["uid"] = json!(item.uid.as_str());
    change["resourceVersion"] = json!(object.meta().resource_version);
    let patch = Patch::Merge(json!({"metadata": change}));
    let client = cx.client().of_kind::<AnyMeta>(item.kind.clone());
    match client.patch(object, patch).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
