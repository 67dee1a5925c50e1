//! Watchers that are woken by a task, not by who commits.

use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::future::select;
use futures::task::AtomicWaker;
use sendo_world::Tasks;

/// Wakes those who wait for a change.
///
/// Waking a thread takes the time of a small write. Who commits has an answer to
/// give first, so this is left to a task that runs after.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    ringer: AtomicWaker,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waker>,
    /// There is no task any more that rings.
    closed: bool,
}

impl Bell {
    /// A bell that a task rings, until its owner is asked to stop.
    pub(crate) fn rung_by(tasks: &Tasks) -> Arc<Self> {
        let bell = Arc::new(Bell::default());
        let ringer = Ringer(Arc::clone(&bell));
        let stopping = tasks.stopping().clone();
        tasks.spawn("wakes watchers", async move {
            let ringing = poll_fn(|cx| ringer.0.poll_ring(cx));
            select(std::pin::pin!(stopping.cancelled()), ringing).await;
        });
        bell
    }

    /// Has watchers woken soon; at once, if there is no task any more to do it.
    pub(crate) fn wake(&self, watchers: Vec<Waker>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return watchers.into_iter().for_each(Waker::wake);
        }
        state.waiting.extend(watchers);
        drop(state);
        self.ringer.wake();
    }

    /// Wakes who waits, now and from now on at once.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        self.ringer.wake();
    }

    fn poll_ring(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.ringer.register(cx.waker());
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task's end of the bell: when the task ends, in whatever way, nobody waits for it.
struct Ringer(Arc<Bell>);

impl Drop for Ringer {
    fn drop(&mut self) {
        self.0.close();
    }
}
