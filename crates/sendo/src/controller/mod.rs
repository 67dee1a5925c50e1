//! A controller: what it watches, how events become keys, and what reconciles them.
//!
//! Declared with a builder, run by a [`Manager`](crate::Manager):
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use k8s_openapi::api::core::v1::Pod;
//! use sendo::{Action, Context, Controller, Result};
//!
//! async fn reconcile(set: Arc<ReplicaSet>, cx: Context) -> Result<Action> {
//!     let pods = cx.list::<Pod>().filter(|pod| pod.metadata.labels == set.metadata.labels);
//!     println!("{} has {} pods", cx.key(), pods.count());
//!     Ok(Action::done())
//! }
//!
//! let controller = Controller::new::<ReplicaSet>().owns::<Pod>().reconcile(reconcile);
//! assert_eq!(controller.name(), "replicaset");
//! ```

mod builder;
mod dynamic;
mod problem;
mod reconcile;
mod rights;
mod watch;
mod workbench;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sendo_world::World;

use crate::cache::{Cache, Namespaces};
use crate::client::Client;
use crate::election::Gate;
use crate::metrics::{OwnMetric, Registry};
use crate::object::Kind;
use crate::queue::Limiter;
use crate::reader::DeclaredRead;
use crate::transport::GuardedKube;

pub use builder::{ForKeys, ForObjects, Key};
pub use dynamic::{WatchId, Watches};
pub use reconcile::{Reconcile, ReconcileKey};
pub(crate) use rights::{ControllerRights, EventsOf};

pub use crate::action::Action;

/// A declared controller. Nothing happens until a manager runs it.
pub struct Controller {
    pub(crate) declaration: Declaration,
    pub(crate) problems: Vec<problem::Problem>,
    /// The [`Watches`] it was given, by their numbers.
    pub(crate) handles: Vec<usize>,
    /// The metrics of its own.
    pub(crate) metrics: Vec<OwnMetric>,
    /// The component that its events name.
    pub(crate) component: String,
    pub(crate) rights: ControllerRights,
    pub(crate) prepare: Box<dyn FnOnce(Surroundings) -> Prepared + Send>,
}

/// What is known of a controller before it runs.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name, in logs, metrics, events and as field manager. One of a kind in its manager.
    pub name: String,
    /// The kinds it watches or reads.
    pub kinds: Vec<Kind>,
    /// All its sources, by name.
    pub sources: Vec<String>,
    /// How many keys it reconciles at once.
    pub workers: usize,
    /// Whether it works on every replica or on the leader only.
    pub elected: Elected,
    /// How long one reconcile may take.
    pub timeout: Option<Duration>,
}

/// Where a controller or a runnable works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elected {
    /// Only on the leader. Without election every replica is the leader.
    #[default]
    OnLeader,
    /// On every replica.
    Everywhere,
    /// On one replica at a time, which is elected for this part alone: the work
    /// of a program is then spread over its replicas. Its lease is called
    /// `<program>-<part>`.
    Alone,
}

impl Controller {
    /// A controller of objects of kind `K`, reconciled by key.
    // The builder's last step, `reconcile`, makes the controller.
    #[allow(clippy::new_ret_no_self)]
    pub fn new<K: crate::Typed>() -> ForObjects<K> {
        ForObjects::new()
    }

    /// A controller with keys of its own, for what is not one object of one kind.
    ///
    /// Its handlers make the keys; its `gone` is called for keys whose objects are gone.
    pub fn keyed<Q: Key>(name: &str) -> ForKeys<Q> {
        ForKeys::new(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// What is known of it before it runs.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller")
            .field(&self.declaration)
            .finish()
    }
}

/// What a manager gives a controller to run with.
pub(crate) struct Surroundings {
    pub(crate) cache: Cache,
    pub(crate) client: Client,
    pub(crate) kube: GuardedKube,
    pub(crate) metrics: Registry,
    pub(crate) recorder: crate::events::Recorder,
    /// The world of this controller alone.
    pub(crate) world: World,
    /// The namespaces the program is confined to.
    pub(crate) namespaces: Namespaces,
    /// Other numbers of workers than declared, by controller.
    pub(crate) workers: BTreeMap<String, usize>,
    /// Whether this process may act as the leader.
    pub(crate) leads: Gate,
}

/// A controller whose sources are open and fill its queue, and whose workers wait for their start.
pub(crate) struct Prepared {
    /// Done when every source has delivered what was there.
    pub(crate) ready: BoxFuture<'static, ()>,
    /// Starts the workers; done when the queue is shut down and all have ended.
    pub(crate) work: BoxFuture<'static, ()>,
    /// Says if a reconcile runs on long after its time-out, or blocks its thread.
    pub(crate) stuck: Stuck,
    /// Names the keys that are being reconciled.
    pub(crate) busy: BusyKeys,
}

/// Names the keys that a controller is reconciling.
pub(crate) type BusyKeys = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// What is wrong with the workers of a controller, if anything is.
pub(crate) type Stuck = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Settings common to both builders.
pub(crate) struct Settings<Q> {
    pub(crate) workers: usize,
    pub(crate) limiter: Box<dyn Limiter>,
    pub(crate) fairness: Option<NonZeroU32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) elected: Elected,
    pub(crate) reads: Vec<DeclaredRead>,
    pub(crate) dynamic: Vec<Watches<Q>>,
    pub(crate) announce: Vec<Announce<Q>>,
}

/// Called with each key that was reconciled.
pub(crate) type Announce<Q> = Box<dyn Fn(&Q) + Send + Sync>;
