//! What a reconcile has at hand.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sendo_world::{Clock, Random, Stop, Timestamp, World};

use crate::cache::Listing;
use crate::client::{
    self, Change, CleanUp, Client, Delete, Finalizer, Given, Live, OperationResult, Patch, Target,
    WithStatus,
};
use crate::conditions;
use crate::discovery::{self, ServedKind};
use crate::election::Gate;
use crate::error::Result;
use crate::events::{EventSeverity, Recorder};
use crate::object::{Kind, Object, ObjectKey, Typed};
use crate::reader::Reader;
use crate::transport::GuardedKube;

/// One reconcile: reads, writes, events, time. Cheap to clone.
///
/// Reads come from the cache and show this program's own writes at once;
/// [`Context::live`] reads from the API server. Writes go to the API server through
/// [`Context::client`], whose most used methods are here too.
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Arc<str>,
    /// What [`Context::event`] is about.
    pub(crate) about: Option<Arc<ObjectReference>>,
}

/// What all reconciles of a controller have in common.
pub(crate) struct Shared {
    pub(crate) reader: Reader,
    pub(crate) client: Client,
    pub(crate) kube: GuardedKube,
    pub(crate) recorder: Recorder,
    pub(crate) world: World,
    pub(crate) stopping: Stop,
    pub(crate) leads: Gate,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// The key being reconciled, as text.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The object under `key`, if the cache has it.
    ///
    /// A kind that the controller does not declare ends the reconcile with an error
    /// that names the fix; see [`Undeclared`](crate::Undeclared).
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<Arc<K>> {
        self.shared.reader.get(key)
    }

