//! The queue as plain data: every change is a function of the state and of the time it is given. No
//! lock, no clock, no task.

mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use hashbrown::HashTable;
use sendo_world::Moment;
use slab::Slab;

use super::at::At;
use super::list::{Link, List};
use super::reason::{ReasonNumbers, ReasonSet};
use super::{Add, Options, Priority, Reason, Reasons, Stats};
use entry::{AGE, Again, Entry, Lane, PLACE, State, Turn, Work};

/// Below this capacity an empty queue keeps its memory for the next burst.
const KEEP_CAPACITY: usize = 4096;

/// The state of a queue. [`Queue`](super::Queue) puts a lock, a clock and waiting around it.
///
/// Moments must not run backwards from one call to the next.
#[derive(Debug)]
pub struct Core<K> {
    entries: Slab<Entry<K>>,
    /// The indexes of entries, by the hash of their keys. Never iterated, so its random order is
    /// never seen.
    by_key: HashTable<u32>,
    hasher: RandomState,
    /// Ready entries: one lane per priority in use, the highest last.
    lanes: Vec<Lane>,
    /// The same entries, in the order in which they became ready.
    ready: List<AGE>,
    /// How many picks in a row have passed over the oldest ready entry.
    passed_over: u32,
    /// Entries that are not due yet, by time and then by turn.
    waiting: BTreeSet<(At, Turn, u32)>,
    next_turn: Turn,
    /// Entries handed out, the longest-running first.
    working: List<PLACE>,
    /// The work on each of those.
    work: Slab<Work>,
    /// The sum of the moments at which those were handed out.
    working_since: Duration,
    /// Until when entries that were retried were to wait, by entry. Beside the
    /// entries, as few have failed.
    backing_off: BTreeMap<u32, At>,
    reasons: ReasonNumbers,
    adds: u64,
    retries: u64,
    options: Options,
    closed: bool,
}

/// What became of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The key was not in the queue, or was only in work: it will be picked once more for this.
    New,
    /// The key was to be picked anyway; the two are one.
    Merged,
    /// The queue is shut down.
    Refused,
}

/// An entry handed out.
#[derive(Clone, Debug)]
pub struct Pick<K> {
    /// Which entry; given back to [`Core::done`].
    pub ticket: Ticket,
    /// Its key.
    pub key: K,
    /// How many times it was retried since it was last forgotten, as [`Core::retry`] counts.
    pub attempts: u32,
    /// The priority it was picked with.
    pub priority: Priority,
    /// Why it was in the queue.
    pub reasons: Reasons,
    /// How long it was ready before it was picked.
    pub waited: Duration,
}

/// Names an entry that is in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

impl<K: Hash + Eq + Clone + Debug> Core<K> {
    /// An empty queue.
    pub fn new(options: Options) -> Self {
        Core {
            entries: Slab::new(),
            by_key: HashTable::new(),
            hasher: RandomState::new(),
            lanes: Vec::new(),
            ready: List::EMPTY,
            passed_over: 0,
            waiting: BTreeSet::new(),
            next_turn: 0,
            working: List::EMPTY,
            work: Slab::new(),
            working_since: Duration::ZERO,
            backing_off: BTreeMap::new(),
            reasons: ReasonNumbers::default(),
            adds: 0,
            retries: 0,
            options,
            closed: false,
        }
    }

    /// Adds `key`, or merges the addition into the entry there is: the higher
    /// priority and the earlier time win.
    pub fn add(&mut self, now: Moment, key: K, add: Add) -> Added {
        if self.closed {
            return Added::Refused;
        }
        let now = At::from(now);
        self.ripen(now);
        let hash = self.hash(&key);
        match self.find(hash, &key) {
            Some(at) => self.merge(now, at, add),
            None => {
                self.insert(now, key, hash, add);
                Added::New
            }
        }
    }

