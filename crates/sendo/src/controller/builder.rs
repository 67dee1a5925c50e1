//! The builders: what a user writes to declare a controller.

use std::any::TypeId;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::problem::Problem;
use super::rights::Gathered;
use super::watch::Watch;
use super::worker::{AddIndex, Job, Plan};
use super::{Action, Controller, Declaration, Elected, Reconcile, ReconcileKey, Settings, Watches};
use crate::cache::{Index, IndexValue, Selection};
use crate::context::Context;
use crate::error::Error;
use crate::handler::{self, Handler};
use crate::metrics::{Metric, OwnMetric, own_metric};
use crate::object::{Kind, ObjectKey, Typed, short_type_name};
use crate::predicate::Predicate;
use crate::queue::{Backoff, Limiter};
use crate::reader::DeclaredRead;
use crate::rights::{Right, Verbs};
use crate::source::{self, KindSource, Source};
use crate::{Event, client};

/// What a queue holds: small values that name what is to be reconciled.
pub trait Key: Clone + Ord + Hash + Debug + Display + Send + Sync + 'static {}

impl<Q: Clone + Ord + Hash + Debug + Display + Send + Sync + 'static> Key for Q {}

/// What both builders gather.
struct Parts<Q> {
    name: String,
    settings: Settings<Q>,
    watches: Vec<Watch<Q>>,
    indexes: Vec<DeclaredIndex>,
    problems: Vec<Problem>,
    metrics: Vec<OwnMetric>,
    component: Option<String>,
    rights: Gathered,
}

/// A declared index.
struct DeclaredIndex {
    of: TypeId,
    /// What to say if the controller has no objects of that type.
    undeclared: Problem,
    add: AddIndex,
}

impl<Q: Key> Parts<Q> {
    fn new(name: String) -> Self {
        Parts {
            name,
            settings: Settings {
                workers: 1,
                limiter: Box::new(Backoff::default()),
                fairness: None,
                timeout: None,
                elected: Elected::default(),
                reads: Vec::new(),
                dynamic: Vec::new(),
                announce: Vec::new(),
            },
            watches: Vec::new(),
            indexes: Vec::new(),
            problems: Vec::new(),
            metrics: Vec::new(),
            component: None,
            rights: Gathered::default(),
        }
    }

    fn reads<K: Typed>(&mut self, selection: Selection) {
        self.settings.reads.push(DeclaredRead::new::<K>(selection));
    }

    fn index<K: Typed, V: IndexValue>(&mut self, index: &'static Index<K, V>) {
        self.indexes.push(DeclaredIndex {
            of: TypeId::of::<K>(),
            undeclared: Problem::IndexOfUndeclared {
                index: index.name(),
                kind: Kind::of::<K>(),
                type_name: short_type_name::<K>(),
            },
            add: Box::new(|reader| {
                for informer in reader.informers::<K>() {
                    informer.add_index(index);
                }
            }),
        });
    }

    fn announces(&mut self, to: &source::Sender<Q>) {
        let to = to.clone();
        self.settings.announce.push(Box::new(move |key| {
            // One that has ended does not want to know.
            let _ = to.offer(key.clone());
        }));
    }

