//! The queue that workers share: a [`Core`] behind a lock, with a clock and waiting.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sendo_world::{Clock, Moment, World};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::{Add, Added, Core, Observer, Options, Pick, Priority, Reason, Reasons, Stats};

/// A queue of keys. Clones share it.
///
/// One task of the given world keeps the time for all delayed entries. It ends
/// when the last clone is dropped; and if the owner of the world's tasks stops
/// first, the queue is shut down, as without that task no delay would ever end.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    core: Mutex<Core<K>>,
    clock: Clock,
    observer: Option<Arc<dyn Observer>>,
    /// Something may be ready, or the queue was shut down.
    ready: Notify,
    /// The timer may have to ring earlier.
    timer: Arc<Notify>,
    /// Nothing is left.
    idle: Notify,
    _timer_task: DropGuard,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue {
            shared: self.shared.clone(),
        }
    }
}

impl<K> Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone + Debug + Send + 'static> Queue<K> {
    /// An empty queue on `world`'s clock.
    pub fn new(world: &World, mut options: Options) -> Self {
        let stop = world.tasks().stopping().child_token();
        let timer = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            observer: options.observer.take(),
            core: Mutex::new(Core::new(options)),
            clock: world.clock().clone(),
            ready: Notify::new(),
            timer: timer.clone(),
            idle: Notify::new(),
            _timer_task: stop.clone().drop_guard(),
        });
        // The task holds no queue while it sleeps, so that dropping the last one ends it.
        let (weak, clock) = (Arc::downgrade(&shared), world.clock().clone());
        world.tasks().spawn("queue-timer", async move {
            loop {
                let due = match weak.upgrade() {
                    Some(shared) => shared.ring(),
                    None => return,
                };
                let rest = async {
                    match due {
                        Some(due) => clock.sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = timer.notified() => {}
                    () = rest => {}
                }
            }
            if let Some(shared) = weak.upgrade() {
                Queue { shared }.shut_down();
            }
        });
        Queue { shared }
    }

    /// Adds `key`, or merges the addition into the entry there is: the higher
    /// priority and the earlier time win.
    ///
    /// Never blocks. After a shutdown it does nothing.
    pub fn add(&self, key: K, add: impl Into<Add>) -> Added {
        self.shared
            .change(|core, now| core.add(now, key, add.into()))
    }

    /// Adds `key` once more after the limiter's delay, which is returned, and
    /// counts the attempt, unless the last delay is not over yet: see [`Core::retry`].
    /// `None` after a shutdown.
    ///
    /// A worker uses [`Picked::retry`], which keeps the priority as well.
    pub fn retry(&self, key: K) -> Option<Duration> {
        self.shared.change(|core, now| core.retry(now, key))
    }

    /// Starts the backoff of `key` anew. A key that leaves the queue is forgotten by itself.
    pub fn forget(&self, key: &K) {
        self.shared.lock().forget(key);
    }

    /// Waits for the next entry; `None` once the queue is shut down and nothing is ready.
    ///
    /// Dropping the future loses no entry.
    pub async fn next(&self) -> Option<Picked<K>> {
        // A worker whose work never waits must still let others run.
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(outcome) = self.try_next() {
                return outcome;
            }
            self.shared.ready.notified().await;
        }
    }

    /// `Some(None)` if nothing will come any more.
    fn try_next(&self) -> Option<Option<Picked<K>>> {
        let mut core = self.shared.lock();
        let Some(pick) = core.pick(self.shared.clock.now()) else {
            let over = core.is_shut_down();
            if over {
                self.shared.ready.notify_one(); // the next worker that waits ends, too
            }
            return over.then_some(None);
        };
        // Entries become ready several at a time, and a wake-up counts once:
        // whoever takes one wakes the next worker as long as there are more.
        if !core.is_empty() {
            self.shared.ready.notify_one();
        }
        drop(core);
        if let Some(observer) = &self.shared.observer {
            observer.picked(pick.waited);
        }
        let queue = self.clone();
        Some(Some(Picked { queue, pick }))
    }

    /// How many entries are ready to be picked.
    pub fn len(&self) -> usize {
        let mut core = self.shared.lock();
        core.advance(self.shared.clock.now());
        core.len()
    }

    /// Whether no entry is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in the queue, counted.
    pub fn stats(&self) -> Stats {
        let mut core = self.shared.lock();
        let now = self.shared.clock.now();
        core.advance(now);
        core.stats(now)
    }

    /// [`Queue::stats`], for as long as somebody holds the queue.
    pub(crate) fn stats_while_alive(&self) -> impl Fn() -> Option<Stats> + Send + Sync + 'static {
        let weak = Arc::downgrade(&self.shared);
        move || {
            let shared = weak.upgrade()?;
            Some(Queue { shared }.stats())
        }
    }

    /// Takes no more additions and drops what is not due. What is ready is still
    /// handed out; after that, [`Queue::next`] gives `None`.
    pub fn shut_down(&self) {
        self.shared.change(|core, now| core.shut_down(now));
        self.shared.ready.notify_one();
    }

    /// As [`Queue::shut_down`], and drops what is ready, too: [`Queue::next`] gives `None` at once.
    pub fn abandon(&self) {
        self.shared.change(|core, now| core.abandon(now));
        self.shared.ready.notify_one();
    }

    /// Waits until nothing is ready, waiting or in work. Workers must be taking
    /// entries meanwhile; call [`Queue::shut_down`] first to let no more in.
    pub async fn drained(&self) {
        loop {
            let idle = self.shared.idle.notified();
            if self.shared.lock().is_idle() {
                return;
            }
            idle.await;
        }
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Core<K>> {
        self.core.lock()
    }
}

