//! Where and how a declared program runs.

use std::time::Duration;

use sendo_world::World;

use crate::cache::Namespaces;
use crate::election::ElectionOptions;

/// Where and how a [`Manager`](crate::Manager) runs.
#[derive(Clone)]
pub struct Config {
    /// The connection to the API server.
    pub client: kube::Client,
    /// The world to live in.
    pub world: World,
    /// The namespaces to watch; all of them by default.
    pub namespaces: Namespaces,
    /// Who all writes are booked under in `managedFields`. `None`, the default:
    /// each controller under its own name.
    pub field_manager: Option<String>,
    /// How to elect a leader. `None`, the default: no election, this replica leads.
    pub election: Option<ElectionOptions>,
    /// Where metrics are served, at `/metrics`: `host:port`, or `:port` for all
    /// interfaces. `None`, the default: nowhere.
    pub metrics_address: Option<String>,
    /// Where probes are served, at `/healthz` and `/readyz`, written the same
    /// way. `None`, the default: nowhere.
    pub health_address: Option<String>,
    /// How long reconciles and runnables have to end after a stop before they
    /// are cancelled; 30 s by default.
    pub shutdown_timeout: Duration,
}

impl Config {
    /// The defaults: all namespaces, no election, no servers.
    pub fn new(client: kube::Client, world: World) -> Self {
        Config {
            client,
            world,
            namespaces: Namespaces::default(),
            field_manager: None,
            election: None,
            metrics_address: None,
            health_address: None,
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("namespaces", &self.namespaces)
            .field("election", &self.election)
            .field("metrics_address", &self.metrics_address)
            .field("health_address", &self.health_address)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .finish_non_exhaustive()
    }
}
