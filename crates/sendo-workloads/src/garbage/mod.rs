//! Collects what its owners have left behind.
//!
//! Watches the metadata of every object of every kind. An object whose owners
//! are all gone is deleted; one that has lost some of them is relieved of the
//! dead references. An owner deleted in the foreground waits for those of its
//! dependents that block it; one deleted with `orphan` leaves them behind.
//!
//! Nothing is judged absent for not being in the cache: an owner that was not
//! seen to go is looked up before anything is deleted.

mod absent;
mod collect;
mod item;
mod owners;

use kube::Resource;
use sendo::cache::KindOptions;
use sendo::handler::map;
use sendo::source::{AnyMeta, every_kind};
use sendo::{Controller, Event, Index, Kind, ObjectExt, Reader, Uid};

use absent::Absent;
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
    let absent = Absent::default();
    let collector = Collector {
        absent: absent.clone(),
    };
    Controller::keyed::<Item>("garbage-collector-controller")
        .watches(
            kinds,
            map(move |event, cx: &Reader| concerned(event, &absent, cx)),
        )
        .workers(20)
        .reconcile(collector)
}

/// How the metadata of all objects are read from the API server: most of them are
/// texts that nobody here looks at.
pub(crate) fn cached() -> KindOptions<AnyMeta> {
    KindOptions::new().without(["metadata.annotations", "metadata.labels"])
}

/// Events come and go in numbers, own nothing and are owned by nobody.
fn is_exempt(kind: &Kind) -> bool {
    kind.kind == "Event"
}

/// The kinds the collector cares for.
fn kinds(cx: &Reader) -> Vec<Kind> {
    let mut kinds = cx.watched_kinds::<AnyMeta>();
    kinds.retain(|kind| !is_exempt(kind));
    kinds
}

/// The objects whose fate an event may decide.
fn concerned((kind, event): (Kind, Event<AnyMeta>), absent: &Absent, cx: &Reader) -> Vec<Item> {
    let object = event.object();
    match &event {
        Event::Deleted { .. } => {
            // Those who lived by it, and those who waited for its end.
            let mut items = dependents(&object.uid(), cx);
            if !items.is_empty() {
                absent.remember(object.uid());
            }
            items.extend(owners::items(object, cx));
            items
        }
        Event::Created { .. } | Event::Updated { .. } => {
            let has_owners = object.meta().owner_references.is_some();
            let mut items = Vec::new();
            if has_owners || item::waits_for_dependents(object) {
                items.push(Item::of(&kind, object));
            }
            // A dependent that stops blocking, or stops depending, may set its owner free.
            if let Event::Updated { old, .. } = &event
                && old.meta().owner_references != object.meta().owner_references
            {
                items.extend(owners::items(old, cx));
            }
            items
        }
    }
}

/// All objects that name `owner` as an owner.
fn dependents(owner: &Uid, cx: &Reader) -> Vec<Item> {
    let mut items = Vec::new();
    for kind in kinds(cx) {
        let Some(objects) = cx.list_of::<AnyMeta>(&kind) else {
            continue;
        };
        let found = objects.by(&DEPENDENTS, owner.clone());
        items.extend(found.iter().map(|object| Item::of(&kind, &object)));
    }
    items
}