impl<K: Hash + Eq + Clone + Debug> Shared<K> {
    /// Changes the core, then wakes whom the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Core<K>, Moment) -> T) -> T {
        let now = self.clock.now();
        let mut core = self.lock();
        let due = core.next_due();
        let outcome = change(&mut core, now);
        if !core.is_empty() {
            self.ready.notify_one();
        }
        if core
            .next_due()
            .is_some_and(|new| due.is_none_or(|due| new < due))
        {
            self.timer.notify_one();
        }
        if core.is_idle() {
            self.idle.notify_waiters();
        }
        outcome
    }

    /// Makes ready what is due, and says when to do so again.
    fn ring(&self) -> Option<Moment> {
        let mut core = self.lock();
        core.advance(self.clock.now());
        if !core.is_empty() {
            self.ready.notify_one();
        }
        core.next_due()
    }
}

/// An entry that a worker has taken.
///
/// Until it is dropped, its key is handed out to nobody else; then the work
/// counts as done, whether it ended, panicked or was cancelled. What was added
/// meanwhile, by [`Picked::retry`] or anybody, comes after that.
pub struct Picked<K: Hash + Eq + Clone + Debug + Send + 'static> {
    queue: Queue<K>,
    pick: Pick<K>,
}

impl<K: Hash + Eq + Clone + Debug + Send + 'static> Picked<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.pick.key
    }

    /// How many times the key was retried since it was last forgotten: 0 at first.
    pub fn attempts(&self) -> u32 {
        self.pick.attempts
    }

    /// Its priority when it was picked.
    pub fn priority(&self) -> Priority {
        self.pick.priority
    }

    /// Why it was in the queue.
    pub fn reasons(&self) -> &Reasons {
        &self.pick.reasons
    }

    /// How long it was ready before it was picked.
    pub fn waited(&self) -> Duration {
        self.pick.waited
    }

    /// Adds the key once more, with its priority, after the limiter's delay,
    /// which is returned, and counts the attempt, unless the last delay is not over
    /// yet: see [`Core::retry`]. `None` after a shutdown.
    pub fn retry(&self) -> Option<Duration> {
        let shared = &self.queue.shared;
        shared.change(|core, now| core.retry_picked(now, self.pick.ticket))
    }

    /// Adds the key once more after `delay`, with this priority.
    pub fn again_after(&self, delay: Duration, priority: Priority) -> Added {
        let shared = &self.queue.shared;
        let add = Add::because(Reason::AFTER).after(delay).priority(priority);
        shared.change(|core, now| core.add_picked(now, self.pick.ticket, add))
    }

    /// Starts the backoff of the key anew.
    pub fn forget(&self) {
        self.queue.shared.lock().forget_picked(self.pick.ticket);
    }

    /// Ends the work, as dropping does.
    pub fn done(self) {}
}

impl<K: Hash + Eq + Clone + Debug + Send + 'static> Drop for Picked<K> {
    fn drop(&mut self) {
        let shared = &self.queue.shared;
        let worked = shared.change(|core, now| core.done(now, self.pick.ticket));
        if let Some(observer) = &shared.observer {
            observer.done(worked);
        }
    }
}

impl<K: Hash + Eq + Clone + Debug + Send + 'static> Debug for Picked<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picked")
            .field("key", &self.pick.key)
            .field("attempts", &self.pick.attempts)
            .field("reasons", &self.pick.reasons)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
