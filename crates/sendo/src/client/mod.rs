//! Writes to the API server, which cached reads then show at once, and reads of
//! the API server itself.

mod delete;
mod finalizer;
mod kind;
mod live;
mod modify;
mod patch;
mod status;
mod status_merge;
mod subresource;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use sendo_world::World;

use crate::cache::{Cache, Selection};
use crate::metrics::ClientMetrics;
use crate::object::{Kind, Object, Typed};
use crate::rights::DeclaredRights;
use crate::transport::{Request, Retries, Transport};

pub use delete::{Delete, Deletion, Propagation};
pub use finalizer::{CleanUp, Finalizer};
pub use kind::KindClient;
pub use live::Live;
pub use modify::{Change, OperationResult};
pub use patch::Patch;
pub use status::{BuiltIn, Derived, WithStatus};
pub use subresource::Subresource;
pub use target::{Given, Target};

pub use crate::owner::{OwnerError, controller_reference, set_controller, set_owner};
pub use crate::transport::{Call, Error, Interceptor, Rate, RateLimit, WriteGate};

/// The API server as a program writes to it. Cheap to clone.
///
/// A write that succeeds is at once seen by all cached reads of this program.
/// If the future of a write is dropped, or fails for want of an answer, it is
/// not known whether the write took place; the cache then learns it from the watch.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    transport: Transport,
    cache: Cache,
    world: World,
    field_manager: String,
    dry_run: bool,
    strict: bool,
}

/// Choices for a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The program's name: its user agent, and the manager of the fields it
    /// writes. `sendo` by default.
    pub name: String,
    /// How long a request may take, retries included. 30 s by default.
    ///
    /// A read that gets no answer is sent again up to three times, and one that
    /// the server asks to repeat later up to nine times. A write is sent once,
    /// unless the server has turned it away unread for want of capacity: after any
    /// other answer, or none, it may have taken place, and its error says so. Every
    /// attempt counts in metrics and takes its turn in the rate limit.
    pub timeout: Duration,
    /// How many requests may be sent; shared by all clients that are given the
    /// same one. No limit by default.
    pub rate: Option<Arc<RateLimit>>,
    /// Where requests are counted. Nowhere by default.
    pub metrics: Option<ClientMetrics>,
    /// The requests that are sent; others are refused before. All by default: a
    /// [`Manager`](crate::Manager) gives its clients what it has declared.
    pub rights: Option<DeclaredRights>,
}

/// A connection to the API server by `config`, on which each request is sent once.
///
/// `kube` by itself sends every request again, writes too, that is answered with 429, 503 or 504:
/// an object with a generated name is then created twice, and the refusal of an eviction is not
/// seen. [`Client`] and the cache repeat requests where that does no harm.
pub fn connect(mut config: kube::Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    kube::Client::try_from(config)
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            name: "sendo".to_owned(),
            timeout: Duration::from_secs(30),
            rate: None,
            metrics: None,
            rights: None,
        }
    }
}

impl Client {
    /// A client whose writes are seen by the readers of `cache`.
    pub fn new(client: kube::Client, cache: Cache, world: World, options: ClientOptions) -> Self {
        cache.applies_as(&options.name);
        let clock = world.clock().clone();
        let retries = Retries::new(world.random().child("retries"));
        let transport = Transport::new(client, clock, &options.name, options.timeout)
            .with_retries(retries)
            .with_rate(options.rate)
            .with_rights(options.rights)
            .with_metrics(options.metrics);
        Client {
            shared: Arc::new(Shared {
                transport,
                cache,
                world,
                field_manager: options.name,
                dry_run: false,
                strict: false,
            }),
        }
    }

    /// This client, with every write passing `gate`: while that is closed
    /// writes fail without being sent, and those under way when it closes are cut off.
    pub fn with_gate(&self, gate: Arc<dyn WriteGate>) -> Self {
        self.with(|shared| shared.transport = shared.transport.clone().with_gate(gate))
    }

    /// This client, under another name as the manager of the fields it writes.
    pub fn with_field_manager(&self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.shared.cache.applies_as(&name);
        self.with(|shared| shared.field_manager = name)
    }

    /// This client, whose writes are checked by the API server and not done.
    pub fn dry_run(&self) -> Self {
        self.with(|shared| shared.dry_run = true)
    }

    /// This client, whose writes fail if they have a field that the kind does
    /// not know, or one twice, rather than drop it.
    pub fn strict(&self) -> Self {
        self.with(|shared| shared.strict = true)
    }

    /// This client, with `interceptor` seeing every request, after those it was
    /// given before.
    pub fn with_interceptor(&self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.with(|shared| {
            shared.transport = shared.transport.clone().with_interceptor(interceptor);
        })
    }

    fn with(&self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = (*self.shared).clone();
        change(&mut shared);
        Client {
            shared: Arc::new(shared),
        }
    }

    /// The objects of a kind known only at run time.
    pub fn of_kind<K: Object>(&self, kind: Kind) -> KindClient<K> {
        KindClient::new(self.clone(), kind)
    }

    /// Reads that ask the API server rather than the cache.
    pub fn live(&self) -> Live {
        Live::new(self.clone())
    }

    /// Creates an object. The answer is the object with what the server added.
    pub async fn create<K: Typed>(&self, object: &K) -> Result<K, Error> {
        self.typed::<K>().create(object).await
    }

    /// Creates an object that `owner` controls; see [`KindClient::create_owned`].
    pub async fn create_owned<O: Typed, K: Typed>(
        &self,
        owner: &impl Given<O>,
        object: K,
    ) -> Result<K, Error> {
        self.typed().create_owned(owner.object(), object).await
    }

