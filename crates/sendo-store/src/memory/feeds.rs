//! Who hears of a change: one queue per watched range, shared by its watchers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::task::Waker;

use super::history::History;
use crate::{Batch, Key, KeyRange, Revision};

/// The queues of all watched ranges.
///
/// A change costs its own ranges' queues and no other's, both when it is
/// published and when it is forgotten.
#[derive(Default)]
pub(super) struct Feeds {
    feeds: BTreeMap<FeedId, Feed>,
    index: Index,
    opened: u64,
}

type FeedId = u64;

/// A watcher, and the feed it reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatcherId {
    feed: FeedId,
    number: u64,
}

/// The changes in one range, in order. Watchers hold their place in it themselves.
pub(super) struct Feed {
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
    pub(super) fn open(
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
    pub(super) fn close(&mut self, watcher: WatcherId) -> (Option<Waker>, Option<Feed>) {
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
    pub(super) fn feed(&mut self, watcher: WatcherId) -> &mut Feed {
        let feed = self.feeds.get_mut(&watcher.feed);
        feed.expect("a feed stays while it has watchers")
    }

    /// Queues a transaction where it belongs; returns those who wait for it.
    pub(super) fn publish(&mut self, batch: &Batch) -> Vec<Waker> {
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
    pub(super) fn forget(&mut self, batches: &[Batch]) {
        for batch in batches {
            for id in self.index.all_with(batch) {
                if let Some(feed) = self.feeds.get_mut(&id) {
                    feed.forget(batch.revision);
                }
            }
        }
    }

    /// Everyone who waits.
    pub(super) fn take_waiting(&mut self) -> Vec<Waker> {
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
    pub(super) fn has_lost_after(&self, seen: Revision) -> bool {
        seen < self.lost
    }

    /// The first transaction after `seen`.
    pub(super) fn next_after(&self, seen: Revision) -> Option<Batch> {
        let read = self.queue.partition_point(|batch| batch.revision <= seen);
        self.queue.get(read).cloned()
    }

    /// Has `waker` woken by the next change. Returns what it replaces, for the
    /// caller to drop when no lock is held.
    pub(super) fn wait(&mut self, watcher: WatcherId, waker: &Waker) -> Option<Waker> {
        match self.waiting.get(&watcher) {
            Some(same) if same.will_wake(waker) => None,
            _ => self.waiting.insert(watcher, waker.clone()),
        }
    }
}

/// Finds the feeds whose range contains a key.
///
/// Nearly all ranges are a prefix or a single key, which are looked up; any
/// other is compared one by one.
#[derive(Default)]
struct Index {
    ones: BTreeMap<Key, FeedId>,
    prefixes: BTreeMap<Key, FeedId>,
    /// How many prefixes there are of each length: the lengths worth looking up.
    lengths: BTreeMap<usize, usize>,
    others: Vec<(KeyRange, FeedId)>,
}

enum Shape {
    One(Key),
    Prefix(Key),
    Other,
}

impl Shape {
    fn of(range: &KeyRange) -> Self {
        match (&range.from, &range.to) {
            (Bound::Unbounded, Bound::Unbounded) => Shape::Prefix("".into()),
            (Bound::Included(from), Bound::Included(to)) if from == to => {
                Shape::One(Key::clone(from))
            }
            (Bound::Included(from), _) if *range == KeyRange::prefix(from) => {
                Shape::Prefix(Key::clone(from))
            }
            _ => Shape::Other,
        }
    }
}

impl Index {
    fn find(&self, range: &KeyRange) -> Option<FeedId> {
        match Shape::of(range) {
            Shape::One(key) => self.ones.get(&key).copied(),
            Shape::Prefix(prefix) => self.prefixes.get(&prefix).copied(),
            Shape::Other => {
                let same = self.others.iter().find(|(other, _)| other == range);
                same.map(|(_, id)| *id)
            }
        }
    }

    fn insert(&mut self, range: &KeyRange, id: FeedId) {
        match Shape::of(range) {
            Shape::One(key) => {
                self.ones.insert(key, id);
            }
            Shape::Prefix(prefix) => {
                *self.lengths.entry(prefix.len()).or_default() += 1;
                self.prefixes.insert(prefix, id);
            }
            Shape::Other => self.others.push((range.clone(), id)),
        }
    }

    fn remove(&mut self, range: &KeyRange) {
        match Shape::of(range) {
            Shape::One(key) => {
                self.ones.remove(&key);
            }
            Shape::Prefix(prefix) => {
                self.prefixes.remove(&prefix);
                if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&prefix.len());
                    }
                }
            }
            Shape::Other => self.others.retain(|(other, _)| other != range),
        }
    }

    fn all_with(&self, batch: &Batch) -> BTreeSet<FeedId> {
        let keys = batch.changes.iter().map(|change| &*change.key);
        keys.flat_map(|key| self.with(key)).collect()
    }

    fn with<'a>(&'a self, key: &'a str) -> impl Iterator<Item = FeedId> + 'a {
        let one = self.ones.get(key).copied();
        let lengths = self.lengths.range(..=key.len());
        let prefixes = lengths
            .filter_map(|(&length, _)| key.get(..length))
            .filter_map(|prefix| self.prefixes.get(prefix).copied());
        let others = self.others.iter();
        let others = others.filter(|(range, _)| range.contains(key));
        one.into_iter()
            .chain(prefixes)
            .chain(others.map(|(_, id)| *id))
    }
}
