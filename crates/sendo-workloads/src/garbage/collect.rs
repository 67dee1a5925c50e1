//! What is done about one object.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use sendo::client::{Patch, Propagation};
use sendo::source::AnyMeta;
use sendo::{Action, Context, Kind, ObjectExt, ReconcileKey, Result};
use serde_json::json;

use super::absent::Absent;
use super::item::{FOREGROUND, Item, ORPHAN, has_finalizer};
use super::owners::{self, Fate};

/// How soon to look again at a dependent of an owner that is not watched yet.
const AGAIN: Duration = Duration::from_secs(1);

/// Decides about objects, with what is known of owners that went.
pub(super) struct Collector {
    pub(super) absent: Absent,
}

impl ReconcileKey<Item> for Collector {
    async fn reconcile(&self, item: Item, cx: Context) -> Result<Action> {
        collect(item, &self.absent, cx).await
    }
}

async fn collect(item: Item, absent: &Absent, cx: Context) -> Result<Action> {
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
    Ok(match judge(&item, &object, absent, &cx).await? {
        Judgement::Final => Action::done(),
        Judgement::ForNow => Action::after(AGAIN),
    })
}

/// Whether an event will tell when a judgement has to be made anew.
enum Judgement {
    Final,
    /// An owner is there, but of a kind that is not watched yet: nobody would
    /// tell that it went.
    ForNow,
}

/// Deletes the object if no owner keeps it, or takes the dead ones off its list.
async fn judge(item: &Item, object: &AnyMeta, absent: &Absent, cx: &Context) -> Result<Judgement> {
    let references: Vec<_> = object.meta().owner_references.iter().flatten().collect();
    if references.is_empty() {
        return Ok(Judgement::Final);
    }
    let mut judgement = Judgement::Final;
    let mut fates = Vec::new();
    for reference in &references {
        let mut fate = owners::fate(object, reference, absent, cx).await?;
        if fate == Fate::Unwatched {
            judgement = Judgement::ForNow;
            fate = Fate::Solid;
        }
        fates.push((*reference, fate));
    }
    let has = |wanted: Fate| fates.iter().any(|(_, fate)| *fate == wanted);
    if has(Fate::Solid) {
        let kept: Vec<_> = fates
            .iter()
            .filter(|(_, fate)| *fate == Fate::Solid)
            .map(|(reference, _)| *reference)
            .collect();
        if kept.len() < references.len() {
            keep_owners(item, object, &kept, cx).await?;
        }
        return Ok(judgement);
    }
    let propagation = if has(Fate::Waiting) && !dependents_of(item, cx).is_empty() {
        // Its own dependents go before it, as it goes before its owner.
        Propagation::Foreground
    } else if has_finalizer(object, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(object, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    delete(&item.kind, object, propagation, cx).await?;
    Ok(Judgement::Final)
}

async fn delete(
    kind: &Kind,
    object: &AnyMeta,
    propagation: Propagation,
    cx: &Context,
) -> Result<()> {
    let client = cx.client().of_kind::<AnyMeta>(kind.clone());
    // Only the very object that was judged, as it was then.
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

/// Asks the dependents of an owner to go; sets it free when none that blocks it is left.
async fn delete_dependents(
    item: &Item,
    owner: &AnyMeta,
    absent: &Absent,
    cx: &Context,
) -> Result<()> {
    let mut blocked = false;
    for (kind, dependent) in dependents_of(item, cx) {
        let reference = reference_to(item, &dependent);
        if reference.is_some_and(|r| r.block_owner_deletion == Some(true)) {
            blocked = true;
            if !dependent.is_being_deleted() {
                judge(&Item::of(&kind, &dependent), &dependent, absent, cx).await?;
            }
        }
    }
    if !blocked {
        remove_finalizer(item, owner, FOREGROUND, cx).await?;
    }
    Ok(())
}

/// Takes the owner off the list of each dependent, then sets it free.
async fn orphan_dependents(item: &Item, owner: &AnyMeta, cx: &Context) -> Result<()> {
    for (kind, dependent) in dependents_of(item, cx) {
        let others: Vec<_> = dependent
            .meta()
            .owner_references
            .iter()
            .flatten()
            .filter(|reference| reference.uid != item.uid.as_str())
            .collect();
        keep_owners(&Item::of(&kind, &dependent), &dependent, &others, cx).await?;
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
