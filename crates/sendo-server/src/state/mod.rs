//! The API server as a value: what it keeps, and how to call it.

pub(crate) mod call;
pub(crate) mod decode;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::Response;
use sendo_apimachinery::Status;
use sendo_apimachinery::schema::{Types, show_as_stored};
use sendo_store::{KeyRange, Revision, Store};
use sendo_world::World;
use serde_json::Value;
use tower::Service;

use crate::access::authenticate::Tokens;
use crate::access::authorise::nodes::{self, Bound};
use crate::access::follow::Follow;
use crate::access::rbac::{self, Policy, Rule};
use crate::access::tokens::{Credentials, TokenSigner};
use crate::catalog::custom::lifecycle::{self, Known};
use crate::catalog::stored_form;
use crate::catalog::{Catalog, Resource};
use crate::own_controllers::api_services;
use crate::own_controllers::bootstrap;
use crate::pages::openapi::Documents;
use crate::pipeline;
use crate::request::body::Body;
use crate::request::in_flight::{InFlight, InFlightLimits};
use crate::request::user::User;
use crate::state::call::backend;
use crate::write::admission::{self, Plugin};
use crate::write::allocation::ServiceRanges;

/// What an [`ApiServer`] is made of.
pub struct Options {
    /// Where objects are kept. A store that holds objects already is carried on with.
    pub store: Arc<dyn Store>,
    /// The world to live in. The server takes a child of it, named `api-server`.
    pub world: World,
    /// Bearer tokens that are accepted, and whose they are. None by default.
    pub tokens: Tokens,
    /// Whether a pod's service account must exist, as in a cluster with the
    /// controller that makes the `default` ones. Without it (the default here) a
    /// pod is let in with the account's name alone.
    pub require_service_accounts: bool,
    /// How many requests are worked on at once.
    pub in_flight: InFlightLimits,
    /// Whether volumes and claims are kept while they are in use, as in a cluster
    /// with the controllers that let go of them. Without those (the default here)
    /// they would stay for ever.
    pub protect_storage: bool,
    /// What services are given addresses and ports from. A store that has been
    /// started on before keeps the addresses it began with.
    pub services: ServiceRanges,
    /// Whether `/readyz` fails until [`ApiServer::all_up`] is called, because
    /// more than the server makes the cluster. `false` by default.
    pub await_parts: bool,
}

impl Options {
    /// A server on `store` in `world`, with no bearer tokens.
    pub fn new(store: Arc<dyn Store>, world: World) -> Self {
        Options {
            store,
            world,
            tokens: Tokens::new(),
            require_service_accounts: false,
            in_flight: InFlightLimits::default(),
            protect_storage: false,
            services: ServiceRanges::default(),
            await_parts: false,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("world", &self.world)
            .finish_non_exhaustive()
    }
}

/// A Kubernetes API server.
///
/// Cloning is cheap and gives the same server. As a service it authenticates
/// each request by its bearer token, or else takes it for anonymous;
/// [`ApiServer::as_user`] calls it as somebody, with no socket between.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The definitions of custom resources in the store could not be read.
    #[error("cannot read the definitions of custom resources: {0}")]
    Definitions(Status),
    /// The roles that every cluster has could not be made.
    #[error("cannot make the cluster's roles: {0}")]
    Roles(Status),
    /// An object that every cluster has could not be made.
    #[error("cannot create {object}: {message}")]
    Bootstrap {
        /// Where it belongs.
        object: String,
        /// What the server answered itself.
        message: String,
    },
}

