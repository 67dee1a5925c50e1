//! Where and how a declared program runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sendo_world::World;

use crate::cache::Namespaces;
use crate::client::Rate;
use crate::election::ElectionOptions;
use crate::events::EventsApi;
use crate::webhook::Serving;

/// The connection of the controller of a name; see [`client_of`](field@Config::client_of).
pub type ClientOf = Arc<dyn Fn(&str) -> Option<kube::Client> + Send + Sync>;

/// Where and how a [`Manager`](crate::Manager) runs.
#[derive(Clone)]
pub struct Config {
    /// The connection to the API server. One that is made by hand is best made by
    /// [`connect`](crate::client::connect): `kube`'s own sends writes more than once.
    pub client: kube::Client,
    /// By which connection a controller writes, and its events are written,
    /// given its name: for programs whose controllers are users of their own.
    /// `None`, the default, and where it gives none: by [`Config::client`], by
    /// which the cache reads in any case.
    pub client_of: Option<ClientOf>,
    /// The world to live in.
    pub world: World,
    /// The namespaces to watch; all of them by default.
    pub namespaces: Namespaces,
    /// What the API server is called in metrics; `kubernetes` by default.
    pub host: String,
    /// How many requests the program may send; as many as it likes by default.
    pub rate: Option<Rate>,
    /// How often every cached object is reconciled again without any event;
    /// never by default. See [`CacheOptions::resync`](crate::cache::CacheOptions::resync).
    /// Predicates on what has changed let it pass, but for
    /// [`version_changed`](crate::predicate::version_changed) and those of one's own.
    pub resync: Option<Duration>,
    /// Whether the kinds that the program [defines](crate::Manager::defines) are
    /// installed or brought up to date when it starts. Not by default: it takes
    /// permissions that a controller should not have in production.
    pub install_kinds: bool,
    /// Other numbers of workers than declared, by the name of the controller.
    pub workers: BTreeMap<String, usize>,
    /// Which API events are written to; `v1` by default.
    pub events: EventsApi,
    /// The field manager of all writes, as in `managedFields`. `None`, the default: each controller
    /// is a field manager of its own, with its name.
    pub field_manager: Option<String>,
    /// How to elect a leader. `None`, the default: no election, this replica leads.
    pub election: Option<ElectionOptions>,
    /// Where metrics are served, at `/metrics`: `host:port`, or `:port` for all
    /// interfaces. `None`, the default: nowhere.
    pub metrics_address: Option<String>,
    /// Whether metrics are served through TLS, and only to who may `get /metrics`;
    /// not by default. See [`Security`](crate::metrics_server::Security).
    pub metrics_secure: bool,
    /// The folder of the certificate for that, with `tls.crt` and `tls.key`, which
    /// are read again when they change; by default one is made that is signed by itself.
    pub metrics_certificates: Option<PathBuf>,
    /// Where probes are served, at `/healthz` and `/readyz`, written the same
    /// way. `None`, the default: nowhere.
    pub health_address: Option<String>,
    /// How the program's webhooks are served, and found by the API server.
    pub webhooks: Serving,
    /// How long reconciles and runnables have to end after a stop before they
    /// are cut off, and the program fails with
    /// [`DidNotStop`](crate::manager::DidNotStop); 30 s by default.
    pub shutdown_timeout: Duration,
}

impl Config {
    /// The defaults: all namespaces, no election, no servers.
    pub fn new(client: kube::Client, world: World) -> Self {
        Config {
            client,
            client_of: None,
            world,
            namespaces: Namespaces::default(),
            host: "kubernetes".to_owned(),
            rate: None,
            resync: None,
            install_kinds: false,
            workers: BTreeMap::new(),
            events: EventsApi::default(),
            field_manager: None,
            election: None,
            metrics_address: None,
            metrics_secure: false,
            metrics_certificates: None,
            health_address: None,
            webhooks: Serving::default(),
            shutdown_timeout: Duration::from_secs(30),
        }
    }

    /// The connection of the controller of that name.
    pub(crate) fn client_of(&self, controller: &str) -> kube::Client {
        let own = self.client_of.as_ref().and_then(|of| of(controller));
        own.unwrap_or_else(|| self.client.clone())
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("namespaces", &self.namespaces)
            .field("host", &self.host)
            .field("rate", &self.rate)
            .field("resync", &self.resync)
            .field("install_kinds", &self.install_kinds)
            .field("workers", &self.workers)
            .field("election", &self.election)
            .field("metrics_address", &self.metrics_address)
            .field("metrics_secure", &self.metrics_secure)
            .field("health_address", &self.health_address)
            .field("webhooks", &self.webhooks)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .finish_non_exhaustive()
    }
}
