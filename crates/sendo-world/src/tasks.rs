//! Tasks with owners: no task is detached, and stopping waits until all have ended.
//!
//! A task is asked to stop, and cut off if that takes too long. Neither ends one
//! that never waits for anything: its thread belongs to it until it returns.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A request to stop, seen by everyone who holds a clone.
pub type Stop = CancellationToken;

/// An owner of tasks.
///
/// Each task belongs to one owner, has a name and is given the owner's [`Stop`].
/// [`Tasks::stop`] asks all of them, and those of child owners, to end, and
/// returns when they have. Dropping the last clone of an owner cancels its
/// `Stop`, so tasks are asked to end when their owner is dropped.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    stop: Stop,
    /// Cancelled to drop the tasks wherever they wait.
    cut: Stop,
    tracker: TaskTracker,
    running: Mutex<BTreeMap<u64, Arc<str>>>,
    next: AtomicU64,
    /// Keeps the parents alive; a task belongs to each of them too.
    parent: Option<Tasks>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks")
            .field("owner", &self.inner.name)
            .field("running", &self.running())
            .finish()
    }
}

impl Tasks {
    /// An owner without a parent.
    pub fn new(name: &str) -> Self {
        Tasks::with_parent(name.to_owned(), Stop::new(), Stop::new(), None)
    }

    /// An owner whose tasks also count as this one's, and stop when it stops.
    pub fn child(&self, name: &str) -> Self {
        Tasks::with_parent(
            format!("{}/{name}", self.inner.name),
            self.inner.stop.child_token(),
            self.inner.cut.child_token(),
            Some(self.clone()),
        )
    }

    fn with_parent(name: String, stop: Stop, cut: Stop, parent: Option<Tasks>) -> Self {
        Tasks {
            inner: Arc::new(Inner {
                name,
                stop,
                cut,
                tracker: TaskTracker::new(),
                running: Mutex::default(),
                next: Default::default(),
                parent,
            }),
        }
    }

    /// The signal that this owner's tasks are to end.
    pub fn stopping(&self) -> &Stop {
        &self.inner.stop
    }

    /// Starts a task. It should end soon after [`Tasks::stopping`] is cancelled.
    ///
    /// A panic in the task is caught by the runtime and reported by the returned
    /// handle; dropping the handle leaves the task running under its owner.
    pub fn spawn<F>(&self, name: &str, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (done, output) = oneshot::channel();
        // Boxed, so that tokio's code for a task is compiled once and not for each future.
        self.start(
            name,
            Box::pin(async move {
                // The handle may have been dropped.
                let _ = done.send(future.await);
            }),
        );
        Task { output }
    }

    fn start(&self, name: &str, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // This owner and all its parents list this task and wait for it.
        let full: Arc<str> = format!("{}/{name}", self.inner.name).into();
        let entries: Vec<RunningEntry> = self
            .ancestors()
            .map(|owner| owner.register(&full))
            .collect();
        let cut = self.inner.cut.clone();
        tokio::spawn(async move {
            let _entries = entries;
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Asks every task to end and waits until all have.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.ended().await;
    }

    /// Asks every task to end, and drops each where it waits for something; the
    /// same for tasks that are started later. Waits for none of them.
    ///
    /// A task that is at work at this moment is dropped when it waits next. One
    /// that never does is listed by [`Tasks::running`] for as long as it goes on,
    /// and the runtime that it runs on cannot be shut down.
    pub fn cut_off(&self) {
        self.inner.stop.cancel();
        self.inner.cut.cancel();
    }

    /// Waits until no task is running, without asking any to end.
    pub async fn ended(&self) {
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
        self.inner.tracker.reopen();
    }

    /// The names of the tasks now running, oldest first, as `owner/task`.
    pub fn running(&self) -> Vec<String> {
        let running = self.lock_running();
        running.values().map(ToString::to_string).collect()
    }

    fn ancestors(&self) -> impl Iterator<Item = &Tasks> {
        std::iter::successors(Some(self), |owner| owner.inner.parent.as_ref())
    }

    fn register(&self, task: &Arc<str>) -> RunningEntry {
        let id = self.inner.next.fetch_add(1, Ordering::Relaxed);
        self.lock_running().insert(id, Arc::clone(task));
        RunningEntry {
            owner: Arc::downgrade(&self.inner),
            id,
            _token: self.inner.tracker.token(),
        }
    }

    fn lock_running(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<str>>> {
        self.inner.running.lock()
    }
}

/// A task's entry in its owner's list; removed when the task ends, also by a panic.
struct RunningEntry {
    owner: Weak<Inner>,
    id: u64,
    _token: TaskTrackerToken,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.upgrade() {
            let mut running = owner.running.lock();
            running.remove(&self.id);
        }
    }
}

/// A started task; awaiting it gives its output.
#[derive(Debug)]
pub struct Task<T> {
    output: oneshot::Receiver<T>,
}

impl<T> Task<T> {
    /// Waits for the task's output; `None` if it panicked or was cut off.
    pub async fn output(self) -> Option<T> {
        self.output.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_the_tasks_of_children_too() {
        let owner = Tasks::new("a");
        let child = owner.child("b");
        let stopping = child.stopping().clone();
        child.spawn("slow", async move {
            stopping.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        });
        assert_eq!(owner.running(), ["a/b/slow"]);
        let before = tokio::time::Instant::now();
        owner.stop().await;
        assert_eq!(before.elapsed(), Duration::from_secs(5));
        assert!(owner.running().is_empty() && child.running().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_do_not_stop_are_dropped_where_they_wait() {
        let owner = Tasks::new("a");
        let child = owner.child("b");
        let deaf = child.spawn("deaf", std::future::pending::<()>());
        let sibling = owner.child("c");
        sibling.spawn("deaf", std::future::pending::<()>());
        child.cut_off();
        child.ended().await;
        assert_eq!(deaf.output().await, None);
        assert_eq!(owner.running(), ["a/c/deaf"], "others go on");
        let late = child.spawn("late", async { 1 });
        assert_eq!(late.output().await, None, "nothing is started any more");
        owner.cut_off();
        owner.ended().await;
        assert!(sibling.stopping().is_cancelled());
    }

    #[tokio::test]
    async fn a_child_stops_without_its_parent() {
        let owner = Tasks::new("a");
        let child = owner.child("b");
        child.stop().await;
        assert!(!owner.stopping().is_cancelled());
        assert!(child.stopping().is_cancelled());
    }

    #[tokio::test]
    async fn a_task_gives_its_output_and_a_panic_gives_none() {
        let owner = Tasks::new("a");
        assert_eq!(owner.spawn("fine", async { 7 }).output().await, Some(7));
        let panicked = owner.spawn("bad", async { panic!("on purpose") });
        assert_eq!(panicked.output().await, None::<()>);
        owner.stop().await;
    }

    #[tokio::test]
    async fn an_owner_that_is_dropped_asks_its_tasks_to_end() {
        let owner = Tasks::new("a");
        let stopping = owner.stopping().clone();
        let task = owner.spawn("waits", async move { stopping.cancelled().await });
        drop(owner);
        assert_eq!(task.output().await, Some(()));
    }
}