impl ApiServer {
    /// Starts a server: reads what the store holds and creates what every cluster
    /// has, if it is absent: the namespaces `default`, `kube-system`, `kube-public`
    /// and `kube-node-lease`, the two priority classes of the system, an
    /// APIService for each version of each group, the range of service addresses
    /// and the service `kubernetes`, and the roles and bindings by which people and
    /// the cluster's own parts may do anything. Those get back what was taken from
    /// them, unless they are annotated with
    /// `rbac.authorization.kubernetes.io/autoupdate: "false"`.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        ApiServer::start_with(options, admission::PLUGINS).await
    }

    /// The same with other steps of admission.
    pub(crate) async fn start_with(
        options: Options,
        admission: &'static [Plugin],
    ) -> Result<Self, StartError> {
        let store = options.store;
        let server = Arc::new(Server {
            policy: Follow::new(Arc::clone(&store), rbac::PREFIXES),
            bound: Follow::new(Arc::clone(&store), nodes::PODS),
            node_rules: rbac::bootstrap::rules("system:node"),
            credentials: Credentials::new(Arc::clone(&store), options.tokens),
            store,
            admission,
            world: options.world.child("api-server"),
            require_service_accounts: options.require_service_accounts,
            in_flight: InFlight::new(options.in_flight),
            protect_storage: options.protect_storage,
            services: options.services,
            has_parts: options.await_parts,
            parts_are_up: AtomicBool::new(!options.await_parts),
            types: Types::builtin(),
            documents: Documents::default(),
            definitions: tokio::sync::Mutex::default(),
            catalog: RwLock::new(Arc::new(Catalog::builtin())),
            advertised: Mutex::default(),
        });
        lifecycle::sync(&server)
            .await
            .map_err(StartError::Definitions)?;
        bootstrap::bootstrap(&server).await?;
        api_services::sync(&server)
            .await
            .map_err(StartError::Definitions)?;
        let kept = bootstrap::keep(Arc::downgrade(&server), server.world.clone());
        let stopping = server.world.tasks().stopping().clone();
        let until_stopped = async move { stopping.run_until_cancelled(kept).await };
        server.world.tasks().spawn("own-service", until_stopped);
        Ok(ApiServer { server })
    }

    /// A service that calls this server as `user`, in this process.
    pub fn as_user(&self, user: User) -> Caller {
        Caller {
            server: Arc::clone(&self.server),
            user: Some(user),
        }
    }

    /// A service that calls this server as its administrator, in this process.
    pub fn client_service(&self) -> Caller {
        self.as_user(User::admin())
    }

    /// Signs tokens of service accounts, for a controller that keeps them in Secrets.
    pub fn token_signer(&self) -> TokenSigner {
        TokenSigner::new(Arc::clone(&self.server))
    }

    /// Takes `token` for `user` from now on.
    pub(crate) fn give_token(&self, token: &str, user: User) {
        self.server.credentials.give(token, user);
    }

    /// A service for one connection, whose user TLS may have told.
    pub(crate) fn on_connection(&self, user: Option<User>) -> Caller {
        Caller {
            server: Arc::clone(&self.server),
            user,
        }
    }

    pub(crate) async fn advertise(&self, address: SocketAddr) -> Result<(), StartError> {
        bootstrap::advertise(&self.server, address).await
    }

    pub(crate) fn world(&self) -> &World {
        &self.server.world
    }

    /// Tells the server that the rest of the cluster is up: `/readyz` may pass
    /// from now on. Needed with [`Options::await_parts`] only.
    pub fn all_up(&self) {
        self.server.parts_are_up.store(true, Ordering::Release);
    }

    /// Ends all watches, refuses new requests, and waits for the server's own tasks.
    pub async fn shutdown(&self) {
        self.server.world.tasks().stop().await;
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl<B> Service<http::Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Caller {
            server: Arc::clone(&self.server),
            user: None,
        }
        .call(request)
    }
}

/// A service that calls an [`ApiServer`] as one user.
///
/// `kube::Client::new(caller, "default")` makes a client of it. Dropping the
/// future of a call cancels the request; a write has then taken place whole or
/// not at all. Dropping the body of a watch ends it.
#[derive(Clone)]
pub struct Caller {
    server: Arc<Server>,
    user: Option<User>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl<B> Service<http::Request<B>> for Caller
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let caller = self.clone();
        Box::pin(async move {
            Ok(pipeline::handle(&caller.server, caller.user.as_ref(), request).await)
        })
    }
}

