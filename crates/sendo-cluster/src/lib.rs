//! A Kubernetes cluster in one process: API server, controllers, scheduler, nodes.
//!
//! ```
//! use sendo_cluster::{Cluster, ClusterOptions};
//! use sendo_world::World;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::real();
//! let cluster = Cluster::start(&world, ClusterOptions::default()).await?;
//! let version = cluster.client().apiserver_version().await?;
//! assert_eq!(version.minor, "36");
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

mod controllers;
mod identities;
mod metrics_api;
mod node_api;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, PostParams};
use sendo::webhook::InProcess;
use sendo::{Config, Manager, Running};
use sendo_node::NodeOptions;
use sendo_server::{
    ApiServer, Authority, AuthorityError, LocalService, Options, Serving, SigningTerms, User,
};
use sendo_store::Memory;
use sendo_workloads::{CertificateSigner, Settings, TokenSigner, storage_version_migration};
use sendo_world::World;
use tokio::runtime::Handle;

pub use controllers::{Controllers, UnknownController};
pub use sendo_node::{Pace, Runtime};
#[cfg(feature = "process")]
pub use sendo_node::{ProcessOptions, container_process};
pub use sendo_server::{Audit, AuditLog, AuditPolicy, AuditPolicyError, AuditRotation, ServeError};
pub use sendo_store::{Disk, OpenError, Retention, Store};

/// The options of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The number of nodes, named `node-0`, `node-1`, …; 2 by default.
    pub nodes: u8,
    /// What the nodes do with pods; simulated containers by default.
    pub runtime: Runtime,
    /// Which controllers run; all of them by default.
    pub controllers: Controllers,
    /// The address on which the API server listens, with TLS. `None`, the default: it does not
    /// listen, and [`Cluster::client`] calls it in this process.
    pub listen: Option<SocketAddr>,
    /// The store of the objects, for example a [`Disk`]: a cluster on a used store has the objects of
    /// the one before. `None`, the default: a store in memory.
    pub store: Option<Arc<dyn Store>>,
    /// Which requests the API server records in an audit log, and where. `None`, the default: none.
    pub audit: Option<Audit>,
    /// Whether StorageVersionMigrations (`storagemigration.k8s.io/v1beta1`) are served, and the
    /// controller runs that carries them out. A default cluster of Kubernetes 1.36 has neither;
    /// `false` by default.
    pub storage_version_migration: bool,
    /// Whether `metrics.k8s.io` is served, with what simulated pods say that they use
    /// ([`sendo_node::usage`]): what `kubectl top` shows, and autoscalers read. `false` by default,
    /// as a cluster has it only with a metrics server.
    pub metrics_api: bool,
    /// The runtime of the controllers, the scheduler and the nodes. `None`, the default: the runtime
    /// that starts the cluster, which also runs the API server. With a runtime of their own they do
    /// not delay requests from outside.
    pub parts_on: Option<Handle>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            nodes: 2,
            runtime: Runtime::Simulated(Pace::default()),
            controllers: Controllers::all(),
            listen: None,
            store: None,
            audit: None,
            storage_version_migration: false,
            metrics_api: false,
            parts_on: None,
        }
    }
}

