//! What a slow reader receives, against what happened.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo_world::Random;
use serde_json::json;

use super::*;
use crate::cache::options::KindOptions;
use crate::object::{ObjectExt, Uid};

fn codec() -> Codec {
    Codec::new(Arc::new(KindOptions::<ConfigMap>::new()))
}

fn object(name: &str, uid: u64, version: u64) -> Arc<ConfigMap> {
    let meta =
        json!({"name": name, "uid": uid.to_string(), "resourceVersion": version.to_string()});
    Arc::new(serde_json::from_value(json!({ "metadata": meta })).unwrap())
}

fn created(uid: u64, version: u64) -> Event<ConfigMap> {
    Event::Created {
        object: object("a", uid, version),
        initial: false,
    }
}

fn updated(uid: u64, old: u64, new: u64) -> Event<ConfigMap> {
    Event::Updated {
        old: object("a", uid, old),
        new: object("a", uid, new),
    }
}

fn deleted(uid: u64, version: u64) -> Event<ConfigMap> {
    Event::Deleted {
        object: object("a", uid, version),
        final_state: true,
    }
}

fn unread(events: impl IntoIterator<Item = Event<ConfigMap>>) -> Vec<String> {
    let mut unread = Unread::new(false);
    for event in events {
        unread.push("a".into(), event.into(), Moment::START);
    }
    std::iter::from_fn(|| unread.pop())
        .map(|unopened| words(unopened.open(&codec())))
        .collect()
}

fn words(delivery: Delivery<ConfigMap>) -> String {
    let show = |object: &ConfigMap| format!("{}@{}", object.uid(), object.version());
    match delivery {
        Delivery::Synced => "synced".to_owned(),
        Delivery::Event(Event::Created { object, .. }) => format!("created {}", show(&object)),
        Delivery::Event(Event::Updated { old, new }) => {
            format!("updated {} to {}", show(&old), show(&new))
        }
        Delivery::Event(Event::Deleted { object, .. }) => format!("deleted {}", show(&object)),
    }
}

#[test]
fn changes_of_one_object_are_merged_while_unread() {
    assert_eq!(unread([created(1, 1), updated(1, 1, 2)]), ["created 1@2"]);
    assert_eq!(
        unread([updated(1, 1, 2), updated(1, 2, 3)]),
        ["updated 1@1 to 1@3"]
    );
    assert_eq!(unread([updated(1, 1, 2), deleted(1, 3)]), ["deleted 1@3"]);
}

#[test]
fn what_came_and_went_unread_is_seen_once_as_deleted() {
    assert_eq!(unread([created(1, 1), deleted(1, 2)]), ["deleted 1@2"]);
}

#[test]
fn objects_of_the_same_name_are_never_merged() {
    assert_eq!(
        unread([
            updated(1, 1, 2),
            deleted(1, 3),
            created(2, 4),
            deleted(2, 5),
            created(3, 6)
        ]),
        ["deleted 1@3", "deleted 2@5", "created 3@6"]
    );
}

#[test]
fn an_object_that_left_the_selection_and_came_back_is_two_events() {
    assert_eq!(
        unread([deleted(1, 2), created(1, 3)]),
        ["deleted 1@2", "created 1@3"]
    );
}

/// Things happen to a few objects while a reader reads now and then. What it
/// reads must be a true, shorter account of what happened.
#[test]
fn a_slow_reader_gets_changes_in_order() {
    for seed in 0..3000 {
        let random = Random::from_seed(seed);
        let mut run = Run::new();
        for version in 1..=80 {
            run.happen(&random, version);
            while random.below(0..4) == 0 && run.read() {}
            assert!(
                run.unread.turns.len() <= run.touched.len() + 1,
                "not bounded"
            );
        }
        while run.read() {}
        run.check_end();
    }
}

struct Run {
    unread: Unread,
    now: BTreeMap<ObjectKey, Arc<ConfigMap>>,
    reported: BTreeMap<ObjectKey, Arc<ConfigMap>>,
    /// Objects that have something unread, by uid.
    touched: BTreeSet<Uid>,
    gone: BTreeSet<Uid>,
    seen_gone: BTreeSet<Uid>,
    synced: bool,
}

impl Run {
    fn new() -> Self {
        let mut run = Run {
            unread: Unread::new(false),
            now: BTreeMap::new(),
            reported: BTreeMap::new(),
            touched: BTreeSet::new(),
            gone: BTreeSet::new(),
            seen_gone: BTreeSet::new(),
            synced: false,
        };
        let initial = true;
        for name in ["a", "b"] {
            let object = object(name, if name == "a" { 900 } else { 901 }, 0);
            run.now.insert(name.into(), object.clone());
            run.touched.insert(object.uid());
            run.unread.push(
                name.into(),
                Event::Created { object, initial }.into(),
                Moment::START,
            );
        }
        run.unread.push_synced();
        run
    }

    fn happen(&mut self, random: &Random, version: u64) {
        let name = ["a", "b", "c"][random.below(0..3) as usize];
        let key = ObjectKey::from(name);
        let event = match self.now.get(&key).cloned() {
            None => {
                let new = object(name, version, version);
                self.now.insert(key.clone(), new.clone());
                Event::Created {
                    object: new,
                    initial: false,
                }
            }
            Some(old) => {
                let uid = old.uid().as_str().parse().unwrap();
                let new = object(name, uid, version);
                if random.below(0..3) == 0 {
                    self.now.remove(&key);
                    self.gone.insert(new.uid());
                    Event::Deleted {
                        object: new,
                        final_state: true,
                    }
                } else {
                    self.now.insert(key.clone(), new.clone());
                    Event::Updated { old, new }
                }
            }
        };
        self.touched.insert(event.object().uid());
        self.unread.push(key, event.into(), Moment::START);
    }

    fn read(&mut self) -> bool {
        let popped = self.unread.pop();
        let event = match popped.map(|unopened| unopened.open::<ConfigMap>(&codec())) {
            None => return false,
            Some(Delivery::Synced) => {
                assert!(!std::mem::replace(&mut self.synced, true), "synced twice");
                return true;
            }
            Some(Delivery::Event(event)) => event,
        };
        let key = ObjectKey::from_object(&**event.object());
        let known = self.reported.get(&key);
        match &event {
            Event::Created { object, initial } => {
                assert!(known.is_none(), "two objects of one name");
                assert!(!(*initial && self.synced), "what was there comes first");
                self.reported.insert(key, object.clone());
            }
            Event::Updated { old, new } => {
                assert!(Arc::ptr_eq(known.unwrap(), old), "not what was read last");
                assert!(old.version() < new.version());
                self.reported.insert(key, new.clone());
            }
            Event::Deleted { object, .. } => {
                let same = known.is_none_or(|known| known.uid() == object.uid());
                assert!(same, "deleted before the one that was read");
                assert!(self.seen_gone.insert(object.uid()), "deleted twice");
                self.reported.remove(&key);
            }
        }
        self.touched.remove(&event.object().uid());
        true
    }

    fn check_end(&self) {
        assert!(self.synced);
        assert_eq!(self.seen_gone, self.gone, "every deletion is delivered");
        let versions = |all: &BTreeMap<ObjectKey, Arc<ConfigMap>>| -> Vec<_> {
            all.values().map(|object| object.version()).collect()
        };
        assert_eq!(versions(&self.reported), versions(&self.now));
    }
}
