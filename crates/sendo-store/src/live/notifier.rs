//! Wakes watchers from a task of their own rather than from the caller that commits.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::select;
use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use sendo_world::Tasks;

/// Wakes the watchers that wait for a change.
///
/// Waking a thread takes about as long as a small write. A task does it after the commit, so that
/// the commit returns first.
#[derive(Default)]
pub(crate) struct Notifier {
    state: Mutex<State>,
    /// The waker of the task.
    task: AtomicWaker,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waker>,
    /// Whether the task has ended.
    closed: bool,
}

impl Notifier {
    /// A notifier with a task that runs until its owner stops.
    pub(crate) fn on_tasks(tasks: &Tasks) -> Arc<Self> {
        let notifier = Arc::new(Notifier::default());
        let task = NotifierTask(Arc::clone(&notifier));
        let stopping = tasks.stopping().clone();
        tasks.spawn("wakes watchers", async move {
            let notifying = poll_fn(|cx| task.0.poll_notify(cx));
            select(std::pin::pin!(stopping.cancelled()), notifying).await;
        });
        notifier
    }

    /// Has the task wake the watchers; wakes them itself if the task has ended.
    pub(crate) fn wake(&self, watchers: Vec<Waker>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return watchers.into_iter().for_each(Waker::wake);
        }
        state.waiting.extend(watchers);
        drop(state);
        self.task.wake();
    }

    /// Wakes the watchers that wait, and ends the task; later ones are woken by the caller.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        self.task.wake();
    }

    fn poll_notify(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.task.register(cx.waker());
        let mut state = self.lock();
        let (waiting, closed) = (mem::take(&mut state.waiting), state.closed);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        if closed {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Closes the notifier when the task ends, for any reason, so that no watcher waits for it.
struct NotifierTask(Arc<Notifier>);

impl Drop for NotifierTask {
    fn drop(&mut self) {
        self.0.close();
    }
}
