//! The store in this process's memory.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use sendo_world::{Clock, World};

use crate::live::{Live, LiveStore, Notifier, SLICE};
use crate::{Error, Retention, Revision, Transaction};

/// A [`Store`](crate::Store) in this process's memory.
///
/// Reads work on snapshots and block nobody. Watches of one range share
/// one queue, and a commit touches only the queues of ranges that contain its
/// keys. Dropping the store ends its watches once they have read what was
/// committed.
pub struct Memory {
    live: Arc<Live>,
    retention: Retention,
    clock: Clock,
}

impl Memory {
    /// An empty store. `clock` measures the age of changes.
    pub fn new(clock: Clock, retention: Retention) -> Self {
        Memory {
            live: Arc::default(),
            retention,
            clock,
        }
    }

    /// An empty store whose watchers are woken by a task of `world`, so that a commit returns before
    /// its watchers run. After `world` has stopped, commits wake them themselves.
    pub fn in_world(world: &World, retention: Retention) -> Self {
        Memory {
            live: Arc::new(Live::with_notifier(Notifier::on_tasks(world.tasks()))),
            retention,
            clock: world.clock().clone(),
        }
    }

    /// The oldest revision that can be read, or watched after.
    pub fn oldest(&self) -> Revision {
        self.live.oldest()
    }

    fn commit_now(&self, transaction: Transaction) -> Result<Revision, Error> {
        let now = self.clock.now();
        let Some(revision) = self.live.commit(transaction, now)? else {
            return Ok(self.live.newest());
        };
        self.live
            .forget(|history| history.trim(&self.retention, now, SLICE));
        Ok(revision)
    }
}

impl LiveStore for Memory {
    fn live(&self) -> &Arc<Live> {
        &self.live
    }

    fn can_write(&self) -> Result<(), Error> {
        Ok(())
    }

    fn write(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async move { self.commit_now(transaction) })
    }

    fn forget(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.live.forget(|history| history.compact(through, SLICE));
            Ok(())
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.live.close();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("newest", &self.live.newest())
            .field("oldest", &self.live.oldest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