    /// Adds `key` once more after the limiter's delay, which is returned;
    /// `None` if the queue is shut down.
    ///
    /// An entry that something else has brought up before its last delay was over
    /// waits for the rest of that one, and the attempt is not counted: however
    /// often it is added meanwhile, attempts grow no faster than time passes.
    pub fn retry(&mut self, now: Moment, key: K) -> Option<Duration> {
        if self.closed {
            return None;
        }
        let now = At::from(now);
        self.ripen(now);
        let hash = self.hash(&key);
        if let Some(at) = self.find(hash, &key) {
            return Some(self.retry_entry(now, at));
        }
        let delay = self.options.limiter.delay(0, now.moment());
        let at = self.insert(now, key, hash, Add::because(Reason::RETRY).after(delay));
        self.entry(at).attempts = 1;
        self.backing_off.insert(at, now.after(delay));
        Some(delay)
    }

    /// As [`Core::retry`], for an entry in work.
    pub fn retry_picked(&mut self, now: Moment, ticket: Ticket) -> Option<Duration> {
        if self.closed {
            return None;
        }
        let now = At::from(now);
        self.ripen(now);
        Some(self.retry_entry(now, ticket.0))
    }

    /// As [`Core::add`], for an entry in work.
    pub fn add_picked(&mut self, now: Moment, ticket: Ticket, add: Add) -> Added {
        if self.closed {
            return Added::Refused;
        }
        let now = At::from(now);
        self.ripen(now);
        self.merge(now, ticket.0, add)
    }

    /// Starts the backoff of `key` anew.
    pub fn forget(&mut self, key: &K) {
        let hash = self.hash(key);
        if let Some(at) = self.find(hash, key) {
            self.start_anew(at);
        }
    }

    /// As [`Core::forget`], for an entry in work.
    pub fn forget_picked(&mut self, ticket: Ticket) {
        self.start_anew(ticket.0);
    }

    fn start_anew(&mut self, at: u32) {
        self.entry(at).attempts = 0;
        self.backing_off.remove(&at);
    }

    /// Hands out the next entry, if one is ready.
    ///
    /// The first of the highest lane; but once the oldest of all ready entries
    /// has been passed over `fairness - 1` times, that one.
    pub fn pick(&mut self, now: Moment) -> Option<Pick<K>> {
        let now = At::from(now);
        self.ripen(now);
        let oldest = self.ready.first()?;
        let best = self.lanes.last().and_then(|lane| lane.entries.first())?;
        let at = if self.passed_over + 1 < self.options.fairness.get() {
            best
        } else {
            oldest
        };
        self.passed_over = if at == oldest {
            0
        } else {
            self.passed_over + 1
        };

        self.leave_lane(at);
        self.working.push_back(&mut self.entries, at);
        self.working_since += now.since(At(0));
        let work = number(self.work.insert(Work {
            since: now,
            again: None,
        }));
        let entry = &mut self.entries[at as usize];
        let State::Ready { since } = entry.state else {
            unreachable!("an entry in a lane is ready");
        };
        entry.state = State::Working { work };
        Some(Pick {
            ticket: Ticket(at),
            key: entry.key.clone(),
            attempts: entry.attempts.into(),
            priority: entry.priority,
            reasons: self.reasons.decode(std::mem::take(&mut entry.reasons)),
            waited: now.since(since),
        })
    }

    /// Ends the work on an entry, which comes back if it was added meanwhile
    /// and is forgotten otherwise. Returns how long the work took.
    pub fn done(&mut self, now: Moment, ticket: Ticket) -> Duration {
        let now = At::from(now);
        self.ripen(now);
        let at = ticket.0;
        let State::Working { work } = self.entry(at).state else {
            unreachable!("a ticket is valid until its entry is done");
        };
        let Work { since, again } = self.work.remove(work as usize);
        self.working.remove(&mut self.entries, at);
        self.working_since -= since.since(At(0));
        match again {
            Some(Again { due, priority }) => {
                self.entry(at).priority = priority;
                self.schedule(now, at, due);
            }
            None => self.remove(at),
        }
        now.since(since)
    }

