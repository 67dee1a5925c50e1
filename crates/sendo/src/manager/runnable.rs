//! Any piece of work with the manager's lifetime.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sendo_world::{Clock, Interval, Random, Stop, Timestamp, World};

use crate::cache::Listing;
use crate::client::Client;
use crate::controller::Elected;
use crate::election::Gate;
use crate::error::Result;
use crate::object::{ObjectKey, Typed};
use crate::reader::Reader;
use crate::transport::GuardedKube;

/// A named piece of work that starts with the manager and ends with it.
///
/// One that returns `Ok` early is fine; one that returns an error, or panics, stops the manager.
/// It is asked to end by [`RunContext::stopping`], and dropped where it waits for
/// something if it has not by the manager's deadline; the leader's work also, and
/// at once, when leadership is lost.
pub struct Runnable {
    pub(crate) name: String,
    pub(crate) elected: Elected,
    pub(crate) run: Box<dyn FnOnce(RunContext) -> BoxFuture<'static, Result<()>> + Send>,
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable")
            .field("name", &self.name)
            .field("elected", &self.elected)
            .finish_non_exhaustive()
    }
}

/// Work for the leader only. Without election every replica is the leader.
pub fn on_leader<F>(name: &str, run: impl FnOnce(RunContext) -> F + Send + 'static) -> Runnable
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    runnable(name, Elected::OnLeader, run)
}

/// Work for every replica.
pub fn everywhere<F>(name: &str, run: impl FnOnce(RunContext) -> F + Send + 'static) -> Runnable
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    runnable(name, Elected::Everywhere, run)
}

/// Work for one replica at a time, elected for it alone; see [`Elected::Alone`].
pub fn elected_alone<F>(name: &str, run: impl FnOnce(RunContext) -> F + Send + 'static) -> Runnable
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    runnable(name, Elected::Alone, run)
}

fn runnable<F>(
    name: &str,
    elected: Elected,
    run: impl FnOnce(RunContext) -> F + Send + 'static,
) -> Runnable
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Runnable {
        name: name.to_owned(),
        elected,
        run: Box::new(move |cx| Box::pin(run(cx))),
    }
}

/// What a runnable has at hand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunContext {
    pub(crate) reader: Reader,
    pub(crate) client: Client,
    pub(crate) kube: GuardedKube,
    pub(crate) leads: Gate,
    pub(crate) world: World,
}

impl RunContext {
    /// Cancelled when the runnable is to end.
    pub fn stopping(&self) -> &Stop {
        self.world.tasks().stopping()
    }

    /// Whether this process may act as the leader now; see
    /// [`Context::leading`](crate::Context::leading).
    pub fn leading(&self) -> bool {
        self.leads.check().is_ok()
    }

    /// Waits for `step`, and says whether to go on: `false` means that the
    /// runnable is to end, and `step` was dropped.
    pub async fn still_running<T>(&self, step: impl Future<Output = T>) -> bool {
        self.stopping().run_until_cancelled(step).await.is_some()
    }

    /// A steady beat; the first tick comes at once.
    pub fn interval(&self, every: Duration) -> Interval {
        self.clock().interval(every)
    }

    /// The object under `key`, if the cache has it. The manager declares the kind with
    /// [`Manager::reads`](crate::Manager::reads).
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<Arc<K>> {
        self.reader.get(key)
    }

    /// The cached objects of a kind that the manager declares with
    /// [`Manager::reads`](crate::Manager::reads).
    pub fn list<K: Typed>(&self) -> Listing<'static, K> {
        self.reader.list()
    }

    /// The client: writes, and reads of the API server itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client of the `kube` crate; see [`Context::kube`](crate::Context::kube).
    pub fn kube(&self) -> kube::Client {
        self.kube.client()
    }

    /// The wall time.
    pub fn now(&self) -> Timestamp {
        self.clock().wall()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        self.world.clock()
    }

    /// Randomness of this runnable.
    pub fn random(&self) -> &Random {
        self.world.random()
    }

    /// The world of this runnable, whose tasks end with it.
    pub fn world(&self) -> &World {
        &self.world
    }
}
