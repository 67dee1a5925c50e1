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
use k8s_openapi::ClusterResourceScope;
use sendo_world::{Tasks, World};

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
    informers: Mutex<BTreeMap<InformerId, Running>>,
}

/// An informer and the owner of its tasks.
struct Running {
    informer: Arc<dyn AnyInformer>,
    tasks: Tasks,
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
    fn new<K: Object>(kind: Kind, mut selection: Selection) -> Self {
        if TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
            selection.namespaces = Namespaces::All;
        }
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
        if let Some(running) = informers.get(&id) {
            return downcast(&running.informer);
        }
        let shared = Shared::new(id.kind.clone(), id.selection.clone(), &self.shared.options);
        let shared = Arc::new(shared);
        let tasks = self.shared.world.tasks().child(&id.kind.to_string());
        for scope in id.selection.scopes() {
            self.start(&tasks, &shared, scope);
        }
        let informer = shared.clone();
        informers.insert(id, Running { informer, tasks });
        Informer::new(shared)
    }

    /// Ends the informer of a kind and selection for all who share it: its
    /// watch, its subscriptions, its place in [`Cache::states`]. What it showed
    /// last stays readable for those who hold it; who asks anew starts another.
    pub fn forget<K: Object>(&self, kind: &Kind, selection: &Selection) {
        let id = InformerId::new::<K>(kind.clone(), selection.clone());
        if let Some(running) = self.lock().remove(&id) {
            running.tasks.stopping().cancel();
        }
    }

    /// The informer of a kind and selection, if anybody has asked for it.
    pub fn find<K: Object>(&self, kind: &Kind, selection: &Selection) -> Option<Informer<K>> {
        let id = InformerId::new::<K>(kind.clone(), selection.clone());
        let informers = self.lock();
        informers
            .get(&id)
            .map(|running| downcast(&running.informer))
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
            (Some((_, running)), None) => Some(downcast(&running.informer)),
            _ => None,
        }
    }

    /// The object under `key`, from whichever informer of this type and kind has it.
    pub(crate) fn peek<K: Object>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        let informers = self.lock();
        let mut same = informers
            .iter()
            .filter(|(id, _)| id.kind == *kind && id.type_id == TypeId::of::<K>());
        same.find_map(|(_, running)| downcast(&running.informer).snapshot().get(key))
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
            .map(|running| running.informer.state())
            .collect()
    }

    /// Waits until every informer, those that start meanwhile included, has
    /// listed all that was there.
    ///
    /// Cancel safe.
    pub async fn synced(&self) {
        let first_unsynced = || {
            let informers = self.lock();
            let mut unsynced = informers
                .values()
                .map(|running| running.informer.unsynced());
            unsynced.find(|scopes| *scopes.borrow() > 0)
        };
        while let Some(mut unsynced) = first_unsynced() {
            // Closed, it was of an informer that is forgotten.
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
        of_kind
            .map(|(_, running)| running.informer.clone())
            .collect()
    }

    fn start<K: Object>(&self, tasks: &Tasks, informer: &Arc<Shared<K>>, scope: Option<String>) {
        let name = match &scope {
            Some(namespace) => format!("watch {namespace}"),
            None => "watch".to_owned(),
        };
        let CacheShared {
            world, transport, ..
        } = &*self.shared;
        // Not the world itself: the task would keep its own owner alive.
        let reflector = Reflector {
            informer: informer.clone(),
            scope,
            transport: transport.clone(),
            clock: world.clock().clone(),
            random: world.random().child(&format!("{} {name}", informer.kind())),
        };
        let closing = Closing(informer.clone());
        let stopping = tasks.stopping().clone();
        tasks.spawn(&name, async move {
            let _closing = closing;
            stopping.run_until_cancelled(reflector.run()).await;
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<InformerId, Running>> {
        let informers = self.shared.informers.lock();
        informers.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the subscriptions however the watch ends, so that nobody waits in vain.
struct Closing(Arc<dyn AnyInformer>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
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
