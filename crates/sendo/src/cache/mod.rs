//! The cache: every kind that a program watches, in memory, indexed, and never
//! behind the program's own writes.
//!
//! On its way in an object passes the reflector, which lists and watches; the
//! store, which readers see as a [`Snapshot`]; and the [`Subscription`]s, which
//! deliver each change after the snapshot shows it.

mod applied;
mod cut;
mod failure_log;
mod held;
mod index;
mod informer;
mod listing;
mod metadata;
mod metrics;
mod options;
mod overlay;
#[cfg_attr(not(feature = "compact"), path = "pack/disabled.rs")]
mod pack;
mod reader;
mod readiness;
mod reflector;
mod selection;
mod selector;
mod snapshot;
mod state;
mod store;
mod subscription;

use std::any::{TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::ClusterResourceScope;
use parking_lot::{Mutex, MutexGuard};
use sendo_world::{Tasks, World};

use self::applied::{Applied, Managers};
use self::informer::Shared;
use self::reader::Reader;
use self::reflector::Reflector;
use crate::object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
use crate::transport::{Transport, to_json};

pub(crate) use self::applied::Wanted;
pub use self::index::{Index, IndexValue};
pub use self::informer::Informer;
pub use self::listing::Listing;
pub use self::options::{CacheOptions, KindOptions, PerKind};
pub(crate) use self::readiness::Readiness;
pub use self::selection::{Namespaces, Selection};
pub use self::selector::{FieldSelector, InvalidSelector, Selector};
pub use self::snapshot::Snapshot;
pub use self::state::{Unreadable, Verb, WatchError, WatchFailure, WatchState};
pub use self::subscription::{Delivery, Subscription};

/// The informers of a program. Cheap to clone: all clones are one cache.
///
/// Each watch is a task of the world the cache was given. When that stops, or the last clone of the
/// cache is dropped, the watches end; what is cached stays readable.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<CacheShared>,
}

struct CacheShared {
    transport: Transport,
    world: World,
    options: CacheOptions,
    informers: Mutex<BTreeMap<InformerId, Running>>,
    /// The names under which this program applies.
    managers: Arc<Managers>,
    /// What is done to every informer of a type; locked while `informers` is.
    prepare: Mutex<Vec<(TypeId, Prepare)>>,
}

type Prepare = Box<dyn Fn(&Arc<Shared>) + Send>;

/// An informer and the owner of its tasks.
struct Running {
    informer: Arc<Shared>,
    /// The informer that forwards its watch to this one, which then has none of its own.
    leader: Option<Arc<Shared>>,
    tasks: Tasks,
    holders: Holders,
}

/// The state of a watch at a scrape.
pub(crate) struct Figures {
    pub(crate) state: WatchState,
    /// How long ago the API server was last heard of.
    pub(crate) lag: Option<Duration>,
    /// How many bytes the objects take.
    pub(crate) bytes: u64,
}

/// Who wants an informer to go on.
enum Holders {
    /// Somebody who never says that it is enough.
    Somebody,
    /// So many [`KeepAlive`]s, and nobody else.
    KeptAlive(usize),
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
    /// A cache without informers. It sends no request yet.
    pub fn new(client: kube::Client, world: World, options: CacheOptions) -> Self {
        let world = world.child("cache");
        let clock = world.clock().clone();
        Cache {
            shared: Arc::new(CacheShared {
                transport: Transport::new(client, clock, &options.name, options.timeout)
                    .with_metrics(options.metrics.clone())
                    .with_rights(options.rights.clone()),
                world,
                options,
                informers: Mutex::default(),
                managers: Arc::default(),
                prepare: Mutex::default(),
            }),
        }
    }

    /// The informer of a kind, shared by all callers with an equal selection. The first call starts
    /// it.
    ///
    /// Metadata ([`AnyMeta`](crate::source::AnyMeta), any `PartialObjectMeta`) of objects that are
    /// watched whole already come with that watch, so that there is one watch for both; unless more
    /// metadata are wanted than are kept there, or a transform changes them.
    ///
    /// Must be called inside a tokio runtime.
    pub fn informer<K: Object>(&self, kind: Kind, selection: Selection) -> Informer<K> {
        let id = self.id::<K>(&kind, &selection);
        let mut informers = self.lock();
        let running = self.running::<K>(&mut informers, id);
        running.holders = Holders::Somebody;
        Informer::new(running.informer.clone())
    }

