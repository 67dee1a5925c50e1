//! The cache: every kind that a program watches, in memory, indexed, and never
//! behind the program's own writes.
//!
//! On its way in an object passes the reflector, which lists and watches; the
//! store, which readers see as a [`Snapshot`]; and the [`Subscription`]s, which
//! deliver each change after the snapshot shows it.

mod index;
mod informer;
mod listing;
mod overlay;
mod reflector;
mod selection;
mod selector;
mod snapshot;
mod state;
mod store;
mod subscription;

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sendo_world::World;

use self::informer::{AnyInformer, Shared};
use self::reflector::Reflector;
use crate::client::request::Transport;
use crate::object::{Kind, Object, ObjectKey, Typed, Uid};

pub use self::index::{Index, IndexValue};
pub use self::informer::Informer;
pub use self::listing::Listing;
pub use self::selection::{Namespaces, Selection};
pub use self::selector::{FieldSelector, InvalidSelector, Selector};
pub use self::snapshot::Snapshot;
pub use self::state::{Unreadable, Verb, WatchError, WatchFailure, WatchState};
pub use self::subscription::{Delivery, Subscription};

/// The informers of a program. Cheap to clone: all clones are one cache.
///
/// Each watch is a task of the world the cache was given. When that is asked to
/// stop, or the last clone of the cache is dropped, the watches end; what is
/// cached stays readable.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<CacheShared>,
}

struct CacheShared {
    transport: Transport,
    world: World,
    options: CacheOptions,
    informers: Mutex<BTreeMap<InformerId, Arc<dyn AnyInformer>>>,
}

/// Choices for all informers of a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The program's name, sent as user agent. `sendo` by default.
    pub name: String,
    /// How long a request may take; a watch, to begin. 30 s by default.
    pub timeout: Duration,
    /// Whether `metadata.managedFields` are kept in memory. They are not by
    /// default: they often take more room than all the rest.
    pub keep_managed_fields: bool,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            name: "sendo".to_owned(),
            timeout: Duration::from_secs(30),
            keep_managed_fields: false,
        }
    }
}

/// Informers in the order in which they are listed. The type is compared last:
/// its order means nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct InformerId {
    kind: Kind,
    selection: Selection,
    type_name: &'static str,
    type_id: TypeId,
}

impl InformerId {
    fn new<K: Object>(kind: Kind, selection: Selection) -> Self {
        InformerId {
            kind,
            selection,
            type_name: type_name::<K>(),
            type_id: TypeId::of::<K>(),
        }
    }
}

impl Cache {
    /// A cache without informers. Nothing is asked of the API server yet.
    pub fn new(client: kube::Client, world: World, options: CacheOptions) -> Self {
        let world = world.child("cache");
        let clock = world.clock().clone();
        Cache {
            shared: Arc::new(CacheShared {
                transport: Transport::new(client, clock, &options.name, options.timeout),
                world,
                options,
                informers: Mutex::default(),
            }),
        }
    }

    /// The informer of a kind, shared by all who ask with an equal selection.
    /// The first who asks starts it.
    ///
    /// Must be called inside a tokio runtime.
    pub fn informer<K: Object>(&self, kind: Kind, selection: Selection) -> Informer<K> {
        let id = InformerId::new::<K>(kind, selection);
        let mut informers = self.lock();
        if let Some(informer) = informers.get(&id) {
            return downcast(informer);
        }
        let shared = Arc::new(Shared::new(id.kind.clone(), id.selection.clone()));
        for scope in id.selection.scopes() {
            self.start(&shared, scope);
        }
        informers.insert(id, shared.clone());
        Informer::new(shared)
    }

    /// The informer of a kind and selection, if anybody has asked for it.
    pub fn find<K: Object>(&self, kind: &Kind, selection: &Selection) -> Option<Informer<K>> {
        let id = InformerId::new::<K>(kind.clone(), selection.clone());
        self.lock().get(&id).map(downcast)
    }

    /// The informer of a type, if anybody has asked for it: that of the whole
    /// kind or, where there is only one of a part of it, that.
    pub fn typed<K: Typed>(&self) -> Option<Informer<K>> {
        let kind = Kind::of::<K>();
        if let Some(whole) = self.find(&kind, &Selection::default()) {
            return Some(whole);
        }
        let informers = self.lock();
        let mut parts = informers
            .iter()
            .filter(|(id, _)| id.kind == kind && id.type_id == TypeId::of::<K>());
        match (parts.next(), parts.next()) {
            (Some((_, informer)), None) => Some(downcast(informer)),
            _ => None,
        }
    }