    /// Replaces an object. With a version it fails with a conflict if the
    /// object has changed since.
    pub async fn update<K: Typed>(&self, object: &K) -> Result<K, Error> {
        self.typed().update(object).await
    }

    /// Replaces the status of an object, and nothing else of it.
    pub async fn replace_status<K: Typed>(&self, object: &K) -> Result<K, Error> {
        self.typed().replace_status(object).await
    }

    /// Changes a part of an object; see [`KindClient::patch`].
    pub async fn patch<K: Typed>(&self, target: &impl Target<K>, patch: Patch) -> Result<K, Error> {
        self.typed().patch(target, patch).await
    }

    /// Changes a part of an object's status. The patch is of the whole object:
    /// `{"status": {…}}`.
    pub async fn patch_status<K: Typed>(
        &self,
        target: &impl Target<K>,
        patch: Patch,
    ) -> Result<K, Error> {
        self.typed().patch_status(target, patch).await
    }

    /// Changes the status of an object, if `change` changes it; see [`KindClient::status`].
    pub async fn status<K: Typed + WithStatus<M>, M, T>(
        &self,
        object: &impl Given<K>,
        change: impl FnOnce(&mut K::Status) -> T,
    ) -> Result<Option<T>, Error> {
        self.typed().status(object.object(), change).await
    }

    /// Server-side apply: creates the object or makes it as said here, taking
    /// over fields that belong to others; see [`KindClient::apply`].
    pub async fn apply<K: Typed>(&self, object: &K) -> Result<K, Error> {
        self.typed().apply(object).await
    }

    /// Server-side apply of an object that `owner` controls; see [`KindClient::apply_owned`].
    pub async fn apply_owned<O: Typed, K: Typed>(
        &self,
        owner: &impl Given<O>,
        object: K,
    ) -> Result<K, Error> {
        self.typed().apply_owned(owner.object(), object).await
    }

    /// Sees to a finalizer; see [`KindClient::finalizer`].
    pub async fn finalizer<K: Typed, C, E, F>(
        &self,
        object: &impl Given<K>,
        name: &str,
        clean_up: impl FnOnce() -> F,
    ) -> Result<Finalizer, E>
    where
        C: Into<CleanUp>,
        E: From<Error>,
        F: Future<Output = Result<C, E>>,
    {
        let object = object.object();
        self.typed().finalizer(object, name, clean_up).await
    }

    /// Deletes an object; see [`KindClient::delete`].
    pub fn delete<K: Typed>(&self, target: &impl Target<K>) -> Delete<K> {
        self.typed().delete(target)
    }

    /// Deletes all selected objects of a kind; see [`KindClient::delete_all`].
    pub async fn delete_all<K: Typed>(&self, selection: &Selection) -> Result<(), Error> {
        self.typed::<K>().delete_all(selection).await
    }

    /// Changes an object, again if somebody else was faster; see [`KindClient::modify`].
    pub async fn modify<K: Typed, C: Change>(
        &self,
        target: &impl Target<K>,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<K, C::Error> {
        self.typed().modify(target, change).await
    }

    /// Makes an object as `change` makes it; see [`KindClient::create_or_update`].
    pub async fn create_or_update<K: Typed, C: Change>(
        &self,
        template: K,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<OperationResult<K>, C::Error> {
        self.typed().create_or_update(template, change).await
    }

    /// Makes an object as `change` makes it, by a patch; see [`KindClient::create_or_patch`].
    pub async fn create_or_patch<K: Typed, C: Change>(
        &self,
        template: K,
        change: impl FnMut(&mut K) -> C,
    ) -> Result<OperationResult<K>, C::Error> {
        self.typed().create_or_patch(template, change).await
    }

    /// Does `attempt` again, up to five times in all, as long as somebody else
    /// was faster: it reads what it writes anew each time. For a change of one
    /// object, [`Client::modify`] is shorter.
    pub async fn retry_on_conflict<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut tried = 1;
        loop {
            match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => modify::wait_after(self.world(), error, &mut tried).await?,
            }
        }
    }

    /// A subresource of an object, such as `scale`, `eviction` or `binding`.
    pub fn subresource<K: Typed>(
        &self,
        target: &impl Target<K>,
        name: &str,
    ) -> Result<Subresource, Error> {
        self.typed().subresource(target, name)
    }

    /// The cache that shows this client's writes.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The name this client writes under.
    pub fn field_manager(&self) -> &str {
        &self.shared.field_manager
    }

    fn typed<K: Typed>(&self) -> KindClient<K> {
        self.of_kind(Kind::of::<K>())
    }

    fn world(&self) -> &World {
        &self.shared.world
    }

    fn transport(&self) -> &Transport {
        &self.shared.transport
    }

    fn is_dry_run(&self) -> bool {
        self.shared.dry_run
    }

    /// A write, under this client's name.
    fn write(&self, method: Method, path: String) -> Request {
        let takes_manager = method != Method::DELETE;
        Request::new(method, path)
            .query_if(takes_manager, "fieldManager", self.field_manager())
            .query_if(
                takes_manager && self.shared.strict,
                "fieldValidation",
                "Strict",
            )
            .query_if(self.is_dry_run(), "dryRun", "All")
    }

    fn patch_request(&self, path: String, patch: &Patch) -> Result<Request, Error> {
        self.write(Method::PATCH, path)
            .query_if(patch.is_forced(), "force", "true")
            .content_type(patch.content_type())
            .json(patch.value())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("field_manager", &self.shared.field_manager)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
