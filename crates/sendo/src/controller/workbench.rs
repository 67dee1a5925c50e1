//! What each worker is at, to be looked at from outside.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sendo_world::{Clock, Moment};

/// The place of one worker.
pub(super) struct Workbench {
    clock: Clock,
    /// The key that is being reconciled.
    key: Mutex<Option<Arc<str>>>,
    /// Since when the reconcile has not waited for anything, in milliseconds of the
    /// clock, and one more; 0 while it waits.
    busy_since: AtomicU64,
}

impl Workbench {
    pub(super) fn new(clock: &Clock) -> Self {
        Workbench {
            clock: clock.clone(),
            key: Mutex::default(),
            busy_since: AtomicU64::new(0),
        }
    }

    /// The key that is being reconciled.
    pub(super) fn key(&self) -> Option<Arc<str>> {
        self.lock().clone()
    }

    /// For how long the reconcile has not waited for anything. As long as it does
    /// not, it cannot be dropped, and nothing else runs on its thread.
    pub(super) fn busy_for(&self) -> Option<Duration> {
        let since = self.busy_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// A reconcile of `key` at this place.
    pub(super) fn work<F: Future>(&self, key: Arc<str>, reconcile: F) -> Working<'_, F> {
        *self.lock() = Some(key);
        Working {
            bench: self,
            reconcile: Box::pin(reconcile),
        }
    }

    fn now(&self) -> u64 {
        let passed = self.clock.now().since(Moment::START).as_millis();
        u64::try_from(passed).unwrap_or(u64::MAX - 1)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.key.lock()
    }
}

/// A reconcile whose place shows when it does not wait.
pub(super) struct Working<'b, F> {
    bench: &'b Workbench,
    reconcile: Pin<Box<F>>,
}

impl<F: Future> Future for Working<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let bench = self.bench;
        let _busy = Busy::begin(bench);
        self.reconcile.as_mut().poll(cx)
    }
}

impl<F> Drop for Working<'_, F> {
    fn drop(&mut self) {
        *self.bench.lock() = None;
    }
}

/// The time of one poll, panics included.
struct Busy<'b>(&'b Workbench);

impl<'b> Busy<'b> {
    fn begin(bench: &'b Workbench) -> Self {
        bench.busy_since.store(bench.now() + 1, Ordering::Relaxed);
        Busy(bench)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy_since.store(0, Ordering::Relaxed);
    }
}