    /// The object under `key`, from whichever informer of this type and kind has it.
    pub(crate) fn peek<K: Object>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        let informers = self.lock();
        let mut same = informers
            .iter()
            .filter(|(id, _)| id.kind == *kind && id.type_id == TypeId::of::<K>());
        same.find_map(|(_, informer)| downcast(informer).snapshot().get(key))
    }

    /// The kinds that are watched whole as `K`, in order.
    pub fn kinds_of<K: Object>(&self) -> Vec<Kind> {
        let informers = self.lock();
        let whole = informers
            .keys()
            .filter(|id| id.type_id == TypeId::of::<K>() && id.selection == Selection::default());
        whole.map(|id| id.kind.clone()).collect()
    }

    /// How every watch is doing, by kind.
    pub fn states(&self) -> Vec<WatchState> {
        self.lock()
            .values()
            .map(|informer| informer.state())
            .collect()
    }

    /// Waits until every informer, those that start meanwhile included, has
    /// listed all that was there.
    ///
    /// Cancel safe.
    pub async fn synced(&self) {
        let first_unsynced = || {
            let informers = self.lock();
            let mut unsynced = informers.values().map(|informer| informer.unsynced());
            unsynced.find(|scopes| *scopes.borrow() > 0)
        };
        while let Some(mut unsynced) = first_unsynced() {
            // The informer stays in the map, so the channel cannot close.
            let _ = unsynced.wait_for(|scopes| *scopes == 0).await;
        }
    }

    /// Shows readers what this program has written.
    pub(crate) fn wrote<K: Object>(&self, kind: &Kind, answer: &Bytes, object: &K) {
        let informers = self.of_kind(kind);
        if informers.is_empty() {
            return;
        }
        let mut object = object.clone();
        if !self.shared.options.keep_managed_fields {
            object.meta_mut().managed_fields = None;
        }
        let decoded: Box<dyn Any + Send + Sync> = Box::new(Arc::new(object));
        for informer in informers {
            informer.wrote(answer, &*decoded);
        }
    }

    /// Hides from readers what this program has deleted and was there at `since`.
    pub(crate) fn deleted(&self, kind: &Kind, key: &ObjectKey, uid: &Uid, since: u64) {
        for informer in self.of_kind(kind) {
            informer.deleted(key, uid, since);
        }
    }

    fn of_kind(&self, kind: &Kind) -> Vec<Arc<dyn AnyInformer>> {
        let informers = self.lock();
        let of_kind = informers.iter().filter(|(id, _)| id.kind == *kind);
        of_kind.map(|(_, informer)| informer.clone()).collect()
    }

    fn start<K: Object>(&self, informer: &Arc<Shared<K>>, scope: Option<String>) {
        let name = match &scope {
            Some(namespace) => format!("{} in {namespace}", informer.kind()),
            None => informer.kind().to_string(),
        };
        let CacheShared {
            world,
            transport,
            options,
            ..
        } = &*self.shared;
        // Not the world itself: the task would keep its own owner alive.
        let reflector = Reflector {
            informer: informer.clone(),
            scope,
            transport: transport.clone(),
            clock: world.clock().clone(),
            random: world.random().child(&name),
            keep_managed_fields: options.keep_managed_fields,
        };
        let informer = informer.clone();
        let stopping = world.tasks().stopping().clone();
        world.tasks().spawn(&name, async move {
            stopping.run_until_cancelled(reflector.run()).await;
            informer.close();
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<InformerId, Arc<dyn AnyInformer>>> {
        let informers = self.shared.informers.lock();
        informers.unwrap_or_else(PoisonError::into_inner)
    }
}

fn downcast<K: Object>(informer: &Arc<dyn AnyInformer>) -> Informer<K> {
    let shared = informer.clone().shared().downcast::<Shared<K>>();
    // The type is part of the key under which it was found.
    Informer::new(shared.unwrap_or_else(|_| unreachable!("an informer of another type")))
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self
            .lock()
            .keys()
            .map(|id| id.kind.to_string())
            .collect::<Vec<_>>();
        f.debug_struct("Cache").field("informers", &kinds).finish()
    }
}
