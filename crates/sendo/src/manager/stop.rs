//! How a manager stops.
//!
//! What writes first (controllers and runnables, within the deadline), then the
//! lease, the webhooks, the event recorder, the caches, and the other servers last. The end comes
//! whatever they do: what does not stop in its time is cut off, and what cannot
//! be cut off is named and left behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use sendo_world::Tasks;

use super::run::Life;
use super::webhooks::Served;
use crate::controller::BusyKeys;

/// How long the process takes to end at most, if every part needs all the time that it has: what a
/// pod must be given before it is killed. The steps are those of [`Life::wind_down`].
#[cfg(feature = "manifests")]
pub(crate) fn longest_stop(shutdown_timeout: Duration, lease_duration: Duration) -> Duration {
    let work = shutdown_timeout + LET_GO;
    let servers = SERVERS + EVENTS + SERVERS + SERVERS;
    work + lease_duration + servers + LET_GO
}

/// How long tasks that are cut off have to be gone. They are dropped where they
/// wait for something, so those that are not gone by then do not wait.
pub(crate) const LET_GO: Duration = Duration::from_secs(1);

/// How long the events that are still to be written may take, once nothing is
/// left to tell of.
const EVENTS: Duration = Duration::from_secs(10);

/// How long the caches and the servers have to end.
const SERVERS: Duration = Duration::from_secs(5);

/// Parts of a program did not stop in the time they had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DidNotStop {
    /// The time that they had; see [`Config::shutdown_timeout`](crate::Config::shutdown_timeout).
    pub limit: Duration,
    /// The parts that were cut off then, and have ended: controllers, with the keys
    /// that they were reconciling, and runnables.
    pub cut_off: Vec<String>,
    /// The parts that could not be cut off, since they never wait for anything:
    /// they go on until the process ends. If they were the leader's, its lease is
    /// not given back.
    pub goes_on: Vec<String>,
}

impl fmt::Display for DidNotStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DidNotStop { limit, .. } = self;
        write!(f, "did not stop within {limit:?}: ")?;
        f.write_str(&self.cut_off.join(", "))?;
        if self.goes_on.is_empty() {
            return Ok(());
        }
        if !self.cut_off.is_empty() {
            f.write_str("; ")?;
        }
        let parts = self.goes_on.join(", ");
        write!(
            f,
            "{parts} cannot be cut off either, as it never waits for anything"
        )
    }
}

impl std::error::Error for DidNotStop {}

/// A controller or a runnable, as far as its end goes.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) tasks: Tasks,
    pub(super) busy: Option<BusyKeys>,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.busy.as_ref().map_or_else(Vec::new, |busy| busy());
        match keys.is_empty() {
            true => write!(f, "`{}`", self.name),
            false => write!(f, "`{}` (reconciling {})", self.name, keys.join(", ")),
        }
    }
}

/// All parts of a program. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Parts(Arc<Mutex<Vec<Part>>>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").field(&self.running()).finish()
    }
}

impl Parts {
    pub(super) fn add(&self, part: &Part) {
        self.lock().push(part.clone());
    }

    /// Those that have not ended, by name and by what they are at.
    pub(super) fn running(&self) -> Vec<String> {
        let parts = self.lock().clone();
        let running = parts.iter().filter(|part| !part.tasks.running().is_empty());
        running.map(ToString::to_string).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.0.lock()
    }
}

impl Life {
    /// Asks everything to end, in order, cuts off what takes too long, and leaves
    /// behind what cannot be cut off.
    pub(super) async fn wind_down(&self, served: Option<Served>) -> Result<(), DidNotStop> {
        let stopped = self.stop_work().await;
        if let Err(late) = &stopped {
            tracing::error!("{late}");
        }
        let worlds = &self.worlds;
        let mut limit = LET_GO;
        if worlds.leader.tasks().running().is_empty() {
            self.release.cancel();
            // A write that was cut off may be on its way for as long as the lease is sure.
            let election = self.config.election.as_ref();
            limit = election.map_or(limit, |election| election.lease_duration);
        } else {
            // Another may lead when nothing is done here any more: nobody knows when.
            worlds.election.tasks().cut_off();
        }
        self.end(worlds.election.tasks(), limit).await;
        if let Some(served) = served {
            served.end(self.config.world.clock(), SERVERS).await;
        }
        for (world, limit) in [
            (&worlds.events, EVENTS),
            (&worlds.caches, SERVERS),
            (&worlds.servers, SERVERS),
        ] {
            world.tasks().stopping().cancel();
            self.end(world.tasks(), limit).await;
        }
        stopped
    }

    /// Ends the controllers and the runnables.
    async fn stop_work(&self) -> Result<(), DidNotStop> {
        let clock = self.config.world.clock();
        let writers = [&self.worlds.everywhere, &self.worlds.leader].map(|world| world.tasks());
        let limit = self.config.shutdown_timeout;
        let stopped = join_all(writers.map(Tasks::stop));
        let in_time = tokio::select! {
            biased;
            stopped = clock.timeout(limit, stopped) => stopped.is_some(),
            // The process must end now: there is no time for the others.
            () = self.goes_on.cancelled() => false,
        };
        if in_time {
            return Ok(());
        }
        let late = self.parts.running();
        for tasks in writers {
            tasks.cut_off();
        }
        let ended = join_all(writers.map(Tasks::ended));
        // What has not ended is listed.
        let _ = clock.timeout(LET_GO, ended).await;
        let goes_on = self.parts.running();
        // The key that a part was at is forgotten when it is dropped.
        let name = |part: &String| part.split(" (").next().map(str::to_owned);
        let remaining: Vec<_> = goes_on.iter().map(name).collect();
        let cut_off = late
            .into_iter()
            .filter(|part| !remaining.contains(&name(part)));
        Err(DidNotStop {
            limit,
            cut_off: cut_off.collect(),
            goes_on,
        })
    }

    /// Waits for tasks that were asked to end, and cuts them off after `limit`.
    async fn end(&self, tasks: &Tasks, limit: Duration) {
        let clock = self.config.world.clock();
        if clock.timeout(limit, tasks.ended()).await.is_none() {
            let late = tasks.running();
            tracing::warn!(?late, ?limit, "cut off: did not end in time");
            tasks.cut_off();
            // Nothing more can be done about what does not even end then.
            let _ = clock.timeout(LET_GO, tasks.ended()).await;
        }
    }
}
