//! The queues of watched changes: one for each watched range, shared by its watchers.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use super::history::History;
use super::index::{Index, QueueId};
use crate::{Batch, KeyRange, Revision};

/// The queues of all watched ranges.
///
/// Publishing a change, or forgetting it, takes time for the queues of its own ranges only.
#[derive(Default)]
pub(crate) struct Queues {
    queues: BTreeMap<QueueId, RangeQueue>,
    index: Index,
    opened: u64,
}

/// A watcher, and the queue that it reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatcherId {
    queue: QueueId,
    number: u64,
}

/// The changes in one range, in order. Each watcher keeps its own position.
pub(crate) struct RangeQueue {
    range: KeyRange,
    batches: VecDeque<Batch>,
    /// The queue has every change after this one, except those that were forgotten.
    start: Revision,
    /// The last change that was forgotten.
    lost: Revision,
    watchers: usize,
    waiting: BTreeMap<WatcherId, Waker>,
}

impl Queues {
    /// A new watcher of `range` after the revision `after`. The caller has checked that the changes
    /// after it are kept.
    pub(crate) fn open(
        &mut self,
        range: KeyRange,
        after: Revision,
        history: &History,
    ) -> WatcherId {
        self.opened += 1;
        let number = self.opened;
        let id = self.index.find(&range).unwrap_or_else(|| {
            self.index.insert(&range, number);
            let queue = RangeQueue::new(range, history.newest());
            self.queues.insert(number, queue);
            number
        });
        let watcher = WatcherId { queue: id, number };
        let queue = self.queue(watcher);
        queue.extend_back(after, history);
        queue.watchers += 1;
        watcher
    }

    /// Removes a watcher, and its queue if it was the last one. The caller drops what is returned
    /// when it holds no lock.
    pub(crate) fn close(&mut self, watcher: WatcherId) -> (Option<Waker>, Option<RangeQueue>) {
        let queue = self.queue(watcher);
        let waker = queue.waiting.remove(&watcher);
        queue.watchers -= 1;
        if queue.watchers > 0 {
            return (waker, None);
        }
        let queue = self.queues.remove(&watcher.queue);
        if let Some(queue) = &queue {
            self.index.remove(&queue.range);
        }
        (waker, queue)
    }

    /// The queue of an open watcher.
    pub(crate) fn queue(&mut self, watcher: WatcherId) -> &mut RangeQueue {
        let queue = self.queues.get_mut(&watcher.queue);
        queue.expect("a queue stays while it has watchers")
    }

    /// Appends a transaction to the queues of its ranges. Returns the wakers of the watchers that
    /// wait for it.
    pub(crate) fn publish(&mut self, batch: &Batch) -> Vec<Waker> {
        let mut woken = Vec::new();
        for id in self.index.all_with(batch) {
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            queue.batches.extend(batch.within(&queue.range));
            woken.extend(std::mem::take(&mut queue.waiting).into_values());
        }
        woken
    }

    /// Removes these transactions, which are the oldest ones, from the queues.
    pub(crate) fn forget(&mut self, batches: &[Batch]) {
        // Few transactions are looked up; for many it takes less time to visit every queue once.
        if batches.len() < self.queues.len() {
            for batch in batches {
                for id in self.index.all_with(batch) {
                    if let Some(queue) = self.queues.get_mut(&id) {
                        queue.forget(batch.revision);
                    }
                }
            }
        } else if let Some(last) = batches.last() {
            for queue in self.queues.values_mut() {
                queue.forget(last.revision);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Takes the wakers of all watchers that wait.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waker> {
        let queues = self.queues.values_mut();
        queues
            .flat_map(|queue| std::mem::take(&mut queue.waiting).into_values())
            .collect()
    }
}

impl RangeQueue {
    fn new(range: KeyRange, newest: Revision) -> Self {
        RangeQueue {
            range,
            batches: VecDeque::new(),
            start: newest,
            lost: Revision(0),
            watchers: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Prepends the transactions after `after` that the queue does not have, from `history`.
    fn extend_back(&mut self, after: Revision, history: &History) {
        if after >= self.start {
            return;
        }
        let missing = history.after(after);
        let missing: Vec<_> = missing
            .take_while(|batch| batch.revision <= self.start)
            .filter_map(|batch| batch.within(&self.range))
            .collect();
        for batch in missing.into_iter().rev() {
            self.batches.push_front(batch);
        }
        self.start = after;
    }

    fn forget(&mut self, through: Revision) {
        while let Some(first) = self.batches.front()
            && first.revision <= through
        {
            self.lost = first.revision;
            self.batches.pop_front();
        }
    }

    /// Whether a watcher that has read up to `seen` can no longer go on.
    pub(crate) fn has_lost_after(&self, seen: Revision) -> bool {
        seen < self.lost
    }

    /// The first transaction after `seen`.
    pub(crate) fn next_after(&self, seen: Revision) -> Option<Batch> {
        let read = self.batches.partition_point(|batch| batch.revision <= seen);
        self.batches.get(read).cloned()
    }

    /// Registers `waker` for the next change. Returns the waker that it replaces, which the caller
    /// drops when it holds no lock.
    pub(crate) fn wait(&mut self, watcher: WatcherId, waker: &Waker) -> Option<Waker> {
        match self.waiting.get(&watcher) {
            Some(same) if same.will_wake(waker) => None,
            _ => self.waiting.insert(watcher, waker.clone()),
        }
    }
}