    /// The cached objects of a kind, to be narrowed down; of a kind that is
    /// declared, as for [`get`](Self::get).
    pub fn list<K: Typed>(&self) -> Listing<'static, K> {
        self.shared.reader.list()
    }

    /// The cached objects of a kind known only at run time; see [`Reader::list_of`].
    pub fn list_of<K: Object>(&self, kind: &Kind) -> Option<Listing<'static, K>> {
        self.shared.reader.list_of(kind)
    }

    /// The cached object of a kind known only at run time; see [`Reader::get_of`].
    pub fn get_of<K: Object>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.reader.get_of(kind, key)
    }

    /// The cache alone, as handlers see it.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// The kinds that the API server serves now.
    pub async fn served_kinds(&self) -> Result<Vec<ServedKind>> {
        Ok(discovery::served_kinds(self.shared.kube.for_discovery()).await?)
    }

    /// The client: every write, and reads of the API server itself.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// A client of the `kube` crate, for what [`Context::client`] has no method for.
    ///
    /// It sends what the program has [declared](crate::rights), and writes only while
    /// this process may act as the leader. The cache learns of its writes by the watch.
    pub fn kube(&self) -> kube::Client {
        self.shared.kube.client()
    }

    /// Reads of the API server itself, past the cache.
    pub fn live(&self) -> Live {
        self.client().live()
    }

    /// Creates an object; see [`Client::create`].
    pub async fn create<K: Typed>(&self, object: &K) -> Result<K, client::Error> {
        self.client().create(object).await
    }

    /// Creates an object that `owner` controls; see [`Client::create_owned`].
    pub async fn create_owned<O: Typed, K: Typed>(
        &self,
        owner: &impl Given<O>,
        object: K,
    ) -> Result<K, client::Error> {
        self.client().create_owned(owner, object).await
    }

    /// Replaces an object; see [`Client::update`].
    pub async fn update<K: Typed>(&self, object: &K) -> Result<K, client::Error> {
        self.client().update(object).await
    }

    /// Changes a part of an object; see [`Client::patch`].
    pub async fn patch<K: Typed>(
        &self,
        target: &impl Target<K>,
        patch: Patch,
    ) -> Result<K, client::Error> {
        self.client().patch(target, patch).await
    }

    /// Creates an object or makes it as said here, in this controller's name; see [`Client::apply`].
    pub async fn apply<K: Typed>(&self, object: &K) -> Result<K, client::Error> {
        self.client().apply(object).await
    }

    /// The same for an object that `owner` controls; see [`Client::apply_owned`].
    pub async fn apply_owned<O: Typed, K: Typed>(
        &self,
        owner: &impl Given<O>,
        object: K,
    ) -> Result<K, client::Error> {
        self.client().apply_owned(owner, object).await
    }

    /// Makes an object as `change` makes it, if it is different; see
    /// [`Client::create_or_update`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// # use sendo::{Context, Result, client::set_controller};
    /// # async fn example(owner: Arc<Namespace>, template: ConfigMap, cx: Context) -> Result<()> {
    /// let written = cx.create_or_update(template, |map| -> Result<()> {
    ///     set_controller(&*owner, map)?; // refuses what another controls
    ///     map.immutable = Some(true);
    ///     Ok(())
    /// });
    /// written.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_or_update<K: Typed, C: Change>(
        &self,
        template: K,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<OperationResult<K>, C::Error> {
        self.client().create_or_update(template, change).await
    }

    /// Deletes an object; see [`Client::delete`].
    pub fn delete<K: Typed>(&self, target: &impl Target<K>) -> Delete<K> {
        self.client().delete(target)
    }

    /// Changes the status of an object, if `change` changes it. An object that is gone is no error.
    /// Returns what `change` returned if something was written, so that a transition is reported
    /// once; see
    /// [`KindClient::status`](client::KindClient::status).
    pub async fn status<K: Typed + WithStatus<M>, M, T>(
        &self,
        object: &impl Given<K>,
        change: impl FnOnce(&mut K::Status) -> T,
    ) -> Result<Option<T>, client::Error> {
        self.client().status(object, change).await
    }

    /// A condition of `object`, as of now; see [`conditions`](crate::conditions).
    pub fn condition<K: Typed>(
        &self,
        object: &impl Given<K>,
        kind: &str,
        state: impl Into<conditions::State>,
        reason: &str,
        message: impl Into<String>,
    ) -> Condition {
        conditions::condition(object.object(), self.now(), kind, state, reason, message)
    }

    /// Sees to the finalizer `name`: puts it in place, or runs `clean_up` and
    /// takes it away; see [`KindClient::finalizer`](client::KindClient::finalizer).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use std::time::Duration;
    /// # use sendo::client::{CleanUp, Finalizer};
    /// # use sendo::{Action, Context, Result};
    /// # async fn delete_bucket(_: &ConfigMap) -> Result<bool> { Ok(true) }
    /// async fn reconcile(bucket: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    ///     let seen = cx.finalizer(&bucket, "example.dev/bucket", || clean_up(&bucket));
    ///     if let Finalizer::Going(action) = seen.await? {
    ///         return Ok(action);
    ///     }
    ///     // From here on something may be made that has to be cleaned up.
    ///     Ok(Action::done())
    /// }
    ///
    /// async fn clean_up(bucket: &ConfigMap) -> Result<CleanUp> {
    ///     Ok(match delete_bucket(bucket).await? {
    ///         true => CleanUp::Done,
    ///         false => CleanUp::Again(Duration::from_secs(60)), // not empty yet
    ///     })
    /// }
    /// ```
    pub async fn finalizer<K: Typed, C, F>(
        &self,
        object: &impl Given<K>,
        name: &str,
        clean_up: impl FnOnce() -> F,
    ) -> Result<Finalizer>
    where
        C: Into<CleanUp>,
        F: Future<Output = Result<C>>,
    {
        self.client().finalizer(object, name, clean_up).await
    }

    /// Records an event about the object being reconciled. Never blocks and never fails.
    ///
    /// A controller with keys of its own has no such object: it uses [`Context::event_on`].
    pub fn event(&self, kind: EventSeverity, reason: &str, message: impl Into<String>) {
        match &self.about {
            Some(about) => self.shared.recorder.event(about, kind, reason, message),
            None => tracing::warn!(
                key = &*self.key,
                reason,
                "an event without an object is lost: this controller has keys of its own, name the object with `event_on`"
            ),
        }
    }

    /// Records an event about any object. Never blocks and never fails.
    pub fn event_on<K: Typed>(
        &self,
        object: &K,
        kind: EventSeverity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let about = object.object_ref(&());
        self.shared.recorder.event(&about, kind, reason, message);
    }

    /// The recorder, for what has no typed object at hand.
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// The wall time.
    pub fn now(&self) -> Timestamp {
        self.clock().wall()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        self.shared.world.clock()
    }

    /// Randomness of this controller.
    pub fn random(&self) -> &Random {
        self.shared.world.random()
    }

    /// Whether this process may act as the leader now; always, without an election.
    ///
    /// Writes to the API server need no check: they pass the same gate. Before an action on
    /// anything else, call this. A reconcile is dropped when leadership is lost, but only where it
    /// waits for something; and a process that stood still, suspended for one, goes on where it
    /// was, with a lease that has run out. It is the state of this part's own election, or of the
    /// program's for a part that works on every replica.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use sendo::{Action, Context, Error, Result};
    /// # async fn send_invoice(_: &ConfigMap) -> Result<()> { Ok(()) }
    /// async fn reconcile(order: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    ///     if !cx.leading() {
    ///         return Err(Error::conflict("another replica leads by now"));
    ///     }
    ///     send_invoice(&order).await?;
    ///     Ok(Action::done())
    /// }
    /// ```
    pub fn leading(&self) -> bool {
        self.shared.leads.check().is_ok()
    }

    /// Cancelled when the controller is to stop. A reconcile that takes long
    /// ends early then; those that do not are dropped at the manager's deadline,
    /// where they wait for something, and so are those of a leader that leads no more.
    pub fn stopping(&self) -> &Stop {
        &self.shared.stopping
    }
}
