//! The store against a model: an API whose whole history is known, a program
//! that writes, others that write too, a watch that lags, lists in between,
//! answers that overtake each other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo_world::Random;
use serde_json::json;

use super::*;
use crate::Event;
use crate::cache::index::Index;
use crate::cache::listing::Listing;
use crate::cache::options::KindOptions;
use crate::cache::snapshot::Snapshot;
use crate::object::{ObjectExt, Typed};

static BY_VALUE: Index<ConfigMap, String> =
    Index::new("by-value", |map| map.data.as_ref()?.get("value").cloned());

const NAMES: [&str; 3] = ["a", "b", "c"];
const ALL: Scope = None;

/// What one object was at some version.
#[derive(Clone, PartialEq)]
struct State {
    uid: u64,
    version: u64,
    value: u64,
    selected: bool,
}

impl State {
    fn to_object(&self, name: &str) -> Arc<ConfigMap> {
        let object = json!({
            "metadata": {"namespace": "x", "name": name, "uid": self.uid.to_string(),
                         "resourceVersion": self.version.to_string(),
                         "labels": {"selected": self.selected.to_string()}},
            "data": {"value": self.value.to_string()},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }
}

fn codec() -> Codec {
    Codec::new(Arc::new(KindOptions::<ConfigMap>::new()))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("x", name)
}

/// One write: what the object was before and after.
#[derive(Clone)]
struct Entry {
    name: &'static str,
    before: Option<State>,
    after: Option<State>,
}

/// An API server that remembers everything. The entry at `n` has version `n + 1`.
#[derive(Default)]
struct Api {
    history: Vec<Entry>,
}

impl Api {
    fn at(&self, version: u64, name: &str) -> Option<State> {
        let until = &self.history[..version as usize];
        let last = until.iter().rev().find(|entry| entry.name == name)?;
        last.after.clone()
    }

    fn head(&self) -> u64 {
        self.history.len() as u64
    }

    /// Any write that is possible now; its version.
    fn write(&mut self, random: &Random) -> u64 {
        let name = NAMES[random.below(0..3) as usize];
        let before = self.at(self.head(), name);
        let version = self.head() + 1;
        let selected = random.below(0..4) > 0;
        let value = random.below(0..3);
        let after = match &before {
            Some(_) if random.below(0..3) == 0 => None,
            Some(state) => Some(State {
                version,
                value,
                selected,
                ..state.clone()
            }),
            None => Some(State {
                uid: version,
                version,
                value,
                selected,
            }),
        };
        self.history.push(Entry {
            name,
            before,
            after,
        });
        version
    }
}

/// A program with a store, and what is under way between it and the API.
struct Program {
    api: Api,
    store: Store,
    /// How far the watch has come.
    watched: u64,
    /// Own writes whose answer is still to come, and those whose has.
    unanswered: Vec<u64>,
    answered: BTreeMap<&'static str, u64>,
    /// What a reader of the events believes.
    reported: BTreeMap<ObjectKey, Arc<ConfigMap>>,
}

impl Program {
    fn new() -> Self {
        let selection = Selection::labels("selected=true".parse().unwrap());
        let kind = Arc::new(ConfigMap::kind());
        let mut store = Store::new(kind, Arc::new(selection), Arc::new(codec()));
        store.view_mut().add_index(&BY_VALUE);
        let mut program = Program {
            api: Api::default(),
            store,
            watched: 0,
            unanswered: Vec::new(),
            answered: BTreeMap::new(),
            reported: BTreeMap::new(),
        };
        program.list();
        program
    }

    fn step(&mut self, random: &Random) {
        match random.below(0..10) {
            0..3 => {
                self.api.write(random);
            }
            3..5 => {
                let own = self.api.write(random);
                self.unanswered.push(own);
            }
            5..7 if !self.unanswered.is_empty() => {
                let which = random.below(0..self.unanswered.len() as u64);
                let own = self.unanswered.swap_remove(which as usize);
                self.answer(own);
            }
            7 => self.bookmark(),
            8 if random.below(0..5) == 0 => self.list(),
            _ => self.watch(),
        }
    }

    /// The answer to an own write arrives.
    fn answer(&mut self, own: u64) {
        let Entry {
            name,
            before,
            after,
        } = self.api.history[own as usize - 1].clone();
        match (before, after) {
            (_, Some(state)) => self.store.wrote(state.to_object(name)),
            (Some(state), None) => {
                let uid = Uid::from(state.uid.to_string().as_str());
                self.store.deleted(key(name), uid, state.version);
            }
            (None, None) => unreachable!("nothing becomes nothing"),
        }
        let newest = self.answered.entry(name).or_default();
        *newest = own.max(*newest);
    }

    /// The watch shows one more change.
    fn watch(&mut self) {
        if self.watched == self.api.head() {
            return;
        }
        let entry = self.api.history[self.watched as usize].clone();
        self.watched += 1;
        let was = entry.before.filter(|state| state.selected);
        let is = entry.after.filter(|state| state.selected);
        let changes = match (was, is) {
            (_, Some(state)) => self.store.apply(&ALL, state.to_object(entry.name)),
            (Some(mut state), None) => {
                state.version = self.watched;
                let last = Some(state.to_object(entry.name));
                let last = last.map(|last| last as Arc<dyn AnyObject>);
                let deleted = self.store.delete(&ALL, key(entry.name), last, self.watched);
                deleted.into_iter().collect()
            }
            (None, None) => Vec::new(),
        };
        self.notify(changes);
    }

    fn bookmark(&mut self) {
        self.store.progress(&ALL, self.watched);
    }

    fn list(&mut self) {
        self.watched = self.api.head();
        let states = NAMES.iter().filter_map(|name| {
            let state = self.api.at(self.watched, name)?;
            state
                .selected
                .then(|| (key(name), state.to_object(name).into()))
        });
        let list = Listed {
            version: self.watched,
            objects: states.collect(),
            unreadable: BTreeSet::new(),
        };
        let changes = self.store.replace(&ALL, list);
        self.notify(changes);
    }

    fn notify(&mut self, changes: Vec<Change>) {
        for (key, notice) in changes {
            let before = self.reported.get(&key);
            match notice.open::<ConfigMap>(&codec()) {
                Event::Created { object, .. } => {
                    assert!(before.is_none(), "created twice");
                    self.reported.insert(key, object);
                }
                Event::Updated { old, new } => {
                    assert!(Arc::ptr_eq(before.unwrap(), &old), "a step is missing");
                    assert!(old.version() < new.version());
                    assert_eq!(old.metadata.uid, new.metadata.uid);
                    self.reported.insert(key, new);
                }
                Event::Deleted { object, .. } => {
                    assert_eq!(before.unwrap().metadata.uid, object.metadata.uid);
                    self.reported.remove(&key);
                }
            }
        }
    }

    fn check(&self) {
        // What counts is the later of what the watch has come to and what was
        // written. Without a bookmark, changes outside of the selection leave
        // the store behind the watch; what it shows is the same.
        let reached = self.store.view().version;
        assert!(reached <= self.watched);
        for name in NAMES {
            let own = self.answered.get(name).copied().unwrap_or_default();
            let expected = self.api.at(own.max(self.watched), name);
            let expected = expected.filter(|state| state.selected);
            let shown = self.store.view().objects.get(&key(name));
            assert_eq!(
                shown.map(|object| object.version()),
                expected.map(|state| state.version),
                "{name}, own {own}, watched {}",
                self.watched,
            );
            let reported = self.reported.get(&key(name)).map(|object| object.version());
            let seen = self.api.at(self.watched, name).filter(|s| s.selected);
            assert_eq!(reported, seen.map(|state| state.version), "{name}");
        }
        self.check_index();
    }

    fn check_index(&self) {
        let all = || Snapshot::new(Arc::new(self.store.view().clone())).list();
        for value in 0..3 {
            let value = value.to_string();
            let scanned =
                all().filter(|map: &ConfigMap| map.data.as_ref().unwrap()["value"] == value);
            let found: Listing<'_, ConfigMap> = all().by(&BY_VALUE, value.clone());
            assert_eq!(found.keys(), scanned.keys());
        }
    }

    /// Lets everything arrive, and checks that nothing is left lying over the cache.
    fn settle(&mut self) {
        for own in std::mem::take(&mut self.unanswered) {
            self.answer(own);
        }
        while self.watched < self.api.head() {
            self.watch();
            self.check();
        }
        self.bookmark();
        self.check();
        assert_eq!(
            self.store.overlay.iter().count(),
            0,
            "a write was never settled"
        );
        let progress = &self.store.scopes[&ALL];
        assert!(progress.waiting.is_empty());
    }
}

#[test]
fn reads_are_never_behind_the_watch_nor_the_programs_own_writes() {
    for seed in 0..1000 {
        let random = Random::from_seed(seed);
        let mut program = Program::new();
        for _ in 0..60 {
            program.step(&random);
            program.check();
        }
        program.settle();
    }
}

fn store() -> Store {
    Store::new(
        Arc::new(ConfigMap::kind()),
        Arc::default(),
        Arc::new(codec()),
    )
}

fn state(uid: u64, version: u64) -> State {
    State {
        uid,
        version,
        value: 0,
        selected: true,
    }
}

fn shown(store: &Store) -> Option<u64> {
    let object = store.view().objects.get(&key("a"))?;
    Some(object.version())
}

#[test]
fn what_is_created_and_deleted_before_the_watch_sees_it_stays_hidden() {
    let mut store = store();
    store.progress(&ALL, 5);
    store.wrote(state(1, 10).to_object("a"));
    assert_eq!(shown(&store), Some(10));
    store.deleted(key("a"), "1".into(), 0);
    assert_eq!(shown(&store), None);
    let created = store.apply(&ALL, state(1, 10).to_object("a"));
    assert_eq!(created.len(), 1, "the watch gets it as it is");
    assert_eq!(shown(&store), None);
    let last = state(1, 11).to_object("a");
    assert!(store.delete(&ALL, key("a"), Some(last), 11).is_some());
    store.apply(&ALL, state(2, 12).to_object("a"));
    assert_eq!(shown(&store), Some(12));
}

#[test]
fn a_list_settles_the_writes_up_to_its_version_and_no_others() {
    let mut store = store();
    store.wrote(state(1, 10).to_object("a"));
    store.wrote(state(2, 30).to_object("b"));
    let list = Listed {
        version: 20,
        objects: Vec::new(),
        unreadable: BTreeSet::new(),
    };
    store.replace(&ALL, list);
    let names: Vec<_> = store.view().objects.keys().map(|key| key.name()).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn an_api_restored_from_an_older_state_is_believed() {
    let mut store = store();
    let list = |version, objects| Listed {
        version,
        objects,
        unreadable: BTreeSet::new(),
    };
    store.replace(
        &ALL,
        list(100, vec![(key("a"), state(1, 100).to_object("a").into())]),
    );
    store.wrote(state(1, 120).to_object("a"));
    let changes = store.replace(
        &ALL,
        list(50, vec![(key("a"), state(1, 40).to_object("a").into())]),
    );
    assert_eq!(changes.len(), 1);
    assert_eq!(shown(&store), Some(40));
    assert_eq!(store.view().version, 50);
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_last_state() {
    let mut store = store();
    store.apply(&ALL, state(1, 10).to_object("a"));
    let list = Listed {
        version: 20,
        objects: Vec::new(),
        unreadable: BTreeSet::from([key("a")]),
    };
    assert!(store.replace(&ALL, list).is_empty());
    assert_eq!(shown(&store), Some(10));
}
