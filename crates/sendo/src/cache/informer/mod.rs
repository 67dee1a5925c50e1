//! The cached objects of a kind, kept up to date by a watch and shared by all readers.

mod follow;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use sendo_world::{Clock, Timestamp};
use serde::Deserialize;
use tokio::sync::watch;

use super::failure_log::FailureLog;
use super::held::{AnyObject, Codec, Held, Notice};
use super::index::{Index, IndexValue};
use super::reader::Reader;
use super::reflector::{Undecoded, Update, number};
use super::selection::Selection;
use super::snapshot::{Snapshot, View};
use super::state::{Unreadable, Verb, WatchError, WatchFailure, WatchState};
use super::store::{Change, Scope, Store};
use super::subscription::{Subscribers, Subscription};
use crate::object::{Kind, Object, ObjectKey, Uid};

/// The cached objects of a kind, or of a part of it. Cheap to clone: all clones
/// are one informer with one watch.
pub struct Informer<K> {
    shared: Arc<Shared>,
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Informer {
            shared: self.shared.clone(),
            of: PhantomData,
        }
    }
}

impl<K: Object> Informer<K> {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let of = PhantomData;
        Informer { shared, of }
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.shared.kind
    }

    /// Notes that this kind was discovered on the API server: if it cannot be
    /// watched one day it may have gone away, and nothing is wrong until it
    /// fails again.
    pub(crate) fn was_discovered(&self) {
        self.shared.lock().discovered = true;
    }

    /// Keeps an index from now on, over what is there too. One that is kept
    /// already stays as it is.
    pub fn add_index<V: IndexValue>(&self, index: &'static Index<K, V>) {
        self.shared.change(|inner| {
            inner.store.view_mut().add_index(index);
        });
    }

    /// What is there, then what changes; see [`Subscription`].
    pub fn subscribe(&self) -> Subscription<K> {
        let mut inner = self.shared.lock();
        let present = inner.store.all_observed();
        let synced = inner.unsynced.is_empty();
        let codec = self.shared.codec.clone();
        inner.subscribers.add(codec, present, synced)
    }

    /// The objects as they are now. Waits for nothing but a change that is just
    /// being taken in.
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::new(self.shared.view())
    }

    /// Whether both are one informer.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether every object of the kind is cached.
    pub(crate) fn is_of_all(&self) -> bool {
        *self.shared.selection == Selection::default()
    }

    /// Waits until all that was there has been listed once. Returns at once
    /// afterwards, whatever happens to the watch; never, if it never succeeds.
    ///
    /// Cancel safe.
    pub async fn synced(&self) {
        let mut unsynced = self.shared.unsynced.subscribe();
        // The sender is in `shared`, so the channel cannot close meanwhile.
        let _ = unsynced.wait_for(|scopes| *scopes == 0).await;
    }

    /// How the watch is doing.
    pub fn state(&self) -> WatchState {
        self.shared.state()
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("kind", &self.shared.kind)
            .finish_non_exhaustive()
    }
}

/// What the clones of an informer, its watches and the cache share.
pub(super) struct Shared {
    kind: Arc<Kind>,
    selection: Arc<Selection>,
    codec: Arc<Codec>,
    clock: Clock,
    inner: Mutex<Inner>,
    /// What readers see. Locked only to exchange or to copy the reference.
    published: RwLock<Arc<View>>,
    /// Whether the watch has shown more since. Changes that nobody reads between
    /// are then made in place; a view that is published has to be copied for the next.
    is_behind: AtomicBool,
    /// How many scopes have not been listed yet.
    unsynced: watch::Sender<usize>,
    /// The informers that all of this watch is forwarded to. Locked before `inner`.
    followers: Mutex<Vec<Arc<Shared>>>,
}

struct Inner {
    store: Store,
    subscribers: Subscribers,
    unsynced: BTreeSet<Scope>,
    failures: BTreeMap<Scope, WatchFailure>,
    /// What the log says of failures.
    telling: BTreeMap<Scope, FailureLog>,
    /// Whether the kind was discovered on the API server rather than declared by the program.
    discovered: bool,
    unreadable: BTreeMap<ObjectKey, Undecoded>,
    lists: u64,
    changes: u64,
    watches: u64,
    heard: Option<Timestamp>,
}

impl Shared {
    pub(super) fn new(
        kind: Kind,
        selection: Selection,
        reader: Arc<dyn Reader>,
        clock: Clock,
    ) -> Self {
        let (kind, selection) = (Arc::new(kind), Arc::new(selection));
        let unsynced: BTreeSet<_> = selection.scopes().into_iter().collect();
        let codec = Arc::new(Codec::new(reader));
        Shared {
            is_behind: AtomicBool::new(false),
            published: RwLock::new(Arc::new(View::empty(kind.clone(), codec.clone()))),
            unsynced: watch::Sender::new(unsynced.len()),
            inner: Mutex::new(Inner {
                store: Store::new(kind.clone(), selection.clone(), codec.clone()),
                subscribers: Subscribers::new(clock.clone()),
                unsynced,
                failures: BTreeMap::new(),
                telling: BTreeMap::new(),
                discovered: false,
                unreadable: BTreeMap::new(),
                lists: 0,
                changes: 0,
                watches: 0,
                heard: None,
            }),
            followers: Mutex::default(),
            kind,
            selection,
            codec,
            clock,
        }
    }

