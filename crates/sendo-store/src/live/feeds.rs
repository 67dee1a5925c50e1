//! Who hears of a change: one queue per watched range, shared by its watchers.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use super::history::History;
use super::index::{FeedId, Index};
use crate::{Batch, KeyRange, Revision};

/// The queues of all watched ranges.
///
/// A change costs its own ranges' queues and no other's, both when it is
/// published and when it is forgotten.
#[derive(Default)]
pub(crate) struct Feeds {
    feeds: BTreeMap<FeedId, Feed>,
    index: Index,
    opened: u64,
}

/// A watcher, and the feed it reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatcherId {
    feed: FeedId,
    number: u64,
}

/// The changes in one range, in order. Watchers hold their place in it themselves.
pub(crate) struct Feed {
    range: KeyRange,
    queue: VecDeque<Batch>,
    /// The queue has every change after this one, but for what was forgotten.
    start: Revision,
    /// The last change that was forgotten.
    lost: Revision,
    watchers: usize,
    waiting: BTreeMap<WatcherId, Waker>,
}

impl Feeds {
    /// A new watcher of `range`, to whom everything after `after` matters. The
    /// caller has checked that this is kept.
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
            let feed = Feed::new(range, history.newest());
            self.feeds.insert(number, feed);
            number
        });
        let watcher = WatcherId { feed: id, number };
        let feed = self.feed(watcher);
        feed.reach_back(after, history);
        feed.watchers += 1;
        watcher
    }

    /// Takes a watcher off; its feed goes with the last one. What is left of
    /// both is for the caller to drop when no lock is held.
    pub(crate) fn close(&mut self, watcher: WatcherId) -> (Option<Waker>, Option<Feed>) {
        let feed = self.feed(watcher);
        let waker = feed.waiting.remove(&watcher);
        feed.watchers -= 1;
        if feed.watchers > 0 {
            return (waker, None);
        }
        let feed = self.feeds.remove(&watcher.feed);
        if let Some(feed) = &feed {
            self.index.remove(&feed.range);
        }
        (waker, feed)
    }

    /// The feed of an open watcher.
    pub(crate) fn feed(&mut self, watcher: WatcherId) -> &mut Feed {
        let feed = self.feeds.get_mut(&watcher.feed);
        feed.expect("a feed stays while it has watchers")
    }

    /// Queues a transaction where it belongs; returns those who wait for it.
    pub(crate) fn publish(&mut self, batch: &Batch) -> Vec<Waker> {
        let mut woken = Vec::new();
        for id in self.index.all_with(batch) {
            let Some(feed) = self.feeds.get_mut(&id) else {
                continue;
            };
            feed.queue.extend(batch.within(&feed.range));
            woken.extend(std::mem::take(&mut feed.waiting).into_values());
        }
        woken
    }

    /// Drops transactions, the oldest there are, from where they were queued.
    pub(crate) fn forget(&mut self, batches: &[Batch]) {
        // A few are looked up; for many it is less work to visit every feed once.
        if batches.len() < self.feeds.len() {
            for batch in batches {
                for id in self.index.all_with(batch) {
                    if let Some(feed) = self.feeds.get_mut(&id) {
                        feed.forget(batch.revision);
                    }
                }
            }
        } else if let Some(last) = batches.last() {
            for feed in self.feeds.values_mut() {
                feed.forget(last.revision);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.feeds.len()
    }

    /// Everyone who waits.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waker> {
        let feeds = self.feeds.values_mut();
        feeds
            .flat_map(|feed| std::mem::take(&mut feed.waiting).into_values())
            .collect()
    }
}

impl Feed {
    fn new(range: KeyRange, newest: Revision) -> Self {
        Feed {
            range,
            queue: VecDeque::new(),
            start: newest,
            lost: Revision(0),
            watchers: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Fetches from `history` what the queue lacks after `after`.
    fn reach_back(&mut self, after: Revision, history: &History) {
        if after >= self.start {
            return;
        }
        let missing = history.after(after);
        let missing: Vec<_> = missing
            .take_while(|batch| batch.revision <= self.start)
            .filter_map(|batch| batch.within(&self.range))
            .collect();
        for batch in missing.into_iter().rev() {
            self.queue.push_front(batch);
        }
        self.start = after;
    }

    fn forget(&mut self, through: Revision) {
        while let Some(first) = self.queue.front()
            && first.revision <= through
        {
            self.lost = first.revision;
            self.queue.pop_front();
        }
    }

    /// Whether a watcher that has read up to `seen` can no longer go on.
    pub(crate) fn has_lost_after(&self, seen: Revision) -> bool {
        seen < self.lost
    }

    /// The first transaction after `seen`.
    pub(crate) fn next_after(&self, seen: Revision) -> Option<Batch> {
        let read = self.queue.partition_point(|batch| batch.revision <= seen);
        self.queue.get(read).cloned()
    }

    /// Has `waker` woken by the next change. Returns what it replaces, for the
    /// caller to drop when no lock is held.
    pub(crate) fn wait(&mut self, watcher: WatcherId, waker: &Waker) -> Option<Waker> {
        match self.waiting.get(&watcher) {
            Some(same) if same.will_wake(waker) => None,
            _ => self.waiting.insert(watcher, waker.clone()),
        }
    }
}
