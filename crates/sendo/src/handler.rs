//! From an event to the keys that are to be reconciled.

use std::fmt;

use futures::future::BoxFuture;
use kube::Resource;

use crate::Event;
use crate::object::{Kind, ObjectKey, Typed};
use crate::queue::Add;
use crate::reader::Reader;

/// Turns an event `E` into keys `Q` for the queue; none, one or many.
///
/// A panic in a handler is counted and reported, and the event is skipped; the
/// controller goes on.
pub struct Handler<E, Q>(Kinds<E, Q>);

enum Kinds<E, Q> {
    Now(Now<E, Q>),
    Later(Later<E, Q>),
    Added(Added<E, Q>),
}

type Added<E, Q> = Box<dyn Fn(E, &Reader) -> Vec<(Q, Add)> + Send + Sync>;
type Now<E, Q> = Box<dyn Fn(E, &Reader) -> Vec<Q> + Send + Sync>;
type Later<E, Q> = Box<dyn Fn(E, Reader) -> BoxFuture<'static, Vec<Q>> + Send + Sync>;

impl<E, Q> Handler<E, Q> {
    /// The keys, and how each is added: as `add` says, unless the handler says it.
    pub(crate) async fn keys(&self, event: E, reader: &Reader, add: Add) -> Vec<(Q, Add)> {
        let keys = match &self.0 {
            Kinds::Now(handle) => handle(event, reader),
            Kinds::Later(handle) => handle(event, reader.clone()).await,
            Kinds::Added(handle) => return handle(event, reader),
        };
        keys.into_iter().map(|key| (key, add)).collect()
    }
}

