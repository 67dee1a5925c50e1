//! The owners of an object: their kinds, and whether they still exist.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/garbagecollector/garbagecollector.go`: `isDangling`, `classifyReferences`

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use sendo::source::AnyMeta;
use sendo::{Context, Kind, ObjectExt, ObjectKey, Reader, Result, Uid};

use super::absent_owners::AbsentOwners;
use super::item::{FOREGROUND, Item, has_finalizer};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists, or that cannot be found out: the dependent stays.
    Solid,
    /// It exists, but is not in the cache: the dependent stays for now.
    Unwatched,
    /// It was deleted, or replaced by another object of its name.
    Dangling,
    /// It is being deleted in the foreground, and waits for its dependents.
    WaitingForDependents,
}

/// The owners of `object` as items; those of kinds that are not watched are left out.
pub(super) fn items(object: &AnyMeta, cx: &Reader) -> Vec<Item> {
    let kinds = super::kinds(cx);
    let references = object.meta().owner_references.iter().flatten();
    let item = |reference: &OwnerReference| {
        let kind = kind_of(reference, &kinds)?;
        Some(Item {
            kind: kind.clone(),
            key: key_in(cx, kind, reference, object.namespace())?,
            uid: Uid::from(reference.uid.as_str()),
        })
    };
    references.filter_map(item).collect()
}

/// The key of the owner in the cache: in the dependent's namespace, or cluster-scoped.
fn key_in(
    cx: &Reader,
    kind: &Kind,
    reference: &OwnerReference,
    namespace: Option<&str>,
) -> Option<ObjectKey> {
    let cluster = ObjectKey::cluster(&reference.name);
    let local = namespace.map(|namespace| ObjectKey::namespaced(namespace, &reference.name));
    local
        .into_iter()
        .chain([cluster])
        .find(|key| cx.get_of::<AnyMeta>(kind, key).is_some())
}

/// The kind that an owner reference names, in any version.
fn kind_of<'a>(reference: &OwnerReference, kinds: &'a [Kind]) -> Option<&'a Kind> {
    let group = reference.api_version.split_once('/').map_or("", |(g, _)| g);
    kinds
        .iter()
        .find(|kind| kind.group == group && kind.kind == reference.kind)
}

/// Finds out the state of the owner that `reference` names.
pub(super) async fn state(
    dependent: &AnyMeta,
    reference: &OwnerReference,
    absent: &AbsentOwners,
    cx: &Context,
) -> Result<OwnerState> {
    let uid = Uid::from(reference.uid.as_str());
    if absent.contains(&uid) {
        return Ok(OwnerState::Dangling);
    }
    let served = cx.served_kinds().await?;
    let group = reference.api_version.split_once('/').map_or("", |(g, _)| g);
    let owner = served
        .iter()
        .find(|served| served.kind.group == group && served.kind.kind == reference.kind);
    // A kind that is not served now may be served again: nothing is deleted because of it.
    let Some(owner) = owner else {
        return Ok(OwnerState::Solid);
    };
    let key = match (owner.namespaced, dependent.namespace()) {
        (true, Some(namespace)) => ObjectKey::namespaced(namespace, &reference.name),
        // A cluster-scoped object cannot have a namespaced owner: its namespace is unknown.
        (true, None) => return Ok(OwnerState::Solid),
        (false, _) => ObjectKey::cluster(&reference.name),
    };
    let cached = cx.get_of::<AnyMeta>(&owner.kind, &key);
    let mut watched = true;
    let found = match cached {
        Some(object) if object.uid() == uid => Some((*object).clone()),
        _ => {
            watched = false;
            let client = cx.client().of_kind::<AnyMeta>(owner.kind.clone());
            client.live_get(&key).await?
        }
    };
    Ok(match found {
        Some(object) if object.uid() == uid => {
            let blocks = reference.block_owner_deletion == Some(true);
            if blocks && object.is_being_deleted() && has_finalizer(&object, FOREGROUND) {
                OwnerState::WaitingForDependents
            } else if watched {
                OwnerState::Solid
            } else {
                OwnerState::Unwatched
            }
        }
        _ => OwnerState::Dangling,
    })
}
