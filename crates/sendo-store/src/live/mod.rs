//! The newest state with the changes that led to it, and its watchers.
//!
//! Every back end that keeps its state in this process is built on it: [`history`] is
//! the data, [`queues`] passes changes to watchers, and [`Live`] puts a lock around
//! both. The lock is held only to look up a key, or to read or replace the roots of
//! persistent maps: a long read works on its own snapshot and blocks nobody.

mod history;
mod index;
mod notifier;
mod queues;
mod store;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use sendo_world::Moment;

use crate::{At, Batch, Error, KeyRange, Lookup, Revision, Transaction, Watch, WatchSource};
pub(crate) use history::History;
pub(crate) use notifier::Notifier;
use queues::{Queues, WatcherId};
pub(crate) use store::LiveStore;

/// How many transactions are forgotten while a lock is held once.
pub(crate) const SLICE: usize = 1024;

/// For how many transactions the [`Memo`](crate::Memo) of a change is kept.
const FRESH: u64 = 1000;

/// The state of a store, and its watchers.
#[derive(Default)]
pub(crate) struct Live {
    state: Mutex<State>,
    /// Wakes the watchers from a task. Without one, the caller that changes the state wakes them.
    notifier: Option<Arc<Notifier>>,
}

#[derive(Default)]
struct State {
    history: History,
    queues: Queues,
    closed: bool,
}

impl Live {
    /// A state with this history.
    pub(crate) fn new(history: History) -> Self {
        let state = State {
            history,
            ..State::default()
        };
        Live {
            state: Mutex::new(state),
            notifier: None,
        }
    }

    /// An empty state whose watchers are woken by a notifier.
    pub(crate) fn with_notifier(notifier: Arc<Notifier>) -> Self {
        Live {
            notifier: Some(notifier),
            ..Live::default()
        }
    }

    /// The state now; everything read from it is consistent. Costs the same at any size.
    pub(crate) fn snapshot(&self) -> History {
        self.lock().history.clone()
    }

    /// The entry of a key. The latest one is read without the cost of a snapshot.
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

    /// Makes the writes of a transaction and notifies watchers. Gives the newest
    /// revision; `None` if the writes change nothing.
    pub(crate) fn commit(
        &self,
        transaction: Transaction,
        now: Moment,
    ) -> Result<Option<Revision>, Error> {
        let mut state = self.lock();
        let State {
            history, queues, ..
        } = &mut *state;
        let batches = history.commit(transaction, now)?;
        let Some(last) = batches.last() else {
            return Ok(None);
        };
        let revision = last.revision;
        let waiting: Vec<_> = batches.iter().flat_map(|b| queues.publish(b)).collect();
        let stale = batches
            .iter()
            .filter_map(|b| history.earlier(b.revision, FRESH));
        let stale: Vec<Batch> = stale.collect();
        drop(state);

        // Wakers, and the destructors of memos, run code of callers: never under the lock.
        self.wake(waiting);
        forget_derived(stale);
        Ok(Some(revision))
    }

    fn wake(&self, watchers: Vec<Waker>) {
        match &self.notifier {
            _ if watchers.is_empty() => {}
            Some(notifier) => notifier.wake(watchers),
            None => watchers.into_iter().for_each(Waker::wake),
        }
    }

    /// Forgets what `slice` removes from the history, until that is less than a [`SLICE`].
    pub(crate) fn forget(&self, mut slice: impl FnMut(&mut History) -> Vec<Batch>) {
        loop {
            let forgotten = {
                let mut state = self.lock();
                let forgotten = slice(&mut state.history);
                state.queues.forget(&forgotten);
                forgotten
            };
            if forgotten.len() < SLICE {
                return;
            }
        }
    }

    /// Replaces the history by one with `batches` more and `forgotten` less.
    pub(crate) fn advance(&self, history: History, batches: &[Batch], forgotten: &[Batch]) {
        let mut state = self.lock();
        let replaced = std::mem::replace(&mut state.history, history);
        let queues = &mut state.queues;
        let waiting: Vec<_> = batches.iter().flat_map(|b| queues.publish(b)).collect();
        queues.forget(forgotten);
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
        let State {
            history, queues, ..
        } = &mut *state;
        history.check_kept(after)?;
        let watcher = queues.open(range, after, history);
        Ok(Watch::new(LiveWatch {
            live: Arc::clone(self),
            watcher,
            seen: after,
        }))
    }

    /// Ends the watches after they have read all changes.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = state.queues.take_waiting();
        drop(state);
        self.wake(waiting);
        if let Some(notifier) = &self.notifier {
            notifier.close();
        }
    }

    /// How many ranges are watched.
    #[cfg(test)]
    pub(crate) fn queues(&self) -> usize {
        self.lock().queues.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A watcher's position in the queue of its range.
struct LiveWatch {
    live: Arc<Live>,
    watcher: WatcherId,
    /// The watch has returned everything up to this revision.
    seen: Revision,
}

/// Empties the memos of changes that nearly all watchers have seen.
fn forget_derived(stale: impl IntoIterator<Item = Batch>) {
    for batch in stale {
        batch.changes.iter().for_each(|change| change.memo.forget());
    }
}

impl WatchSource for LiveWatch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, Error>>> {
        let mut state = self.live.lock();
        let (oldest, closed) = (state.history.oldest(), state.closed);
        let queue = state.queues.queue(self.watcher);
        if queue.has_lost_after(self.seen) {
            return Poll::Ready(Some(Err(Error::Compacted {
                requested: self.seen,
                oldest,
            })));
        }
        if let Some(batch) = queue.next_after(self.seen) {
            self.seen = batch.revision;
            return Poll::Ready(Some(Ok(batch)));
        }
        if closed {
            return Poll::Ready(None);
        }
        let replaced = queue.wait(self.watcher, cx.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    fn progress(&self) -> Revision {
        let mut state = self.live.lock();
        let newest = state.history.newest();
        let queue = state.queues.queue(self.watcher);
        if queue.has_lost_after(self.seen) {
            return self.seen;
        }
        match queue.next_after(self.seen) {
            Some(unread) => Revision(unread.revision.0 - 1),
            None => newest.max(self.seen),
        }
    }
}

impl Drop for LiveWatch {
    fn drop(&mut self) {
        let left = self.live.lock().queues.close(self.watcher);
        drop(left);
    }
}
