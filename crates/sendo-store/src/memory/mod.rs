//! A store in this process's memory.
//!
//! [`history`] is the data: the newest state and the changes that led to it.
//! [`feeds`] is who hears of them. This module puts a lock around both.

mod feeds;
mod history;
mod index;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use sendo_world::Clock;

use crate::{
    At, Batch, Error, KeyRange, Lookup, Page, Revision, Store, Transaction, Watch, WatchSource,
};
use feeds::{Feeds, WatcherId};
use history::History;

/// How many transactions are forgotten while the lock is held once.
const SLICE: usize = 1024;

/// How much of the past a [`Memory`] keeps for readers and watchers.
///
/// What exceeds any of these is forgotten at the next commit, oldest first; the
/// newest transaction is always kept. A watch that has not read what is
/// forgotten ends, so these also bound how far a watch may fall behind.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// How many changes at most; 100,000 by default.
    pub keep_changes: usize,
    /// How many bytes of values at most that are no longer current; 256 MiB by default.
    pub keep_bytes: usize,
    /// How long; 5 minutes by default.
    pub keep_for: Duration,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions {
            keep_changes: 100_000,
            keep_bytes: 256 << 20,
            keep_for: Duration::from_secs(5 * 60),
        }
    }
}

/// A [`Store`] in this process's memory; gone with it.
///
/// A lock is held only to read or replace the root of a persistent map, so a
/// long read works on its own snapshot and keeps nobody waiting. Watches of one
/// range share one queue, and a commit touches only the queues of ranges that
/// contain its keys. Dropping the store ends its watches once they have read
/// what was committed.
pub struct Memory {
    shared: Arc<Shared>,
    options: MemoryOptions,
    clock: Clock,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    history: History,
    feeds: Feeds,
    closed: bool,
}

impl Memory {
    /// An empty store. `clock` tells the age of changes.
    pub fn new(clock: Clock, options: MemoryOptions) -> Self {
        Memory {
            shared: Arc::default(),
            options,
            clock,
        }
    }

    /// The oldest revision that can be read, or watched after.
    pub fn oldest(&self) -> Revision {
        self.shared.lock().history.oldest()
    }

    /// The state now; everything read from it is consistent. Costs the same at any size.
    fn snapshot(&self) -> History {
        self.shared.lock().history.clone()
    }

    fn commit_now(&self, transaction: Transaction) -> Result<Revision, Error> {
        let mut state = self.shared.lock();
        let now = self.clock.now();
        let Some(batch) = state.history.commit(transaction, now)? else {
            return Ok(state.history.newest());
        };
        let waiting = state.feeds.publish(&batch);
        drop(state);

        // Wakers, and the memos in what is forgotten, run code that is not
        // ours: never under the lock.
        waiting.into_iter().for_each(Waker::wake);
        self.forget(|history| history.trim(&self.options, now, SLICE));
        Ok(batch.revision)
    }

    /// Forgets what `slice` takes off the history, until that is less than a [`SLICE`].
    fn forget(&self, mut slice: impl FnMut(&mut History) -> Vec<Batch>) {
        loop {
            let forgotten = {
                let mut state = self.shared.lock();
                let forgotten = slice(&mut state.history);
                state.feeds.forget(&forgotten);
                forgotten
            };
            if forgotten.len() < SLICE {
                return;
            }
        }
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<Lookup, Error>> {
        Box::pin(async move { self.snapshot().get(key, at) })
    }

    fn range(
        &self,
        range: KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move { self.snapshot().range(&range, at, limit) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async move { self.commit_now(transaction) })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        let mut state = self.shared.lock();
        let State { history, feeds, .. } = &mut *state;
        history.check_kept(after)?;
        let watcher = feeds.open(range, after, history);
        Ok(Watch::new(MemoryWatch {
            shared: Arc::clone(&self.shared),
            watcher,
            seen: after,
        }))
    }

    fn revision(&self) -> Revision {
        self.shared.lock().history.newest()
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.shared.lock().history.check_happened(through)?;
            self.forget(|history| history.compact(through, SLICE));
            Ok(())
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let waiting = state.feeds.take_waiting();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Memory")
            .field("newest", &state.history.newest())
            .field("oldest", &state.history.oldest())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher's place in the queue of its range.
struct MemoryWatch {
    shared: Arc<Shared>,
    watcher: WatcherId,
    /// Everything up to here has been handed out.
    seen: Revision,
}

impl WatchSource for MemoryWatch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, Error>>> {
        let mut state = self.shared.lock();
        let (oldest, closed) = (state.history.oldest(), state.closed);
        let feed = state.feeds.feed(self.watcher);
        if feed.has_lost_after(self.seen) {
            return Poll::Ready(Some(Err(Error::Compacted {
                asked: self.seen,
                oldest,
            })));
        }
        if let Some(batch) = feed.next_after(self.seen) {
            self.seen = batch.revision;
            return Poll::Ready(Some(Ok(batch)));
        }
        if closed {
            return Poll::Ready(None);
        }
        let replaced = feed.wait(self.watcher, cx.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    fn progress(&self) -> Revision {
        let mut state = self.shared.lock();
        let newest = state.history.newest();
        let feed = state.feeds.feed(self.watcher);
        if feed.has_lost_after(self.seen) {
            return self.seen;
        }
        match feed.next_after(self.seen) {
            Some(unread) => Revision(unread.revision.0 - 1),
            None => newest.max(self.seen),
        }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        let left = self.shared.lock().feeds.close(self.watcher);
        drop(left);
    }
}

#[cfg(test)]
mod tests;