    pub(super) fn reader(&self) -> &dyn Reader {
        self.codec.reader()
    }

    /// Sends the subscribers everything once more.
    pub(super) fn resync(&self) {
        let mut inner = self.lock();
        let again = |(key, object): (ObjectKey, Held)| {
            let (old, new) = (object.clone(), object);
            (key, Notice::Updated { old, new })
        };
        let all: Vec<_> = inner.store.all_observed().into_iter().map(again).collect();
        inner.subscribers.send(&all);
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Keeps an object of a list: what is known already, if it is the same, so
    /// that a list again costs little memory.
    pub(super) fn hold(&self, object: Arc<dyn AnyObject>) -> Held {
        let known = self.lock().store.observed(&object.key()).cloned();
        let same = known.filter(|known| known.is_same_state(&Held::Whole(object.clone())));
        same.unwrap_or_else(|| self.codec.hold(object))
    }

    /// Applies an update of the watch of a scope, and passes it on to the followers.
    pub(super) fn apply(&self, scope: &Scope, update: Update, now: Timestamp) {
        // Locked to the end, so that an informer that begins to follow meanwhile misses nothing.
        let followers = self.followers();
        let converted = followers
            .iter()
            .map(|follower| (follower, follower.convert_update(&update, &self.codec)));
        let converted: Vec<_> = converted.collect();
        self.apply_here(scope, update, now);
        for (follower, update) in converted {
            follower.apply(scope, update, now);
        }
    }

    fn apply_here(&self, scope: &Scope, update: Update, now: Timestamp) {
        if !matches!(update, Update::Failed(..)) {
            self.lock().heard = Some(now);
        }
        match update {
            Update::Failed(verb, error) => self.failed(scope, verb, error, now),
            Update::Opened => self.lock().watches += 1,
            Update::Recovered => {
                let mut inner = self.lock();
                inner.watches += 1;
                self.recovered(&mut inner, scope);
            }
            Update::Listed(list, unreadable) => {
                for object in &unreadable {
                    self.warn_unreadable(object);
                }
                // A long list takes its time: until then there is something to read.
                self.catch_up();
                let mut changed = self.lock();
                let inner = &mut *changed;
                inner.lists += 1;
                self.recovered(inner, scope);
                inner.unreadable.retain(|key, _| !covers(scope, key));
                let unreadable = unreadable.into_iter();
                inner
                    .unreadable
                    .extend(unreadable.map(|object| (object.key.clone(), object)));
                let changes = inner.store.replace(scope, list);
                if let Some(applied) = self.reader().applied() {
                    applied.retain(|key| inner.store.view().objects.contains_key(key));
                }
                self.publish(inner);
                inner.changes += changes.len() as u64;
                inner.subscribers.send(&changes);
                if inner.unsynced.remove(scope) && inner.unsynced.is_empty() {
                    inner.subscribers.send_synced();
                }
                self.unsynced.send_replace(inner.unsynced.len());
            }
            Update::Applied(object) => {
                self.observe(|inner| {
                    if !inner.unreadable.is_empty() {
                        inner.unreadable.remove(&object.key());
                    }
                    inner.store.apply(scope, object)
                });
            }
            Update::Deleted(object) => {
                let (key, version) = (object.key(), object.version());
                if let Some(applied) = self.reader().applied() {
                    applied.forget(&key);
                }
                self.observe(|inner| {
                    inner.unreadable.remove(&key);
                    let change = inner.store.delete(scope, key, Some(object), version);
                    change.into_iter().collect()
                });
            }
            Update::DeletedUnreadable(object) => self.observe(|inner| {
                inner.unreadable.remove(&object.key);
                let version = number(&object.version);
                let change = inner.store.delete(scope, object.key, None, version);
                change.into_iter().collect()
            }),
            Update::Unreadable(object) => {
                self.warn_unreadable(&object);
                self.observe(|inner| {
                    inner.store.progress(scope, number(&object.version));
                    inner.unreadable.insert(object.key.clone(), object);
                    Vec::new()
                });
            }
            Update::Progress(version) => self.observe(|inner| {
                inner.store.progress(scope, version);
                Vec::new()
            }),
        }
    }

    /// What readers see.
    fn view(&self) -> Arc<View> {
        self.catch_up();
        self.published.read().clone()
    }

    /// Publishes what the watch has delivered.
    fn catch_up(&self) {
        if self.is_behind.load(Ordering::Acquire) {
            self.publish(&self.lock());
        }
    }

    /// Changes the store, then notifies the subscribers.
    fn observe(&self, change: impl FnOnce(&mut Inner) -> Vec<Change>) {
        let mut inner = self.lock();
        let changes = change(&mut inner);
        self.is_behind.store(true, Ordering::Release);
        inner.changes += changes.len() as u64;
        inner.subscribers.send(&changes);
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        self.publish(&inner);
    }

    fn publish(&self, inner: &Inner) {
        self.is_behind.store(false, Ordering::Release);
        let view = Arc::new(inner.store.view().clone());
        let mut published = self.published.write();
        // The old one is dropped after the lock, which may take long.
        let old = std::mem::replace(&mut *published, view);
        drop(published);
        drop(old);
    }

    fn failed(&self, scope: &Scope, verb: Verb, cause: WatchError, wall: Timestamp) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let before = inner.failures.get(scope);
        let failure = WatchFailure {
            kind: (*self.kind).clone(),
            namespace: scope.clone(),
            verb,
            cause,
            since: before.map_or(wall, |before| before.since),
            attempts: before.map_or(1, |before| before.attempts.saturating_add(1)),
            began: before.map_or(now, |before| before.began),
        };
        let is_normal = match &failure.cause {
            // Comes with compaction and with long silence: nothing is wrong.
            WatchError::Expired(_) => true,
            WatchError::NotServed => inner.discovered,
            // A kind that is gone is let go of before it is tried again.
            _ => inner.discovered && failure.attempts < 2,
        };
        let telling = inner.telling.entry(scope.clone()).or_default();
        if !is_normal && telling.failed(&failure.cause, now) {
            tracing::warn!("{failure}");
        } else {
            tracing::debug!("{failure}");
        }
        inner.failures.insert(scope.clone(), failure);
    }