    /// When the first waiting entry is due.
    pub fn next_due(&self) -> Option<Moment> {
        self.waiting.first().map(|(due, ..)| due.moment())
    }

    /// Makes ready what is due.
    pub fn advance(&mut self, now: Moment) {
        self.ripen(now.into());
    }

    fn ripen(&mut self, now: At) {
        while let Some(&(due, turn, at)) = self.waiting.first()
            && due <= now
        {
            self.waiting.remove(&(due, turn, at));
            self.enter_lane(at, due);
        }
    }

    /// How many entries are ready to be picked.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no entry is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is ready, waiting or in work.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes no more additions and drops what is not due; what is ready is still handed out.
    pub fn shut_down(&mut self, now: Moment) {
        let now = At::from(now);
        self.ripen(now);
        self.closed = true;
        for (_, _, at) in std::mem::take(&mut self.waiting) {
            self.remove(at);
        }
        self.keep_again(|again| again.due <= now);
    }

    /// As [`Core::shut_down`], and drops what is ready, too.
    pub fn abandon(&mut self, now: Moment) {
        self.shut_down(now);
        while let Some(at) = self.ready.first() {
            self.leave_lane(at);
            self.remove(at);
        }
        self.keep_again(|_| false);
    }

    /// Whether the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.closed
    }

    /// What is in the queue, counted.
    pub fn stats(&self, now: Moment) -> Stats {
        let now = At::from(now);
        let longest = self.working.first().map(|at| &self.entries[at as usize]);
        let longest_running = match longest.map(|entry| entry.state) {
            Some(State::Working { work }) => now.since(self.work[work as usize].since),
            _ => Duration::ZERO,
        };
        let working = self.working.len();
        let passed = now.since(At(0)).saturating_mul(working as u32);
        Stats {
            ready: self
                .lanes
                .iter()
                .map(|lane| (lane.priority, lane.entries.len()))
                .collect(),
            waiting: self.waiting.len(),
            working,
            longest_running,
            unfinished: passed.saturating_sub(self.working_since),
            adds: self.adds,
            retries: self.retries,
        }
    }

    /// Lets only those entries in work come back that `keep` says.
    fn keep_again(&mut self, keep: impl Fn(&Again) -> bool) {
        for (_, work) in &mut self.work {
            work.again = work.again.filter(&keep);
        }
    }

    fn hash(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find(&self, hash: u32, key: &K) -> Option<u32> {
        let has_key = |at: &u32| self.entries[*at as usize].key == *key;
        self.by_key.find(spread(hash), has_key).copied()
    }

    fn entry(&mut self, at: u32) -> &mut Entry<K> {
        &mut self.entries[at as usize]
    }

    fn insert(&mut self, now: At, key: K, hash: u32, add: Add) -> u32 {
        self.count(add, Added::New);
        let mut reasons = ReasonSet::default();
        reasons.add(self.reasons.number(add.reason));
        let at = number(self.entries.insert(Entry {
            key,
            state: State::Ready { since: now },
            links: [Link::LOOSE; 2],
            hash,
            priority: add.priority,
            reasons,
            attempts: 0,
        }));
        let hash_of = |at: &u32| spread(self.entries[*at as usize].hash);
        self.by_key.insert_unique(spread(hash), at, hash_of);
        self.schedule(now, at, now.after(add.after));
        at
    }

    fn count(&mut self, add: Add, added: Added) {
        self.adds += u64::from(added == Added::New);
        self.retries += u64::from(add.after > Duration::ZERO || add.reason == Reason::RETRY);
    }

    /// Puts an entry that is nowhere where it belongs.
    fn schedule(&mut self, now: At, at: u32, due: At) {
        if due <= now {
            return self.enter_lane(at, due);
        }
        let turn = self.next_turn;
        self.next_turn = turn.wrapping_add(1);
        self.waiting.insert((due, turn, at));
        self.entry(at).state = State::Waiting { due, turn };
    }

    fn merge(&mut self, now: At, at: u32, add: Add) -> Added {
        let reason = self.reasons.number(add.reason);
        let due = now.after(add.after);
        let mut added = Added::Merged;
        let entry = self.entry(at);
        entry.reasons.add(reason);
        match entry.state {
            State::Ready { .. } if entry.priority < add.priority => {
                self.change_lane(at, add.priority);
            }
            State::Ready { .. } => {}
            State::Waiting { due: old, turn } => {
                entry.priority = entry.priority.max(add.priority);
                if due < old {
                    self.waiting.remove(&(old, turn, at));
                    self.schedule(now, at, due);
                }
            }
            State::Working { work } => {
                let again = &mut self.work[work as usize].again;
                let merged = Again {
                    due: again.map_or(due, |again| again.due.min(due)),
                    priority: again.map_or(add.priority, |again| again.priority.max(add.priority)),
                };
                if again.replace(merged).is_none() {
                    added = Added::New;
                }
            }
        }
        self.count(add, added);
        added
    }

    fn retry_entry(&mut self, now: At, at: u32) -> Duration {
        let left = self.backing_off.get(&at).map(|until| until.since(now));
        let delay = match left.filter(|left| !left.is_zero()) {
            Some(left) => left,
            None => self.back_off(now, at),
        };
        let priority = self.entry(at).priority;
        let add = Add::because(Reason::RETRY).after(delay).priority(priority);
        self.merge(now, at, add);
        delay
    }

    /// Counts an attempt and says how long to wait for the next.
    fn back_off(&mut self, now: At, at: u32) -> Duration {
        let attempts = self.entry(at).attempts;
        let delay = self.options.limiter.delay(attempts.into(), now.moment());
        self.entry(at).attempts = attempts.saturating_add(1);
        self.backing_off.insert(at, now.after(delay));
        delay
    }

    fn enter_lane(&mut self, at: u32, since: At) {
        let entry = &mut self.entries[at as usize];
        entry.state = State::Ready { since };
        let priority = entry.priority;
        self.ready.push_back(&mut self.entries, at);
        self.push_to_lane(at, priority);
    }

    fn push_to_lane(&mut self, at: u32, priority: Priority) {
        let found = self.lanes.binary_search_by_key(&priority, |l| l.priority);
        let lane = found.unwrap_or_else(|place| {
            let entries = List::EMPTY;
            self.lanes.insert(place, Lane { priority, entries });
            place
        });
        self.lanes[lane].entries.push_back(&mut self.entries, at);
    }

    fn take_from_lane(&mut self, at: u32) {
        let priority = self.entry(at).priority;
        let found = self.lanes.binary_search_by_key(&priority, |l| l.priority);
        let lane = found.expect("a ready entry stands in its lane");
        self.lanes[lane].entries.remove(&mut self.entries, at);
        if self.lanes[lane].entries.len() == 0 {
            self.lanes.remove(lane);
        }
    }

    fn leave_lane(&mut self, at: u32) {
        self.take_from_lane(at);
        self.ready.remove(&mut self.entries, at);
    }

    /// To the end of another lane; its age stays.
    fn change_lane(&mut self, at: u32, priority: Priority) {
        self.take_from_lane(at);
        self.entry(at).priority = priority;
        self.push_to_lane(at, priority);
    }

    /// Drops an entry that is in no list.
    fn remove(&mut self, at: u32) {
        let hash = self.entries.remove(at as usize).hash;
        let found = self.by_key.find_entry(spread(hash), |found| *found == at);
        if let Ok(found) = found {
            found.remove();
        }
        self.backing_off.remove(&at);
        if self.entries.is_empty() && self.entries.capacity() > KEEP_CAPACITY {
            self.entries = Slab::new();
            self.by_key = HashTable::new();
        }
    }
}

/// The hash as [`HashTable`] takes it, which looks at both ends of 64 bits. An entry keeps 32.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a queue holds fewer than 2^32 entries")
}

#[cfg(test)]
mod tests;
