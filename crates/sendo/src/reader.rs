//! The cache, as a handler, a runnable or a reconcile reads it.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use sendo_world::{Clock, Timestamp, World};

use crate::cache::{Cache, Informer, Listing, Namespaces, Selection, Snapshot};
use crate::error::Undeclared;
use crate::object::{Kind, Object, ObjectExt, ObjectKey, Typed, short_type_name};
use crate::rights::{Right, Verb};

/// Reads of the kinds that its owner declared. Cheap to clone.
///
/// Reads are synchronous, never leave the process, and never go behind what
/// this program itself has written.
///
/// What is declared to be [selected](Selection) only in part is read in part. Of
/// several parts of one kind all are read together. Each is as new as its own
/// watch: an object that somebody else moves from one part to the other may be in
/// neither for a moment.
///
/// Reading a kind that is not declared ends the reconcile, the handler's event or
/// the runnable with an error that names the fix; see [`Undeclared`].
#[derive(Clone)]
pub struct Reader {
    owner: Arc<str>,
    cache: Cache,
    /// The informers of each type: one, or one for each part that is watched.
    informers: Arc<BTreeMap<TypeId, Vec<Box<dyn AnyInformer>>>>,
    world: World,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("owner", &self.owner)
            .finish()
    }
}

impl Reader {
    /// Opens the informers of all that is declared.
    pub(crate) fn open<'a>(
        owner: &str,
        declared: impl IntoIterator<Item = &'a DeclaredRead>,
        cache: &Cache,
        world: &World,
        namespaces: &Namespaces,
    ) -> Self {
        let mut informers = BTreeMap::<_, Vec<Box<dyn AnyInformer>>>::new();
        for read in declared {
            let opened = (read.open)(cache, read, namespaces);
            let known = informers.entry(read.type_id).or_default();
            // Who has the whole needs no parts.
            if opened.is_of_all() {
                known.clear();
            }
            let mut others = known.iter();
            if !others.any(|other| other.is_of_all() || other.is(&*opened)) {
                known.push(opened);
            }
        }
        Reader {
            owner: owner.into(),
            cache: cache.clone(),
            informers: Arc::new(informers),
            world: world.clone(),
        }
    }

    /// The object under `key`, if the cache has it.
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<Arc<K>> {
        let key = key.into();
        let found = self.snapshots::<K>().filter_map(|all| all.get(&key));
        found.max_by_key(|object| object.version())
    }

    /// The objects of a kind, to be narrowed down.
    pub fn list<K: Typed>(&self) -> Listing<'static, K> {
        let mut snapshots = self.snapshots::<K>();
        let first = snapshots.next().unwrap_or_else(|| self.refuse::<K>());
        Listing::new(first, snapshots.collect())
    }

    /// The objects of a kind that is known only at run time, such as those of
    /// [`source::every_kind`](crate::source::every_kind); `None` if nobody watches it.
    pub fn list_of<K: Object>(&self, kind: &Kind) -> Option<Listing<'static, K>> {
        let informer = self.cache.find::<K>(kind, &Selection::default())?;
        Some(informer.snapshot().list())
    }

    /// The object of a kind that is known only at run time.
    pub fn get_of<K: Object>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        let informer = self.cache.find::<K>(kind, &Selection::default())?;
        informer.snapshot().get(key)
    }

    /// The kinds that are watched whole as `K`, such as those of
    /// [`source::every_kind`](crate::source::every_kind), in order.
    pub fn watched_kinds<K: Object>(&self) -> Vec<Kind> {
        self.cache.kinds_of::<K>()
    }

    /// The wall time.
    pub fn now(&self) -> Timestamp {
        self.world.clock().wall()
    }

    /// The clock, to measure spans by.
    pub fn clock(&self) -> &Clock {
        self.world.clock()
    }

    /// Waits until all that is declared has been listed once.
    pub(crate) async fn synced(&self) {
        join_all(self.informers.values().flatten().map(|i| i.synced())).await;
    }

    fn snapshots<K: Typed>(&self) -> impl Iterator<Item = Snapshot<K>> {
        self.informers::<K>().map(Informer::snapshot)
    }

    /// The informers of a kind; one at least.
    pub(crate) fn informers<K: Typed>(&self) -> impl Iterator<Item = &Informer<K>> {
        let Some(informers) = self.informers.get(&TypeId::of::<K>()) else {
            self.refuse::<K>()
        };
        informers
            .iter()
            .filter_map(|informer| informer.as_any().downcast_ref())
    }

    fn refuse<K: Typed>(&self) -> ! {
        let name = short_type_name::<K>();
        Undeclared(format!(
            "`{}` reads {} but does not declare it: add `.reads::<{name}>()` to its declaration, \
             or ask the API server with `cx.live()`",
            self.owner,
            Kind::of::<K>(),
        ))
        .raise()
    }
}

/// An informer whose type is known to the caller.
trait AnyInformer: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is(&self, other: &dyn AnyInformer) -> bool;
    fn is_of_all(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is(&self, other: &dyn AnyInformer) -> bool {
        let other = other.as_any().downcast_ref();
        other.is_some_and(|other| Informer::is(self, other))
    }

    fn is_of_all(&self) -> bool {
        Informer::is_of_all(self)
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::synced(self))
    }
}

/// What a program that is confined to `namespaces` selects when it is declared
/// to select `selection`.
pub(crate) fn within<K: Typed>(selection: &Selection, namespaces: &Namespaces) -> Selection {
    let mut selection = selection.clone();
    if K::is_namespaced() && selection.namespaces == Namespaces::All {
        selection.namespaces = namespaces.clone();
    }
    selection
}

/// A kind that a controller or a manager said it reads.
#[derive(Clone)]
pub(crate) struct DeclaredRead {
    pub(crate) kind: Kind,
    selection: Selection,
    pub(crate) type_id: TypeId,
    is_namespaced: bool,
    right: fn() -> Right,
    open: fn(&Cache, &DeclaredRead, &Namespaces) -> Box<dyn AnyInformer>,
}

impl DeclaredRead {
    /// What its watch asks of the API server, in a program that is not confined.
    pub(crate) fn right(&self) -> Right {
        let mut right = (self.right)();
        if let Namespaces::Only(these) = &self.selection.namespaces
            && self.is_namespaced
        {
            right = these.iter().fold(right, |right, ns| right.in_namespace(ns));
        }
        match self.selection.fields.only_name() {
            Some(name) => right.named(name),
            None => right,
        }
    }

    pub(crate) fn new<K: Typed>(selection: Selection) -> Self {
        DeclaredRead {
            kind: Kind::of::<K>(),
            selection,
            type_id: TypeId::of::<K>(),
            is_namespaced: K::is_namespaced(),
            right: || Right::of::<K>(Verb::List | Verb::Watch),
            open: |cache, read, namespaces| {
                let selection = within::<K>(&read.selection, namespaces);
                Box::new(cache.informer::<K>(read.kind.clone(), selection))
            },
        }
    }
}