/// What the parts of a server share.
pub(crate) struct Server {
    pub(crate) store: Arc<dyn Store>,
    /// The steps of admission, in their order.
    pub(crate) admission: &'static [Plugin],
    pub(crate) world: World,
    /// Who holds which roles.
    pub(crate) policy: Follow<Policy>,
    /// Which pods are on which nodes.
    pub(crate) bound: Follow<Bound>,
    /// What every node may do, where it is not for the node itself alone.
    pub(crate) node_rules: Vec<Rule>,
    /// Tells whose a token is.
    pub(crate) credentials: Credentials,
    pub(crate) require_service_accounts: bool,
    /// The requests that are worked on.
    pub(crate) in_flight: InFlight,
    pub(crate) protect_storage: bool,
    /// What services are given addresses and ports from.
    pub(crate) services: ServiceRanges,
    /// Whether more than this server makes the cluster.
    pub(crate) has_parts: bool,
    /// Whether the parts of the cluster beside this server are up.
    pub(crate) parts_are_up: AtomicBool,
    /// The types of built-in kinds.
    pub(crate) types: Types,
    /// OpenAPI documents that were asked for.
    pub(crate) documents: Documents,
    /// The definitions of custom resources that the catalog shows.
    pub(crate) definitions: tokio::sync::Mutex<Known>,
    catalog: RwLock<Arc<Catalog>>,
    /// Where the server was last told to listen.
    pub(crate) advertised: Mutex<Option<SocketAddr>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// How long a read waits for a version that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

impl Server {
    /// What is served now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what is served. Requests that have begun see what was served before.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Catalog::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }

    /// The bytes to store for an object in its storage version, as Go would show it.
    pub(crate) fn encode(&self, resource: &Resource, object: &mut Value) -> Bytes {
        self.encode_managed(resource, object, None)
    }

    /// The same for an object whose list of managers may be given as text.
    pub(crate) fn encode_managed(
        &self,
        resource: &Resource,
        object: &mut Value,
        managers: Option<&str>,
    ) -> Bytes {
        match &resource.custom {
            Some(custom) => custom.prepare_storage(object),
            None => self.show(resource, object),
        }
        stored_form::encode_managed(object, managers)
    }

    /// Gives an object in its storage version the form that Go would show, if it is of a built-in kind.
    ///
    /// What is stored has that form; what is compared with it must have it too.
    pub(crate) fn show(&self, resource: &Resource, object: &mut Value) {
        let types = &resource.stored;
        if resource.custom.is_none()
            && let Some(schema) = self.types.kind(&types.api_version, &types.kind)
        {
            show_as_stored(schema, object);
        }
    }

    /// A stored object in the version of `resource`, as Go would show it.
    pub(crate) fn convert(&self, resource: &Resource, object: &Value) -> Value {
        if resource.is_stored_version() {
            return object.clone();
        }
        let (from, to) = (&resource.stored, &resource.types);
        let mut converted = (resource.rules.convert)(object, &from.api_version, &to.api_version);
        if let Some(schema) = self.types.kind(&to.api_version, &to.kind) {
            show_as_stored(schema, &mut converted);
        }
        converted
    }

    /// Waits until the store has come to `wanted`, for some seconds at most.
    pub(crate) async fn reach(&self, wanted: Revision) -> Result<(), Status> {
        let newest = self.store.revision();
        if wanted <= newest {
            return Ok(());
        }
        let mut changes = self.store.watch(KeyRange::all(), newest).map_err(backend)?;
        let reached = async {
            while let Some(Ok(batch)) = changes.next().await {
                if batch.revision >= wanted {
                    return;
                }
            }
        };
        match self.world.clock().timeout(PATIENCE, reached).await {
            Some(()) => Ok(()),
            None => Err(Status::resource_version_too_large(
                wanted.0,
                self.store.revision().0,
            )),
        }
    }
}
