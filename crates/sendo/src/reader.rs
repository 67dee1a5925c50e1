//! The cache, as a handler, a runnable or a reconcile reads it.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use sendo_world::{Timestamp, World};

use crate::cache::{Cache, Informer, Listing, Namespaces, Selection};
use crate::object::{Kind, Object, ObjectKey, Typed};

/// Reads of the kinds that its owner declared. Cheap to clone.
///
/// Reads are synchronous, never leave the process, and never go behind what
/// this program itself has written.
#[derive(Clone)]
pub struct Reader {
    owner: Arc<str>,
    cache: Cache,
    informers: Arc<BTreeMap<TypeId, Box<dyn AnyInformer>>>,
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
    /// Opens the informers of all that is declared. A kind declared twice is
    /// read through the declaration that came first.
    pub(crate) fn open<'a>(
        owner: &str,
        declared: impl IntoIterator<Item = &'a DeclaredRead>,
        cache: &Cache,
        world: &World,
        namespaces: &Namespaces,
    ) -> Self {
        let mut informers = BTreeMap::new();
        for read in declared {
            informers
                .entry(read.type_id)
                .or_insert_with(|| (read.open)(cache, read, namespaces));
        }
        Reader {
            owner: owner.into(),
            cache: cache.clone(),
            informers: Arc::new(informers),
            world: world.clone(),
        }
    }

    /// The object under `key`, if the cache has it.
    ///
    /// # Panics
    /// If the kind is not declared; the message names the fix.
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<Arc<K>> {
        self.informer::<K>().snapshot().get(&key.into())
    }

    /// The objects of a kind, to be narrowed down.
    ///
    /// # Panics
    /// If the kind is not declared; the message names the fix.
    pub fn list<K: Typed>(&self) -> Listing<'static, K> {
        self.informer::<K>().snapshot().list()
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

    /// Waits until all that is declared has been listed once.
    pub(crate) async fn synced(&self) {
        join_all(self.informers.values().map(|i| i.synced())).await;
    }

    pub(crate) fn informer<K: Typed>(&self) -> &Informer<K> {
        let informer = self.informers.get(&TypeId::of::<K>());
        informer
            .and_then(|informer| informer.as_any().downcast_ref())
            .unwrap_or_else(|| {
                let name = short_type_name::<K>();
                panic!(
                    "`{}` reads {} but does not declare it: add `.reads::<{name}>()` to its declaration, \
                     or ask the API server with `cx.live()`",
                    self.owner,
                    Kind::of::<K>(),
                )
            })
    }
}

fn short_type_name<K>() -> &'static str {
    let full = std::any::type_name::<K>();
    full.rsplit("::").next().unwrap_or(full)
}

/// An informer whose type is known to who asks.
trait AnyInformer: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn as_any(&self) -> &dyn Any {
        self
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
    type_id: TypeId,
    open: fn(&Cache, &DeclaredRead, &Namespaces) -> Box<dyn AnyInformer>,
}

impl DeclaredRead {
    pub(crate) fn of<K: Typed>(selection: Selection) -> Self {
        DeclaredRead {
            kind: Kind::of::<K>(),
            selection,
            type_id: TypeId::of::<K>(),
            open: |cache, read, namespaces| {
                let selection = within::<K>(&read.selection, namespaces);
                Box::new(cache.informer::<K>(read.kind.clone(), selection))
            },
        }
    }
}
