//! A handle to a manager at work.

use std::sync::Arc;

use parking_lot::Mutex;
use sendo_world::{Stop, Task};
use tokio::sync::watch;

use super::stop::Parts;
use crate::cache::Cache;
use crate::election::Election;
use crate::error::{Error, Result};
use crate::health::Probes;
use crate::metrics::Registry;

/// A manager at work.
#[derive(Debug)]
pub struct Running {
    pub(super) stop: Stop,
    pub(super) cache: Cache,
    pub(super) metrics: Registry,
    pub(super) probes: Probes,
    #[cfg_attr(not(feature = "args"), expect(dead_code, reason = "see `edge`"))]
    pub(super) parts: Parts,
    #[cfg_attr(not(feature = "args"), expect(dead_code, reason = "see `edge`"))]
    pub(super) elections: Arc<Mutex<Vec<Election>>>,
    pub(super) ready: watch::Receiver<bool>,
    pub(super) life: Task<Result<()>>,
}

impl Running {
    /// Cancel it to stop the manager in order.
    pub fn stopping(&self) -> &Stop {
        &self.stop
    }

    /// The cache, with the state of every watch.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The metrics.
    pub fn metrics(&self) -> &Registry {
        &self.metrics
    }

    /// The checks behind the probes, served or not.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Waits until everything that can work on this replica does: all sources
    /// have delivered what was there, and the runnables have started. A replica
    /// that does not lead is ready when it could. Returns too if the manager ends.
    pub async fn ready(&self) {
        let mut ready = self.ready.clone();
        // The sender goes with the manager: there is nothing more to wait for then.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The watches that have not delivered what was there, each with what it last failed for.
    pub fn waits_for(&self) -> Vec<String> {
        let states = self.cache.states().into_iter();
        let unsynced = states.filter(|state| !state.synced);
        unsynced.map(|state| state.to_string()).collect()
    }

    /// Says whether leadership has run out while nothing here has noticed it.
    #[cfg(feature = "args")]
    pub(crate) fn overdue(&self) -> Box<dyn Fn() -> bool + Send> {
        let elections = self.elections.clone();
        Box::new(move || {
            let elections = elections.lock();
            elections.iter().any(Election::is_overdue)
        })
    }

    /// Names the parts that have not ended.
    #[cfg(feature = "args")]
    pub(crate) fn unfinished(&self) -> Box<dyn Fn() -> Vec<String> + Send> {
        let parts = self.parts.clone();
        Box::new(move || parts.running())
    }

    /// Waits for the end: `Ok` after a stop in time, else what ended it, or the
    /// parts that [did not stop](super::DidNotStop).
    pub async fn ended(self) -> Result<()> {
        let panicked = || Err(Error::message("the manager's own task panicked"));
        self.life.output().await.unwrap_or_else(panicked)
    }

    /// Stops in order and waits for the end.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.ended().await
    }
}
