//! The garbage collector: deletes dependents whose owners are deleted.
//!
//! Watches the metadata of every object of every kind. An object whose owners
//! are all deleted is deleted; one that has lost some of them loses the references
//! to those. An owner deleted in the foreground waits for those of its
//! dependents that block it; those of one deleted with `orphan` stay.
//!
//! An owner is not taken for deleted because it is not in the cache: if its deletion
//! was not watched, the API server is asked before anything is deleted.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/garbagecollector/graph_builder.go`: `processGraphChanges`

mod absent_owners;
mod collect;
mod item;
mod owners;

use kube::Resource;
use sendo::cache::KindOptions;
use sendo::handler::map;
use sendo::source::{AnyMeta, every_kind};
use sendo::{Controller, Event, Index, Kind, ObjectExt, Reader, Uid};

use absent_owners::AbsentOwners;
use collect::Collector;
use item::Item;

/// Objects by the uids of their owners.
static DEPENDENTS: Index<AnyMeta, Uid> = Index::many("dependents-by-owner", |object: &AnyMeta| {
    let owners = object.meta().owner_references.iter().flatten();
    owners.map(|owner| Uid::from(owner.uid.as_str())).collect()
});

/// The garbage collector.
pub fn controller() -> Controller {
    let kinds = every_kind().except(is_exempt).index(&DEPENDENTS);
    let absent = AbsentOwners::default();
    let collector = Collector {
        absent: absent.clone(),
    };
    Controller::keyed::<Item>("garbage-collector-controller")
        .watches(
            kinds,
            map(move |event, cx: &Reader| affected_items(event, &absent, cx)),
        )
        .workers(20)
        .reconcile(collector)
}

/// How the metadata of all objects is decoded and cached: without labels and annotations, which
/// are most of it and which no controller here reads.
pub(crate) fn cached() -> KindOptions<AnyMeta> {
    KindOptions::new().without(["metadata.annotations", "metadata.labels"])
}

/// Events are not collected: there are many, and they neither own nor have owners.
fn is_exempt(kind: &Kind) -> bool {
    kind.kind == "Event"
}

/// The watched kinds that are garbage collected.
fn kinds(cx: &Reader) -> Vec<Kind> {
    let mut kinds = cx.watched_kinds::<AnyMeta>();
    kinds.retain(|kind| !is_exempt(kind));
    kinds
}

/// The objects that an event may cause to be deleted or changed.
fn affected_items(
    (kind, event): (Kind, Event<AnyMeta>),
    absent: &AbsentOwners,
    cx: &Reader,
) -> Vec<Item> {
    let object = event.object();
    match &event {
        Event::Deleted { .. } => {
            // Its dependents, and its owners, which may have waited for its deletion.
            let mut items = dependents(&object.uid(), cx);
            if !items.is_empty() {
                absent.insert(object.uid());
            }
            items.extend(owners::items(object, cx));
            items
        }
        Event::Created { .. } | Event::Updated { .. } => {
            let has_owners = object.meta().owner_references.is_some();
            let mut items = Vec::new();
            if has_owners || item::waits_for_dependents(object) {
                items.push(Item::new(&kind, object));
            }
            // An owner may have waited for a dependent that no longer refers to it, or blocks it.
            if let Event::Updated { old, .. } = &event
                && old.meta().owner_references != object.meta().owner_references
            {
                items.extend(owners::items(old, cx));
            }
            items
        }
    }
}

/// All objects with a reference to `owner`.
fn dependents(owner: &Uid, cx: &Reader) -> Vec<Item> {
    let mut items = Vec::new();
    for kind in kinds(cx) {
        let Some(objects) = cx.list_of::<AnyMeta>(&kind) else {
            continue;
        };
        let found = objects.by(&DEPENDENTS, owner.clone());
        items.extend(found.iter().map(|object| Item::new(&kind, &object)));
    }
    items
}