    fn controller(mut self, job: Box<dyn Job<Q>>) -> Controller {
        let watched = self.watches.iter().filter_map(|watch| watch.read.clone());
        self.settings.reads.extend(watched);
        let mut kinds: Vec<Kind> = self.settings.reads.iter().map(|r| r.kind.clone()).collect();
        kinds.sort();
        kinds.dedup();
        let (mut problems, mut indexes) = (self.problems, Vec::new());
        for DeclaredIndex {
            of,
            undeclared,
            add,
        } in self.indexes
        {
            let mut reads = self.settings.reads.iter();
            if !reads.any(|read| read.type_id == of) {
                problems.push(undeclared);
            }
            indexes.push(add);
        }
        let handles: Vec<_> = self.settings.dynamic.iter().map(Watches::id).collect();
        if self.watches.is_empty() && handles.is_empty() {
            problems.push(Problem::NoSource);
        }
        if self.settings.timeout == Some(Duration::ZERO) {
            problems.push(Problem::NoTime);
        }
        let declaration = Declaration {
            name: self.name.clone(),
            kinds,
            sources: self.watches.iter().map(|w| w.name.clone()).collect(),
            workers: self.settings.workers,
            elected: self.settings.elected,
            timeout: self.settings.timeout,
        };
        let is_of_any_kind = self.watches.iter().any(|watch| watch.is_of_any_kind);
        let rights = self.rights.rights(&self.settings.reads, is_of_any_kind);
        let component = self.component.unwrap_or_else(|| self.name.clone());
        let plan = Plan {
            name: self.name,
            settings: self.settings,
            watches: self.watches,
            indexes,
            job,
        };
        Controller {
            declaration,
            problems,
            handles,
            metrics: self.metrics,
            component,
            rights,
            prepare: Box::new(move |surroundings| plan.prepare(surroundings)),
        }
    }
}

/// Declares a controller of objects of kind `K`; see [`Controller::new`].
pub struct ForObjects<K> {
    primary: KindSource<K>,
    parts: Parts<ObjectKey>,
}

/// Declares a controller with keys of its own; see [`Controller::keyed`].
pub struct ForKeys<Q> {
    parts: Parts<Q>,
}

/// The settings both builders share, stated once.
macro_rules! settings {
    () => {
        /// Another name than the one it has by itself.
        pub fn named(mut self, name: &str) -> Self {
            self.parts.name = name.to_owned();
            self
        }

        /// The component that its events name; the controller's name unless told.
        ///
        /// For a controller that takes the place of one whose events people know
        /// under another name.
        pub fn events_as(mut self, component: &str) -> Self {
            self.parts.component = Some(component.to_owned());
            self
        }

        /// Adds a metric of the controller's own, as [`Manager::metric`] does for a
        /// program: the controller keeps a clone to change it.
        ///
        /// [`Manager::metric`]: crate::Manager::metric
        pub fn metric(mut self, name: &str, help: &str, metric: impl Metric) -> Self {
            self.parts.metrics.push(own_metric(name, help, metric));
            self
        }

        /// Reads a kind from the cache without being started by it. The
        /// workers wait until it is there.
        pub fn reads<R: Typed>(mut self) -> Self {
            self.parts.reads::<R>(Selection::default());
            self
        }

        /// Declares that it writes objects of a kind: `.writes::<Secret>(Verb::Create | Verb::Patch)`.
        /// [`rights`](crate::rights) has the words.
        ///
        /// For a kind that it owns, these verbs are instead of those that owning implies,
        /// which are all that the client's methods take.
        pub fn writes<W: Typed>(mut self, verbs: impl Into<Verbs>) -> Self {
            self.parts.rights.writes::<W>(verbs.into());
            self
        }

        /// Declares any other right that it needs: live reads, subresources, objects by
        /// their names, kinds that are known only at run time.
        pub fn needs(mut self, right: Right) -> Self {
            self.parts.rights.needs.push(right);
            self
        }

        /// Declares that it records no events. Without this the program asks for the
        /// right to write them.
        pub fn without_events(mut self) -> Self {
            self.parts.rights.records_no_events();
            self
        }

        /// Keeps an index over a kind that the controller watches or reads. One
        /// over another kind is among the [problems](crate::Manager::problems).
        pub fn index<C: Typed, V: IndexValue>(mut self, index: &'static Index<C, V>) -> Self {
            self.parts.index(index);
            self
        }

        /// How many keys are reconciled at once; 1 by default. [`Config::workers`](crate::Config)
        /// overrides it.
        ///
        /// # Panics
        /// If zero.
        pub fn workers(mut self, workers: usize) -> Self {
            assert!(workers > 0, "a controller needs at least one worker");
            self.parts.settings.workers = workers;
            self
        }

        /// How long to wait before a failed key is tried again; by default 5 ms, doubling up to
        /// 1000 s.
        ///
        /// An event does not wait: it enqueues the key at once. If that fails too, the key waits
        /// for what was left of its time, not for twice as long.
        pub fn retry(mut self, limiter: impl Limiter + 'static) -> Self {
            self.parts.settings.limiter = Box::new(limiter);
            self
        }

        /// Of this many keys in a row, at least one is that which has been ready longest, whatever
        /// its priority; 8 by default, see [`queue::Options`](crate::queue::Options). With
        /// `NonZeroU32::MAX` the most urgent key is always first, however long others wait.
        pub fn fairness(mut self, picks: NonZeroU32) -> Self {
            self.parts.settings.fairness = Some(picks);
            self
        }

        /// How long one reconcile may take before it is dropped and retried; by default there is no
        /// limit.
        pub fn timeout(mut self, limit: Duration) -> Self {
            self.parts.settings.timeout = Some(limit);
            self
        }

        /// Whether it works on the leader only, which is the default, or on every replica.
        pub fn elected(mut self, elected: Elected) -> Self {
            self.parts.settings.elected = elected;
            self
        }
    };
}

