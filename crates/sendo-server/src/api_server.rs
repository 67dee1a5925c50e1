//! The API server as a value: how it is started, called and stopped.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use parking_lot::{Mutex, RwLock};
use sendo_apimachinery::resources::Resources;
use sendo_apimachinery::schema::Types;
use sendo_store::Store;
use sendo_world::World;
use tower::Service;

use crate::access::Access;
use crate::access::authenticate::Tokens;
use crate::access::follow::Follow;
use crate::access::tokens::TokenSigner;
use crate::audit::{Audit, Auditor};
use crate::bootstrap::{self, StartError};
use crate::catalog::Catalog;
use crate::metrics::Metrics;
use crate::outbound::{ClientCertificate, LocalServices, Outbound};
use crate::own_controllers::{api_services, definitions};
use crate::pipeline::{self, Origin};
use crate::request::body::Body;
use crate::request::in_flight::{InFlight, InFlightLimits};
use crate::request::user::User;
use crate::state::Server;
use crate::state::admission::{Plugin, hooks, policies};
use crate::state::documents::Documents;
use crate::state::pod_security::PodSecurity;
use crate::state::service_ranges::ServiceRanges;
use crate::webhook::Webhooks;
use crate::write::admission;

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
    /// What the admission plug-in PodSecurity asks of pods where the labels of their
    /// namespace do not say, and who is exempt from it. Nothing and nobody by default.
    pub pod_security: PodSecurity,
    /// What services are given addresses and ports from. A store that has been
    /// started on before keeps the addresses it began with.
    pub services: ServiceRanges,
    /// Which requests are recorded in an audit log, and where. None by default.
    pub audit: Option<Audit>,
    /// Whether `/readyz` fails until [`ApiServer::all_up`] is called, because
    /// more than the server makes the cluster. `false` by default.
    pub await_parts: bool,
    /// Whether `storagemigration.k8s.io/v1beta1` is served, which a default server of Kubernetes
    /// 1.36 does not. `false` by default.
    pub serve_storage_migrations: bool,
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
            pod_security: PodSecurity::default(),
            services: ServiceRanges::default(),
            audit: None,
            await_parts: false,
            serve_storage_migrations: false,
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
        let world = options.world.child("api-server");
        let types = Arc::new(Types::builtin());
        let features: &[&str] = match options.serve_storage_migrations {
            true => &["StorageVersionMigrator"],
            false => &[],
        };
        let resources = Resources::with_features(features);
        let catalog = Catalog::from_resources(&resources);
        let access = Access::new(&store, &world, &types, &catalog, options.tokens);
        let metrics = Arc::new(Metrics::default());
        let outbound = Arc::new(Outbound::new(&store, &world));
        let server = Arc::new(Server {
            access: Arc::new(access),
            hooks: Follow::new(Arc::clone(&store), hooks::PREFIXES),
            policies: Follow::new(Arc::clone(&store), policies::PREFIXES),
            webhooks: Webhooks::new(&outbound),
            outbound,
            store,
            admission,
            audit: options
                .audit
                .map(|audit| Arc::new(Auditor::new(audit, &world, &metrics))),
            metrics,
            world,
            require_service_accounts: options.require_service_accounts,
            in_flight: InFlight::new(options.in_flight),
            protect_storage: options.protect_storage,
            pod_security: options.pod_security,
            services: options.services,
            has_parts: options.await_parts,
            parts_are_up: AtomicBool::new(!options.await_parts),
            types,
            resources,
            documents: Documents::default(),
            definitions: tokio::sync::Mutex::default(),
            catalog: RwLock::new(Arc::new(catalog)),
            remote_tasks: tokio::sync::Mutex::default(),
            extension_authentication: Mutex::default(),
            advertised: Mutex::default(),
        });
        definitions::sync(&server)
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
            peer: None,
        }
    }

    /// A service that calls this server as its administrator, in this process.
    pub fn client_service(&self) -> Caller {
        self.as_user(User::admin())
    }

    /// The services of this process that the server calls without a socket, for example the
    /// webhooks of a program under test, or an API server that an APIService names.
    pub fn local_services(&self) -> &LocalServices {
        self.server.outbound.local()
    }

    /// Signs tokens of service accounts, for a controller that keeps them in Secrets.
    pub fn token_signer(&self) -> TokenSigner {
        TokenSigner::new(Arc::clone(&self.server.access))
    }

    /// Takes `token` for `user` from now on.
    pub(crate) fn give_token(&self, token: &str, user: User) {
        self.server.access.credentials.give(token, user);
    }

    /// A service for one connection, whose user is known if it has a client certificate.
    pub(crate) fn on_connection(&self, user: Option<User>, peer: Option<IpAddr>) -> Caller {
        Caller {
            server: Arc::clone(&self.server),
            user,
            peer,
        }
    }

    pub(crate) async fn advertise(&self, address: SocketAddr) -> Result<(), StartError> {
        bootstrap::advertise(&self.server, address).await
    }

    /// Shows `certificate` to other API servers from now on, and tells them where they find
    /// which authorities to trust, in PEM: that of clients' certificates, and that of this one.
    pub(crate) async fn identify_to_extensions(
        &self,
        certificate: ClientCertificate,
        client_authority: &str,
        front_proxy_authority: &str,
    ) -> Result<(), StartError> {
        let outbound = &self.server.outbound;
        outbound.set_front_proxy_certificate(certificate);
        bootstrap::publish(&self.server, client_authority, front_proxy_authority).await
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.server.store
    }

    /// What the server counts.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.server.metrics
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
            peer: None,
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
    peer: Option<IpAddr>,
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
            let origin = Origin {
                user: caller.user.as_ref(),
                address: caller.peer,
            };
            Ok(pipeline::handle(&caller.server, origin, request).await)
        })
    }
}