/// How long a component may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The API server did not start.
    #[error(transparent)]
    Server(#[from] sendo_server::StartError),
    /// The API server cannot be served where it should be.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The cluster's certificate authority could not be created or stored.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The roles of the cluster's controllers could not be written.
    #[error("cannot write the roles of the controllers: {0}")]
    Roles(#[source] Box<kube::Error>),
    /// The storage class that claims have by default could not be written.
    #[error("cannot write the default storage class: {0}")]
    DefaultClass(#[source] Box<kube::Error>),
    /// The metrics API could not be registered.
    #[error("cannot register the metrics API: {0}")]
    MetricsApi(#[source] Box<kube::Error>),
    /// A part of the cluster did not start.
    #[error("{part} did not start: {cause}")]
    Part {
        /// Which.
        part: String,
        /// Why.
        cause: sendo::Error,
    },
}

impl StartError {
    fn for_component(component: &Component, cause: sendo::Error) -> Self {
        StartError::Part {
            part: component.name.clone(),
            cause,
        }
    }
}

/// The runtime of one of several nodes: each keeps its containers in a folder of its own.
fn of_node(runtime: &Runtime, _number: u8) -> Runtime {
    match runtime {
        #[cfg(feature = "process")]
        Runtime::Process(options) => Runtime::Process(ProcessOptions {
            state: options.state.join(format!("node-{_number}")),
            ..options.clone()
        }),
        other => other.clone(),
    }
}

/// A component of the cluster that has become ready.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its display name.
    pub name: String,
    /// A description: its address, its names or its capacity.
    pub about: String,
}

/// A running cluster.
///
/// Stop it with [`Cluster::stop`]; if it is dropped instead, its tasks end with the world's.
pub struct Cluster {
    world: World,
    server: ApiServer,
    store: Arc<dyn Store>,
    serving: Option<Serving>,
    /// Serves the metrics API, if it is served.
    metrics_api: Option<LocalService>,
    /// The runtime of the parts.
    parts_on: Handle,
    /// The managers, in the order in which they were started.
    parts: Vec<Running>,
    /// Kept so that the API server can ask the nodes.
    node_apis: Vec<LocalService>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts a cluster in `world`; returns when every part of it is ready.
    ///
    /// # Errors
    /// If the address cannot be listened on, or a part fails to start. Nothing runs afterwards.
    pub async fn start(world: &World, options: ClusterOptions) -> Result<Self, StartError> {
        Cluster::start_with_progress(world, options, |_| {}).await
    }

    /// The same, and calls `report` for each component that becomes ready.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_with_progress(
        world: &World,
        options: ClusterOptions,
        mut report: impl FnMut(&Component),
    ) -> Result<Self, StartError> {
        let world = world.child("cluster");
        match Cluster::assemble(&world, options, &mut report).await {
            Ok(cluster) => Ok(cluster),
            Err(error) => {
                world.tasks().stop().await;
                Err(error)
            }
        }
    }

    async fn assemble(
        world: &World,
        options: ClusterOptions,
        report: &mut impl FnMut(&Component),
    ) -> Result<Self, StartError> {
        let is_used = options.store.is_some();
        let store = match options.store {
            Some(store) => store,
            None => Arc::new(Memory::in_world(world, Retention::default())),
        };
        let migrates = options.storage_version_migration;
        let chosen = options.controllers;
        let runs = |controller: &str| {
            let is_on = migrates || controller != storage_version_migration::NAME;
            is_on && chosen.includes(controller)
        };
        let server = ApiServer::start(Options {
            require_service_accounts: runs("serviceaccount-controller"),
            protect_storage: runs("persistentvolume-protection-controller")
                && runs("persistentvolumeclaim-protection-controller"),
            await_parts: true,
            serve_storage_migrations: migrates,
            audit: options.audit,
            ..Options::new(store.clone(), world.clone())
        })
        .await?;
        let mut root_ca = String::new();
        let mut serving = None;
        if let Some(address) = options.listen {
            let authority = Authority::kept_in(&*store, world.clock().wall()).await?;
            root_ca = authority.pem();
            let listening = server.serve(address, authority).await?;
            report(&Component {
                name: "API server".to_owned(),
                about: format!("https://{}", listening.address()),
            });
            serving = Some(listening);
        }
        let mut cluster = Cluster {
            world: world.clone(),
            server,
            store,
            serving,
            metrics_api: None,
            parts_on: options.parts_on.unwrap_or_else(Handle::current),
            parts: Vec::new(),
            node_apis: Vec::new(),
        };

        let metrics_api = match options.metrics_api {
            true => cluster.serve_metrics().await,
            false if is_used => metrics_api::withdraw(&cluster.client()).await,
            false => Ok(()),
        };
        metrics_api.map_err(|cause| StartError::MetricsApi(Box::new(cause)))?;

        let signer = cluster.server.token_signer();
        let settings = Settings {
            root_ca,
            token_signer: TokenSigner::new(move |claims| signer.sign(claims)),
            certificate_signer: cluster.certificate_signer(),
        };
        // All are started before the first is waited for: none needs another to become ready.
        let mut started = Vec::new();
        let workloads = sendo_workloads::manager(&settings, runs);
        let names: Vec<_> = workloads.declarations().map(|d| d.name.clone()).collect();
        let is_simulated = matches!(options.runtime, Runtime::Simulated(_));
        if is_simulated && chosen.includes("persistentvolume-binder-controller") {
            let created = cluster.create_default_class().await;
            created.map_err(|cause| StartError::DefaultClass(Box::new(cause)))?;
        }
        if !names.is_empty() {
            let granted = identities::grant(&cluster.client(), &names).await;
            granted.map_err(|cause| StartError::Roles(Box::new(cause)))?;
            let server = cluster.server.clone();
            let config = Config {
                client_of: Some(Arc::new(move |name| identities::client_for(&server, name))),
                ..cluster.config(identities::controller_manager(), "kube-controller-manager")
            };
            let component = Component {
                name: "controllers".to_owned(),
                about: names.join(", "),
            };
            started.push(cluster.start_part(component, workloads, config)?);
        }
        if chosen.includes(controllers::SCHEDULER) {
            let config = cluster.config(identities::scheduler(), "kube-scheduler");
            let component = Component {
                name: "scheduler".to_owned(),
                about: sendo_scheduler::NAME.to_owned(),
            };
            let scheduler = sendo_scheduler::manager();
            started.push(cluster.start_part(component, scheduler, config)?);
        }
        for number in 0..options.nodes {
            let runtime = of_node(&options.runtime, number);
            let node = NodeOptions::new(number).with_runtime(runtime);
            let config = cluster.config(identities::node(&node.name), "kubelet");
            let (agent, api) = sendo_node::agent(&node);
            if let Some(api) = api {
                let clock = cluster.world.clock().clone();
                let serving = node_api::serve(&cluster.server, &node.name, api, clock);
                cluster.node_apis.push(serving);
            }
            let component = Component {
                about: node.to_string(),
                name: node.name,
            };
            started.push(cluster.start_part(component, agent, config)?);
        }
        for (component, part) in started {
            cluster.await_ready(&component, &part).await?;
            cluster.parts.push(part);
            report(&component);
        }
        cluster.server.all_up();
        Ok(cluster)
    }

    /// Signs with the cluster's authority, which is made when it is needed first.
    fn certificate_signer(&self) -> CertificateSigner {
        let (store, world) = (self.store.clone(), self.world.clone());
        CertificateSigner::new(move |requested| {
            let (store, world) = (store.clone(), world.clone());
            async move {
                let now = world.clock().wall();
                let authority = Authority::kept_in(&*store, now).await;
                let authority = authority.map_err(|error| error.to_string())?;
                let terms = SigningTerms {
                    usages: &requested.usages,
                    lifetime: requested.lifetime,
                    serial: world.random().u64(),
                    now,
                };
                let signed = authority.sign_request(&requested.request, &terms);
                signed.map_err(|error| error.to_string())
            }
        })
    }

    async fn serve_metrics(&mut self) -> kube::Result<()> {
        let administrator = self.client();
        let served = metrics_api::serve(&self.server, &administrator, &self.world);
        self.metrics_api = Some(served.await?);
        Ok(())
    }

    /// Creates the storage class of a new cluster, whose volumes the simulated nodes have. One that
    /// exists stays as it is.
    async fn create_default_class(&self) -> kube::Result<()> {
        let classes: Api<StorageClass> = Api::all(self.client());
        let class = sendo_workloads::volume_binder::default_class();
        match classes.create(&PostParams::default(), &class).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            created => created.map(drop),
        }
    }

    /// The configuration of a part that runs as this user, with this field manager.
    fn config(&self, user: User, field_manager: &str) -> Config {
        let _on = self.parts_on.enter();
        let client = kube::Client::new(self.server.as_user(user), "default");
        Config {
            field_manager: Some(field_manager.to_owned()),
            ..Config::new(client, self.world.clone())
        }
    }

    /// Starts a part without waiting until it is ready.
    fn start_part(
        &self,
        component: Component,
        manager: Manager,
        config: Config,
    ) -> Result<(Component, Running), StartError> {
        let _on = self.parts_on.enter();
        match manager.start(config) {
            Ok(part) => Ok((component, part)),
            Err(cause) => Err(StartError::for_component(&component, cause)),
        }
    }

    async fn await_ready(&self, component: &Component, part: &Running) -> Result<(), StartError> {
        let clock = self.world.clock();
        if clock.timeout(READY_TIMEOUT, part.ready()).await.is_some() {
            return Ok(());
        }
        let waits: Vec<_> = part.waits_for();
        let cause = format!(
            "still waiting after {READY_TIMEOUT:?} for {}",
            waits.join(", ")
        );
        Err(StartError::for_component(
            component,
            sendo::Error::message(cause),
        ))
    }

    /// The world in which the cluster runs.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// A client that calls the API server as its administrator, in this process.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.server.client_service(), "default")
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// How the API server calls the webhooks of programs in this process, without a socket: for
    /// [`Serving::in_process`](sendo::webhook::Serving::in_process).
    pub fn webhooks_in_process(&self) -> InProcess {
        let services = self.server.local_services().clone();
        let tasks = self.world.tasks().child("webhooks");
        InProcess::new(move |host, port, webhooks| {
            let tasks = tasks.clone();
            let call = move |request| {
                let (webhooks, tasks) = (webhooks.clone(), tasks.clone());
                let given_up = tasks.stopping().child_token();
                async move {
                    let _dropped_with_the_call = given_up.clone().drop_guard();
                    // A task of its own: a webhook that makes what it is itself called for would
                    // else be polled within itself, until the stack is full.
                    let call = async move {
                        let call = webhooks.call(request);
                        given_up.run_until_cancelled(call).await
                    };
                    match tasks.spawn("call", call).output().await.flatten() {
                        Some(response) => response,
                        // The cluster stops, and nobody waits for it much longer.
                        None => std::future::pending().await,
                    }
                }
            };
            Box::new(services.register(host, port, call))
        })
    }

    /// The store of the API server.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The kubeconfig of the administrator; `None` if the server does not listen.
    pub fn kubeconfig(&self) -> Option<String> {
        self.serving.as_ref().map(Serving::kubeconfig)
    }

    /// Stops the parts that write (nodes, scheduler, controllers), then the server.
    pub async fn stop(self) {
        for part in self.parts.into_iter().rev() {
            if let Err(error) = part.stop().await {
                tracing::warn!(%error, "a part of the cluster had failed");
            }
        }
        self.server.shutdown().await;
        self.world.tasks().stop().await;
    }
}
