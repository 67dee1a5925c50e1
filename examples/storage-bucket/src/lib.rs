//! A controller for something outside the cluster: the buckets of object stores.
//!
//! A [`StorageBucket`](api::StorageBucket) names a bucket of an S3-compatible
//! store. Nothing in Kubernetes happens when such a bucket vanishes or its store
//! goes down, so a timer starts the checks:
//!
//! ```text
//! ticker ──Tick──▶ channel ──▶ map: which buckets are due? ──keys──▶ queue
//!                                                                      │
//!      status, Event on a change ◀── ask the store ◀── reconcile ◀─────┘
//! ```
//!
//! The source of [`manager`] is in `controller.rs`.

pub mod api;
mod controller;
mod credentials;
pub mod egress;
pub mod http;
mod lanes;
#[cfg(feature = "local-store")]
pub mod local_store;
pub mod manage;
mod metrics;
mod problem;
mod status;
pub mod store;

use std::time::Duration;

use http::Http;
use sendo::Manager;

/// Options of the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The client for object stores.
    pub http: Http,
    /// How often to look for buckets that are due. 5 s by default, which is
    /// the shortest interval that a bucket may have.
    pub tick_every: Duration,
    /// How long a store may take to respond. 5 s by default.
    pub timeout: Duration,
    /// How many buckets are checked at once. 16 by default.
    pub checks_at_once: usize,
    /// How many of them may be of one endpoint. 4 by default.
    pub checks_per_endpoint: usize,
}

impl Options {
    /// The defaults, with this client for object stores.
    pub fn new(http: Http) -> Self {
        Options {
            http,
            tick_every: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            checks_at_once: 16,
            checks_per_endpoint: 4,
        }
    }
}

/// A manager with a ticker on the leader, and the controller that its ticks start.
pub fn manager(options: Options) -> Manager {
    controller::manager(options)
}
