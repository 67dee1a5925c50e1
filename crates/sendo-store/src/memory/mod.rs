//! A store in this process's memory.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use sendo_world::Clock;

use crate::live::{Live, SLICE};
use crate::{At, Error, KeyRange, Lookup, Page, Retention, Revision, Store, Transaction, Watch};

/// A [`Store`] in this process's memory; gone with it.
///
/// Reads work on snapshots and keep nobody waiting. Watches of one range share
/// one queue, and a commit touches only the queues of ranges that contain its
/// keys. Dropping the store ends its watches once they have read what was
/// committed.
pub struct Memory {
    live: Arc<Live>,
    retention: Retention,
    clock: Clock,
}

impl Memory {
    /// An empty store. `clock` tells the age of changes.
    pub fn new(clock: Clock, retention: Retention) -> Self {
        Memory {
            live: Arc::default(),
            retention,
            clock,
        }
    }

    /// The oldest revision that can be read, or watched after.
    pub fn oldest(&self) -> Revision {
        self.live.oldest()
    }

    fn commit_now(&self, transaction: Transaction) -> Result<Revision, Error> {
        let now = self.clock.now();
        let Some(batch) = self.live.commit(transaction, now)? else {
            return Ok(self.live.newest());
        };
        self.live
            .forget(|history| history.trim(&self.retention, now, SLICE));
        Ok(batch.revision)
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<Lookup, Error>> {
        Box::pin(async move { self.live.snapshot().get(key, at) })
    }

    fn range(
        &self,
        range: KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move { self.live.snapshot().range(&range, at, limit) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async move { self.commit_now(transaction) })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        self.live.watch(range, after)
    }

    fn revision(&self) -> Revision {
        self.live.newest()
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.live.snapshot().check_happened(through)?;
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