impl<K: Typed> ForObjects<K> {
    pub(super) fn new() -> Self {
        let mut parts = Parts::new(Kind::of::<K>().kind.to_lowercase());
        parts.rights.controls::<K>();
        ForObjects {
            primary: source::kind(),
            parts,
        }
    }

    settings!();

    /// Controls only part of the kind. The rest is neither fetched nor cached.
    pub fn selecting(mut self, selection: Selection) -> Self {
        self.primary = self.primary.selecting(selection);
        self
    }

    /// Which events of `K` itself start a reconcile; all of them by default.
    pub fn when(mut self, predicate: Predicate<K>) -> Self {
        self.primary = self.primary.when(predicate);
        self
    }

    /// Declares that it keeps a finalizer on objects of `K`: it may then patch them,
    /// which [`Context::finalizer`] does.
    pub fn with_finalizer(mut self) -> Self {
        self.parts.rights.has_finalizer();
        self
    }

    /// Watches a kind whose objects are controlled by a `K`: an event of one
    /// reconciles its controller.
    ///
    /// It declares the rights that owning takes: to get, create, update, patch and
    /// delete objects of `C`, and to block the deletion of their owner. Where
    /// [`writes`](Self::writes) names `C`, its verbs are instead of the first five.
    pub fn owns<C: Typed>(mut self) -> Self {
        self.parts.rights.owns::<C>();
        if K::is_namespaced() && !C::is_namespaced() {
            self.parts.problems.push(Problem::OwnsAcrossNamespaces {
                owner: Kind::of::<K>(),
                owned: Kind::of::<C>(),
            });
        }
        self.watches(source::kind::<C>(), handler::controller_owner::<K, C>())
    }

    /// The same for some events of the owned kind: those that `predicate` lets pass.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// # use sendo::{Action, Context, Controller, Result, predicate};
    /// # async fn reconcile(_: Arc<Deployment>, _: Context) -> Result<Action> { Ok(Action::done()) }
    /// let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas);
    /// let controller = Controller::new::<Deployment>()
    ///     .owns_when(predicate::changed(move |old: &ReplicaSet, new| ready(old) != ready(new)))
    ///     .reconcile(reconcile);
    /// ```
    ///
    /// Only part of a kind is watched with
    /// `.watches(kind::<C>().selecting(…), handler::controller_owner::<K, C>())`.
    pub fn owns_when<C: Typed>(mut self, predicate: Predicate<C>) -> Self {
        self.parts.rights.owns::<C>();
        let source = source::kind::<C>().when(predicate);
        self.watches(source, handler::controller_owner::<K, C>())
    }