impl<E, Q> fmt::Debug for Handler<E, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// A handler from a function that sees the event and the cache.
///
/// ```
/// # use sendo::{handler::map, ObjectKey};
/// # use k8s_openapi::api::core::v1::Node;
/// struct Tick;
/// let every_node = map(|_: Tick, cx| cx.list::<Node>().keys());
/// # let _: sendo::handler::Handler<Tick, ObjectKey> = every_node;
/// ```
pub fn map<E, Q, R>(keys: impl Fn(E, &Reader) -> R + Send + Sync + 'static) -> Handler<E, Q>
where
    R: IntoIterator<Item = Q>,
{
    Handler(Kinds::Now(Box::new(move |event, reader| {
        keys(event, reader).into_iter().collect()
    })))
}

/// A handler that also says how each key is added to the queue: how urgent it is, and how long it
/// waits before it is due. Whether an object was there when the watch began is then for the
/// function to look at: other handlers add such keys with low priority.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Pod;
/// use sendo::queue::{Add, Priority, Reason};
/// use sendo::{Event, ObjectExt, ObjectKey, handler};
///
/// let by_priority = handler::map_adds(|event: Event<Pod>, _| {
///     let pod = event.object();
///     let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
///     [(pod.key(), Add::because(Reason::EVENT).priority(Priority(priority)))]
/// });
/// # let _: handler::Handler<Event<Pod>, ObjectKey> = by_priority;
/// ```
pub fn map_adds<E, Q, R>(adds: impl Fn(E, &Reader) -> R + Send + Sync + 'static) -> Handler<E, Q>
where
    R: IntoIterator<Item = (Q, Add)>,
{
    Handler(Kinds::Added(Box::new(move |event, reader| {
        adds(event, reader).into_iter().collect()
    })))
}

/// A handler from an async function. Events of one source wait for each other, so it should be quick.
pub fn map_async<E, Q, R, F>(keys: impl Fn(E, Reader) -> F + Send + Sync + 'static) -> Handler<E, Q>
where
    F: Future<Output = R> + Send + 'static,
    R: IntoIterator<Item = Q>,
{
    Handler(Kinds::Later(Box::new(move |event, reader| {
        let keys = keys(event, reader);
        Box::pin(async move { keys.await.into_iter().collect() })
    })))
}

/// A handler from a function of an object: called with the newest state, and on
/// updates with the old one too, so that what an object no longer points at is
/// reconciled as well.
pub fn map_object<K, Q, R>(
    keys: impl Fn(&K, &Reader) -> R + Send + Sync + 'static,
) -> Handler<Event<K>, Q>
where
    K: 'static,
    Q: PartialEq,
    R: IntoIterator<Item = Q>,
{
    map(move |event: Event<K>, reader| {
        let mut all: Vec<Q> = keys(event.object(), reader).into_iter().collect();
        if let Some(old) = event.old() {
            for key in keys(old, reader) {
                if !all.contains(&key) {
                    all.push(key);
                }
            }
        }
        all
    })
}

/// A handler with a function for each kind of event; what has none makes no keys.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use sendo::{ObjectExt, ObjectKey, handler};
///
/// // A node is of interest when it comes, goes, or changes its labels.
/// let nodes = handler::on::<Node, ObjectKey>()
///     .created(|node, _| [node.key()])
///     .updated(|old, new, _| (old.metadata.labels != new.metadata.labels).then(|| new.key()))
///     .deleted(|node, cx| cx.list::<Pod>().keys())
///     .handler();
/// ```
pub fn on<K: 'static, Q: 'static>() -> On<K, Q> {
    On {
        created: Box::new(|_, _| Vec::new()),
        updated: Box::new(|_, _, _| Vec::new()),
        deleted: Box::new(|_, _| Vec::new()),
    }
}

/// See [`on`].
pub struct On<K, Q> {
    created: OfOne<K, Q>,
    updated: OfTwo<K, Q>,
    deleted: OfOne<K, Q>,
}

type OfOne<K, Q> = Box<dyn Fn(&K, &Reader) -> Vec<Q> + Send + Sync>;
type OfTwo<K, Q> = Box<dyn Fn(&K, &K, &Reader) -> Vec<Q> + Send + Sync>;

impl<K: 'static, Q: 'static> On<K, Q> {
    /// The keys of an object that is new, or was there at the start.
    pub fn created<R: IntoIterator<Item = Q>>(
        mut self,
        keys: impl Fn(&K, &Reader) -> R + Send + Sync + 'static,
    ) -> Self {
        self.created = Box::new(move |object, cx| keys(object, cx).into_iter().collect());
        self
    }

    /// The keys of an object that changed: as it was, as it is.
    pub fn updated<R: IntoIterator<Item = Q>>(
        mut self,
        keys: impl Fn(&K, &K, &Reader) -> R + Send + Sync + 'static,
    ) -> Self {
        self.updated = Box::new(move |old, new, cx| keys(old, new, cx).into_iter().collect());
        self
    }

    /// The keys of an object that is gone, in its last state known.
    pub fn deleted<R: IntoIterator<Item = Q>>(
        mut self,
        keys: impl Fn(&K, &Reader) -> R + Send + Sync + 'static,
    ) -> Self {
        self.deleted = Box::new(move |object, cx| keys(object, cx).into_iter().collect());
        self
    }

    /// The handler.
    pub fn handler(self) -> Handler<Event<K>, Q> {
        map(move |event: Event<K>, cx| match &event {
            Event::Created { object, .. } => (self.created)(object, cx),
            Event::Updated { old, new } => (self.updated)(old, new, cx),
            Event::Deleted { object, .. } => (self.deleted)(object, cx),
        })
    }
}

impl<K, Q> fmt::Debug for On<K, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("On")
    }
}

/// Reconciles the object the event is about.
pub fn object<K: Resource + 'static>() -> Handler<Event<K>, ObjectKey> {
    map(|event: Event<K>, _| [ObjectKey::from_object(&**event.object())])
}

/// Reconciles the `Owner` that controls the object the event is about, and on
/// an update also the one that controlled it before.
pub fn controller_owner<Owner: Typed, K: Resource + 'static>() -> Handler<Event<K>, ObjectKey> {
    owners::<Owner, K>(|reference| reference.controller == Some(true))
}

/// Reconciles every `Owner` that the object names in its owner references, its controller or not.
pub fn every_owner<Owner: Typed, K: Resource + 'static>() -> Handler<Event<K>, ObjectKey> {
    owners::<Owner, K>(|_| true)
}

type OwnerReference = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

fn owners<Owner: Typed, K: Resource + 'static>(
    counts: fn(&OwnerReference) -> bool,
) -> Handler<Event<K>, ObjectKey> {
    let owner = Kind::of::<Owner>();
    map_object(move |object: &K, _| {
        let meta = object.meta();
        let references = meta.owner_references.iter().flatten();
        let ours = references.filter(|r| {
            let group = r.api_version.split_once('/').map_or("", |(group, _)| group);
            counts(r) && r.kind == owner.kind && group == owner.group
        });
        let key = |r: &OwnerReference| match &meta.namespace {
            Some(namespace) if Owner::is_namespaced() => ObjectKey::namespaced(namespace, &r.name),
            _ => ObjectKey::cluster(&r.name),
        };
        ours.map(key).collect::<Vec<_>>()
    })
}