    fn recovered(&self, inner: &mut Inner, scope: &Scope) {
        let Some(failure) = inner.failures.remove(scope) else {
            return;
        };
        if inner.telling.entry(scope.clone()).or_default().recovered() {
            tracing::info!(kind = %self.kind, since = %failure.since, "watching again");
        }
    }

    fn warn_unreadable(&self, object: &Undecoded) {
        tracing::warn!(kind = %self.kind, key = %object.key, cause = object.cause, "an object does not decode and is left out");
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// Whether an object is in a scope.
fn covers(scope: &Scope, key: &ObjectKey) -> bool {
    scope.is_none() || key.namespace() == scope.as_deref()
}

/// Whether an answer is the metadata of an object and nothing else of it.
fn is_metadata_only(answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Types<'a> {
        #[serde(borrow, default)]
        api_version: Cow<'a, str>,
        #[serde(borrow, default)]
        kind: Cow<'a, str>,
    }
    serde_json::from_slice(answer).is_ok_and(|types: Types<'_>| {
        types.kind == "PartialObjectMetadata" && types.api_version.starts_with("meta.k8s.io/")
    })
}

/// The interface of every informer to the cache.
impl Shared {
    pub(super) fn state(&self) -> WatchState {
        let inner = self.lock();
        let unreadable = inner.unreadable.iter();
        WatchState {
            kind: (*self.kind).clone(),
            selection: (*self.selection).clone(),
            discovered: inner.discovered,
            synced: inner.unsynced.is_empty(),
            objects: inner.store.view().objects.len(),
            failures: inner.failures.values().cloned().collect(),
            unreadable: unreadable
                .map(|(key, object)| Unreadable {
                    key: key.clone(),
                    cause: object.cause.clone(),
                })
                .collect(),
            lists: inner.lists,
            changes: inner.changes,
            watches: inner.watches,
            heard: inner.heard,
        }
    }

    /// How many bytes the objects take; see [`View::bytes`].
    pub(super) fn bytes(&self) -> u64 {
        self.view().bytes()
    }

    pub(super) fn unsynced(&self) -> watch::Receiver<usize> {
        self.unsynced.subscribe()
    }

    /// Shows a write of this program. It is given the bytes of the response and the object decoded
    /// from them, in the type it was written as.
    pub(super) fn wrote(&self, answer: &Bytes, decoded: &dyn AnyObject) {
        let reader = self.reader();
        let described = || reader.describe(decoded.metadata())?.ok();
        if let Some(object) = reader.copy(decoded).or_else(described) {
            if let Some(applied) = reader.applied() {
                applied.note(answer, decoded.metadata());
            }
            return self.change(|inner| inner.store.wrote(object));
        }
        // The response to a write of metadata has only metadata. A type whose fields are all
        // optional would decode it as an object without the rest.
        if is_metadata_only(answer) {
            return self.change(|inner| inner.store.described(decoded.metadata()));
        }
        // Written as another type than it is cached as (JSON, some fields): decoded again. If that
        // fails, the watch reports the object as unreadable.
        if let Ok(object) = reader.read(answer) {
            self.change(|inner| inner.store.wrote(object));
        }
    }

    /// Hides what this program has deleted.
    pub(super) fn deleted(&self, key: &ObjectKey, uid: &Uid, since: u64) {
        self.change(|inner| inner.store.deleted(key.clone(), uid.clone(), since));
    }

    /// Ends the subscriptions: nothing more will come.
    pub(super) fn close(&self) {
        self.lock().subscribers.close();
    }
}