    /// The informer of a kind for as long as it is needed: it ends when the last [`KeepAlive`] is
    /// dropped, unless [`Cache::informer`] was called for it.
    ///
    /// Must be called inside a tokio runtime.
    pub fn keep_alive<K: Object>(&self, kind: Kind, selection: Selection) -> KeepAlive<K> {
        let id = self.id::<K>(&kind, &selection);
        let mut informers = self.lock();
        let running = self.running::<K>(&mut informers, id.clone());
        if let Holders::KeptAlive(keep_alives) = &mut running.holders {
            *keep_alives += 1;
        }
        KeepAlive {
            informer: Informer::new(running.informer.clone()),
            cache: self.clone(),
            id,
        }
    }

    /// Keeps an index over every kind that is read as a `K`, those of later informers included.
    pub(crate) fn index_every<K: Object, V: IndexValue>(&self, index: &'static Index<K, V>) {
        let add = |informer: &Arc<Shared>| Informer::<K>::new(informer.clone()).add_index(index);
        let informers = self.lock();
        for (id, running) in informers.iter() {
            if id.type_id == TypeId::of::<K>() {
                add(&running.informer);
            }
        }
        self.prepare().push((TypeId::of::<K>(), Box::new(add)));
    }

    fn prepare(&self) -> MutexGuard<'_, Vec<(TypeId, Prepare)>> {
        self.shared.prepare.lock()
    }

    /// The running informer; one that nobody holds, if there was none.
    fn running<'a, K: Object>(
        &self,
        informers: &'a mut BTreeMap<InformerId, Running>,
        id: InformerId,
    ) -> &'a mut Running {
        if !informers.contains_key(&id) {
            let options = self.shared.options.for_kind::<K>(&id.kind).settle();
            let options = options.noting(Applied::new(self.shared.managers.clone()));
            let resync = options.resync;
            let running = self.launch(informers, &id, Arc::new(options), resync);
            informers.insert(id.clone(), running);
        }
        informers.get_mut(&id).expect("it was just launched")
    }

    fn launch(
        &self,
        informers: &BTreeMap<InformerId, Running>,
        id: &InformerId,
        reader: Arc<dyn Reader>,
        resync: Option<Duration>,
    ) -> Running {
        let clock = self.shared.world.clock().clone();
        let shared = Shared::new(id.kind.clone(), id.selection.clone(), reader, clock);
        let shared = Arc::new(shared);
        for (type_id, prepare) in self.prepare().iter() {
            if *type_id == id.type_id {
                prepare(&shared);
            }
        }
        let tasks = self.shared.world.tasks().child(&id.kind.to_string());
        let mut watching = informers.values().filter(|other| other.leader.is_none());
        let leader = watching.find(|other| other.informer.can_feed(&shared));
        let leader = leader.map(|leader| leader.informer.clone());
        match &leader {
            Some(leader) => self.follow(&tasks, &shared, leader),
            None => self.watch(&tasks, &shared),
        }
        if let Some(every) = resync {
            self.resync(&tasks, &shared, every);
        }
        Running {
            informer: shared,
            leader,
            tasks,
            holders: Holders::KeptAlive(0),
        }
    }

    /// Ends an informer. Its followers get a watch of their own.
    fn end(&self, informers: &mut BTreeMap<InformerId, Running>, id: &InformerId) {
        let Some(ended) = informers.remove(id) else {
            return;
        };
        ended.tasks.stopping().cancel();
        if let Some(leader) = &ended.leader {
            leader.remove_follower(&ended.informer);
        }
        for running in informers.values_mut() {
            let is_ended = |leader: &mut Arc<_>| Arc::ptr_eq(leader, &ended.informer);
            if running.leader.take_if(is_ended).is_some() {
                ended.informer.remove_follower(&running.informer);
                self.watch(&running.tasks, &running.informer);
            }
        }
    }

    fn give_back(&self, id: &InformerId) {
        let mut informers = self.lock();
        let Some(running) = informers.get_mut(id) else {
            return;
        };
        if let Holders::KeptAlive(keep_alives) = &mut running.holders {
            *keep_alives -= 1;
            if *keep_alives == 0 {
                self.end(&mut informers, id);
            }
        }
    }

    /// Ends the informer of a kind and selection for all who share it: its
    /// watch, its subscriptions, its place in [`Cache::states`]. What it showed
    /// last stays readable for those who hold it; a new call starts another.
    pub fn forget<K: Object>(&self, kind: &Kind, selection: &Selection) {
        let id = self.id::<K>(kind, selection);
        self.end(&mut self.lock(), &id);
    }

    /// The informer of a kind and selection, if it exists.
    pub fn find<K: Object>(&self, kind: &Kind, selection: &Selection) -> Option<Informer<K>> {
        let id = self.id::<K>(kind, selection);
        let informers = self.lock();
        informers
            .get(&id)
            .map(|running| Informer::new(running.informer.clone()))
    }

    /// The informer of a type, if it exists: that of the whole kind or, where there is only one of
    /// a part of it, that.
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
            (Some((_, running)), None) => Some(Informer::new(running.informer.clone())),
            _ => None,
        }
    }

    /// The newest state of the object under `key` that any informer of this type
    /// and kind has.
    pub(crate) fn peek<K: Object>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        let informers = self.lock();
        let same = informers
            .iter()
            .filter(|(id, _)| id.kind == *kind && id.type_id == TypeId::of::<K>());
        let found = same.filter_map(|(_, running)| {
            let informer = Informer::<K>::new(running.informer.clone());
            informer.snapshot().get(key)
        });
        found.max_by_key(|object| object.version())
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

    /// Whether what is cached can be relied on.
    pub(crate) fn readiness(&self) -> Readiness {
        let now = self.shared.world.clock().now();
        let informers = self.lock();
        // Those without a watch of their own do as well as the one they follow.
        let watching = informers.values().filter(|other| other.leader.is_none());
        let mut readiness = Readiness::default();
        for running in watching {
            readiness.add(&running.informer.state(), now);
        }
        readiness
    }

    /// What metrics show of this cache, for as long as somebody holds it.
    pub(crate) fn figures(&self) -> impl Fn() -> Option<Vec<Figures>> + Send + Sync + 'static {
        let weak = Arc::downgrade(&self.shared);
        move || {
            let shared = weak.upgrade()?;
            let now = shared.world.clock().wall();
            // How large objects are takes a look at each: nobody waits for that.
            let informers = Cache { shared }.all_informers();
            let figures = informers.iter().map(|informer| {
                let state = informer.state();
                let since = |heard| now.duration_since(heard).unsigned_abs();
                Figures {
                    lag: state.heard.map(since),
                    bytes: informer.bytes(),
                    state,
                }
            });
            Some(figures.collect())
        }
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
        for informer in informers {
            informer.wrote(answer, object);
        }
    }

    /// Hides from readers what this program has deleted and was there at `since`.
    pub(crate) fn deleted(&self, kind: &Kind, key: &ObjectKey, uid: &Uid, since: u64) {
        for informer in self.of_kind(kind) {
            informer.deleted(key, uid, since);
        }
    }

    /// Notes that this program applies under this name.
    pub(crate) fn applies_as(&self, manager: &str) {
        self.shared.managers.add(manager);
    }

    /// The object under `key` as it is known, if it would change nothing to apply
    /// `wanted` to it.
    pub(crate) fn applied_already<K: Object>(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        wanted: &Wanted<'_>,
    ) -> Option<Arc<K>> {
        self.of_type::<K>(kind).into_iter().find_map(|informer| {
            let object = Informer::<K>::new(informer.clone()).snapshot().get(key)?;
            let (uid, version) = (object.uid(), object.version());
            let live = || to_json(&*object).ok();
            let applied = informer.reader().applied()?;
            applied
                .changes_nothing(key, (uid.as_str(), version), wanted, live)
                .then_some(object)
        })
    }

    /// Notes that `wanted` was applied, and what came of it.
    pub(crate) fn applied<K: Object>(&self, kind: &Kind, object: &K, wanted: &Wanted<'_>) {
        for informer in self.of_type::<K>(kind) {
            if let Some(applied) = informer.reader().applied() {
                applied.sent(&ObjectKey::from_object(object), object.version(), wanted);
            }
        }
    }

    /// Whether objects of a kind are cut down before they are kept.
    pub(crate) fn is_cut<K: Object>(&self, kind: &Kind) -> bool {
        self.shared.options.for_kind::<K>(kind).cuts()
    }

    fn id<K: Object>(&self, kind: &Kind, selection: &Selection) -> InformerId {
        let options = self.shared.options.for_kind::<K>(kind);
        InformerId::new::<K>(kind.clone(), options.select(selection.clone()))
    }

    fn all_informers(&self) -> Vec<Arc<Shared>> {
        let informers = self.lock();
        informers.values().map(|r| r.informer.clone()).collect()
    }

    fn of_kind(&self, kind: &Kind) -> Vec<Arc<Shared>> {
        let informers = self.lock();
        let of_kind = informers.iter().filter(|(id, _)| id.kind == *kind);
        of_kind
            .map(|(_, running)| running.informer.clone())
            .collect()
    }

    fn of_type<K: Object>(&self, kind: &Kind) -> Vec<Arc<Shared>> {
        let informers = self.lock();
        let same = informers
            .iter()
            .filter(|(id, _)| id.kind == *kind && id.type_id == TypeId::of::<K>());
        same.map(|(_, running)| running.informer.clone()).collect()
    }

    /// Keeps an informer up to date by what another one is shown.
    fn follow(&self, tasks: &Tasks, informer: &Arc<Shared>, leader: &Shared) {
        leader.add_follower(informer, self.shared.world.clock().wall());
        let closing = Closing(informer.clone());
        let stopping = tasks.stopping().clone();
        tasks.spawn("follow", async move {
            let _closing = closing;
            stopping.cancelled().await;
        });
    }

    /// Keeps an informer up to date by watches of its own.
    fn watch(&self, tasks: &Tasks, informer: &Arc<Shared>) {
        for scope in informer.selection().scopes() {
            self.watch_scope(tasks, informer, scope);
        }
    }

    fn watch_scope(&self, tasks: &Tasks, informer: &Arc<Shared>, scope: Option<String>) {
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
            streaming: self.shared.options.streaming,
        };
        let closing = Closing(informer.clone());
        let stopping = tasks.stopping().clone();
        tasks.spawn(&name, async move {
            let _closing = closing;
            stopping.run_until_cancelled(reflector.run()).await;
        });
    }

    /// Delivers everything again, time and again.
    fn resync(&self, tasks: &Tasks, informer: &Arc<Shared>, every: Duration) {
        let world = &self.shared.world;
        let name = format!("{} resync", informer.kind());
        let (clock, random) = (world.clock().clone(), world.random().child(&name));
        let (informer, stopping) = (informer.clone(), tasks.stopping().clone());
        let beat = async move {
            loop {
                let spread = 0.9 + 0.2 * random.fraction();
                clock.sleep(every.mul_f64(spread)).await;
                informer.resync();
            }
        };
        tasks.spawn("resync", async move {
            stopping.run_until_cancelled(beat).await;
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<InformerId, Running>> {
        self.shared.informers.lock()
    }
}

/// Keeps an informer running; see [`Cache::keep_alive`]. It may end when this is dropped.
pub struct KeepAlive<K: Object> {
    informer: Informer<K>,
    cache: Cache,
    id: InformerId,
}

impl<K: Object> KeepAlive<K> {
    /// The informer.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }
}

impl<K: Object> Drop for KeepAlive<K> {
    fn drop(&mut self) {
        self.cache.give_back(&self.id);
    }
}

impl<K: Object> fmt::Debug for KeepAlive<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeepAlive").field(&self.informer).finish()
    }
}

/// Ends the subscriptions however the watch ends, so that nobody waits in vain.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
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
