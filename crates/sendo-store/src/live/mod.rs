//! The newest state with the changes that led to it, and those who watch it.
//!
//! What every back end that keeps its state in this process is made of:
//! [`history`] is the data, [`feeds`] is who hears of changes, and [`Live`] puts
//! a lock around both. The lock is held only to look up a key, or to read or replace the
//! roots of persistent maps, so a long read works on its own snapshot and keeps nobody waiting.

mod bell;
mod feeds;
mod history;
mod index;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sendo_world::Moment;

use crate::{At, Batch, Error, KeyRange, Lookup, Revision, Transaction, Watch, WatchSource};
pub(crate) use bell::Bell;
use feeds::{Feeds, WatcherId};
pub(crate) use history::History;
pub(crate) use store::OnLive;

/// How many transactions are forgotten while a lock is held once.
pub(crate) const SLICE: usize = 1024;

/// How many transactions a watcher may be behind and still find what others
/// derived from a change; see [`Memo`](crate::Memo).
const FRESH: u64 = 1000;

/// A state that changes, and its watchers.
#[derive(Default)]
pub(crate) struct Live {
    state: Mutex<State>,
    /// Who wakes the watchers; without one, whoever changes the state.
    bell: Option<Arc<Bell>>,
}

#[derive(Default)]
struct State {
    history: History,
    feeds: Feeds,
    closed: bool,
}

impl Live {
    /// One that begins with what is known already.
    pub(crate) fn new(history: History) -> Self {
        let state = State {
            history,
            ..State::default()
        };
        Live {
            state: Mutex::new(state),
            bell: None,
        }
    }

    /// An empty one whose watchers are woken by a bell.
    pub(crate) fn with_bell(bell: Arc<Bell>) -> Self {
        Live {
            bell: Some(bell),
            ..Live::default()
        }
    }

    /// The state now; everything read from it is consistent. Costs the same at any size.
    pub(crate) fn snapshot(&self) -> History {
        self.lock().history.clone()
    }

    /// What is under a key; now, without the cost of a snapshot.
    pub(crate) fn get(&self, key: &str, at: At) -> Result<Lookup, Error> {
        match at {
            At::Latest => Ok(self.lock().history.latest(key)),
            At::Revision(_) => self.snapshot().get(key, at),
        }
    }

    pub(crate) fn newest(&self) -> Revision {
        self.lock().history.newest()
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.lock().history.oldest()
    }

    /// Makes the writes of a transaction and tells who watches. Gives the newest
    /// revision; `None` if the writes change nothing.
    pub(crate) fn commit(
        &self,
        transaction: Transaction,
        now: Moment,
    ) -> Result<Option<Revision>, Error> {
        let mut state = self.lock();
        let State { history, feeds, .. } = &mut *state;
        let batches = history.commit(transaction, now)?;
        let Some(last) = batches.last() else {
            return Ok(None);
        };
        let revision = last.revision;
        let waiting: Vec<_> = batches.iter().flat_map(|b| feeds.publish(b)).collect();
        let stale = batches
            .iter()
            .filter_map(|b| history.earlier(b.revision, FRESH));
        let stale: Vec<Batch> = stale.collect();
        drop(state);

        // Wakers, and the memos in what is forgotten, run code that is not
        // ours: never under the lock.
        self.wake(waiting);
        forget_derived(stale);
        Ok(Some(revision))
    }

    fn wake(&self, watchers: Vec<Waker>) {
        match &self.bell {
            _ if watchers.is_empty() => {}
            Some(bell) => bell.wake(watchers),
            None => watchers.into_iter().for_each(Waker::wake),
        }
    }

    /// Forgets what `slice` takes off the history, until that is less than a [`SLICE`].
    pub(crate) fn forget(&self, mut slice: impl FnMut(&mut History) -> Vec<Batch>) {
        loop {
            let forgotten = {
                let mut state = self.lock();
                let forgotten = slice(&mut state.history);
                state.feeds.forget(&forgotten);
                forgotten
            };
            if forgotten.len() < SLICE {
                return;
            }
        }
    }

    /// Moves on to a history that has grown by `batches` and lost `forgotten`.
    pub(crate) fn advance(&self, history: History, batches: &[Batch], forgotten: &[Batch]) {
        let mut state = self.lock();
        let replaced = std::mem::replace(&mut state.history, history);
        let feeds = &mut state.feeds;
        let waiting: Vec<_> = batches.iter().flat_map(|b| feeds.publish(b)).collect();
        feeds.forget(forgotten);
        let stale = batches
            .iter()
            .filter_map(|b| state.history.earlier(b.revision, FRESH));
        let stale: Vec<Batch> = stale.collect();
        drop(state);
        drop(replaced);
        self.wake(waiting);
        forget_derived(stale);
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        range: KeyRange,
        after: Revision,
    ) -> Result<Watch, Error> {
        let mut state = self.lock();
        let State { history, feeds, .. } = &mut *state;
        history.check_kept(after)?;
        let watcher = feeds.open(range, after, history);
        Ok(Watch::new(LiveWatch {
            live: Arc::clone(self),
            watcher,
            seen: after,
        }))
    }

    /// Ends the watches, once they have read what there is.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = state.feeds.take_waiting();
        drop(state);
        self.wake(waiting);
        if let Some(bell) = &self.bell {
            bell.close();
        }
    }

    /// How many ranges are watched.
    #[cfg(test)]
    pub(crate) fn feeds(&self) -> usize {
        self.lock().feeds.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher's place in the queue of its range.
struct LiveWatch {
    live: Arc<Live>,
    watcher: WatcherId,
    /// Everything up to here has been handed out.
    seen: Revision,
}

/// Drops what watchers derived from changes, which they hardly need any more.
fn forget_derived(stale: impl IntoIterator<Item = Batch>) {
    for batch in stale {
        batch.changes.iter().for_each(|change| change.memo.forget());
    }
}

impl WatchSource for LiveWatch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, Error>>> {
        let mut state = self.live.lock();
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
        let mut state = self.live.lock();
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

impl Drop for LiveWatch {
    fn drop(&mut self) {
        let left = self.live.lock().feeds.close(self.watcher);
        drop(left);
    }
}
