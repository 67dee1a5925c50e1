//! A controller for something outside the cluster: the buckets of object stores.
//!
//! A [`StorageBucket`](api::StorageBucket) names a bucket of an S3-compatible
//! store. Nothing in Kubernetes happens when such a bucket vanishes or its store
//! goes down, so the controller is started by time itself:
//!
//! ```text
//! ticker ──Tick──▶ channel ──▶ map: which buckets are due? ──keys──▶ queue
//!                                                                      │
//!        status, Event on a turn ◀── ask the store ◀── reconcile ◀─────┘
//! ```
//!
//! Read on in [`manager`]'s source, `controller.rs`: it is all there.

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

/// Choices for the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The way to the object stores.
    pub http: Http,
    /// How often to look for buckets that are due. 5 s unless told, which is
    /// the shortest interval that a bucket may ask for.
    pub tick_every: Duration,
    /// How long a store may take to answer. 5 s unless told.
    pub timeout: Duration,
    /// How many buckets are checked at once. 16 unless told.
    pub checks_at_once: usize,
    /// How many of them may be of one endpoint. 4 unless told.
    pub checks_per_endpoint: usize,
}

impl Options {
    /// The defaults, with this way to the object stores.
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

/// The program: a ticker on the leader, and the controller that its ticks start.
pub fn manager(options: Options) -> Manager {
    controller::manager(options)
}