    /// Watches any source; the handler says which objects its events concern.
    ///
    /// A kind that is watched can be read, too.
    pub fn watches<E: Send + 'static>(
        mut self,
        source: impl Into<Source<E>>,
        handler: Handler<E, ObjectKey>,
    ) -> Self {
        self.parts.watches.push(Watch::new(source.into(), handler));
        self
    }

    /// Lets sources be added and taken away while the controller runs.
    pub fn watches_also(mut self, watches: &Watches<ObjectKey>) -> Self {
        self.parts.settings.dynamic.push(watches.clone());
        self
    }

    /// Sends the key of every object that was reconciled with success, so that
    /// another controller can go on from there: that watches the channel's other
    /// end. If the channel is full, the key is dropped and counted.
    pub fn announces(mut self, to: &source::Sender<ObjectKey>) -> Self {
        self.parts.announces(to);
        self
    }

    /// Finishes the declaration with the function or the value that reconciles.
    pub fn reconcile(mut self, reconciler: impl Reconcile<K>) -> Controller {
        let primary: Source<Event<K>> = self.primary.into();
        let watch = Watch::new(primary, handler::object());
        self.parts.watches.insert(0, watch);
        controller_of_objects(
            self.parts,
            Box::new(ObjectJob {
                reconciler,
                kind: PhantomData,
            }),
        )
    }
}

impl<Q: Key> ForKeys<Q> {
    pub(super) fn new(name: &str) -> Self {
        ForKeys {
            parts: Parts::new(name.to_owned()),
        }
    }

    settings!();

    /// Watches any source; the handler makes keys of its events.
    ///
    /// A kind that is watched can be read, too.
    pub fn watches<E: Send + 'static>(
        mut self,
        source: impl Into<Source<E>>,
        handler: Handler<E, Q>,
    ) -> Self {
        self.parts.watches.push(Watch::new(source.into(), handler));
        self
    }

    /// Lets sources be added and taken away while the controller runs.
    pub fn watches_also(mut self, watches: &Watches<Q>) -> Self {
        self.parts.settings.dynamic.push(watches.clone());
        self
    }

    /// Sends every key that was reconciled with success, so that another
    /// controller can go on from there: that watches the channel's other end. If
    /// the channel is full, the key is dropped and counted.
    pub fn announces(mut self, to: &source::Sender<Q>) -> Self {
        self.parts.announces(to);
        self
    }

    /// Finishes the declaration with the function or the value that reconciles.
    pub fn reconcile(self, reconciler: impl ReconcileKey<Q>) -> Controller {
        self.parts.controller(Box::new(KeyJob { reconciler }))
    }
}

/// Not generic, so that the workers of all controllers of objects are compiled once.
fn controller_of_objects(parts: Parts<ObjectKey>, job: Box<dyn Job<ObjectKey>>) -> Controller {
    parts.controller(job)
}

struct ObjectJob<K, R> {
    reconciler: R,
    kind: PhantomData<fn() -> K>,
}

impl<K: Typed, R: Reconcile<K>> Job<ObjectKey> for ObjectJob<K, R> {
    fn run(&self, key: ObjectKey, mut cx: Context) -> BoxFuture<'_, crate::Result<Action>> {
        // In the future all of it, so that a panic anywhere is caught with it.
        Box::pin(async move {
            let Some(object) = cx.get::<K>(&key) else {
                self.reconciler.gone(key, cx).await?;
                return Ok(Action::done());
            };
            cx.about = Some(Arc::new(object.object_ref(&())));
            let reconciled = self.reconciler.reconcile(object, cx).await;
            reconciled.map_err(|error| match error.downcast_ref::<client::Error>() {
                // The watch will deliver the deletion too.
                Some(cause) if cause.is_absence_of(&Kind::of::<K>(), key.name()) => {
                    Error::conflict(error)
                }
                _ => error,
            })
        })
    }
}

struct KeyJob<R> {
    reconciler: R,
}

impl<Q: Key, R: ReconcileKey<Q>> Job<Q> for KeyJob<R> {
    fn run(&self, key: Q, cx: Context) -> BoxFuture<'_, crate::Result<Action>> {
        Box::pin(async move { self.reconciler.reconcile(key, cx).await })
    }
}
