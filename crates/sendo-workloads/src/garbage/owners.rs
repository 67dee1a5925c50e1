//! The owners of an object: which kind each is, and whether it is still there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use sendo::source::AnyMeta;
use sendo::{Context, Kind, ObjectExt, ObjectKey, Reader, Result, Uid};

use super::absent::Absent;
use super::item::{FOREGROUND, Item, has_finalizer};

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// There, or not to be found out: the dependent stays.
    Solid,
    /// There, but not in the cache: it stays for now.
    Unwatched,
    /// Gone, or replaced by another of its name.
    Absent,
    /// Being deleted in the foreground, and waiting for this dependent.
    Waiting,
}

/// The owners of `object` as items; those of kinds nobody watches are left out.
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

/// The key under which the cache has the owner, in the dependent's namespace or in none.
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

/// The kind an owner reference names, whatever its version.
fn kind_of<'a>(reference: &OwnerReference, kinds: &'a [Kind]) -> Option<&'a Kind> {
    let group = reference.api_version.split_once('/').map_or("", |(g, _)| g);
    kinds
        .iter()
        .find(|kind| kind.group == group && kind.kind == reference.kind)
}

/// Finds out what has become of the owner that `reference` names.
pub(super) async fn fate(
    dependent: &AnyMeta,
    reference: &OwnerReference,
    absent: &Absent,
    cx: &Context,
) -> Result<Fate> {
    let uid = Uid::from(reference.uid.as_str());
    if absent.knows(&uid) {
        return Ok(Fate::Absent);
    }
    let served = cx.served_kinds().await?;
    let group = reference.api_version.split_once('/').map_or("", |(g, _)| g);
    let owner = served
        .iter()
        .find(|served| served.kind.group == group && served.kind.kind == reference.kind);
    // A kind that nobody serves may be back tomorrow: nothing is deleted for its absence.
    let Some(owner) = owner else {
        return Ok(Fate::Solid);
    };
    let key = match (owner.namespaced, dependent.namespace()) {
        (true, Some(namespace)) => ObjectKey::namespaced(namespace, &reference.name),
        // A cluster-scoped object cannot be owned by one in a namespace: there is nowhere to look.
        (true, None) => return Ok(Fate::Solid),
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
                Fate::Waiting
            } else if watched {
                Fate::Solid
            } else {
                Fate::Unwatched
            }
        }
        _ => Fate::Absent,
    })
}
