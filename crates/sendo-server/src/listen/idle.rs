//! Counts the requests under way on a connection, to close it when it is idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use sendo_world::{Clock, Moment};

use crate::request::body::Body;

/// Counts the requests of a connection that are not answered to their end.
///
/// A request wakes no task: [`Idle::wait`] checks again when the connection could be idle at the
/// earliest.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    busy: usize,
    /// When the last request ended; at first, when the connection began.
    quiet_since: Moment,
}

/// One request, until its answer has been sent or given up.
#[derive(Debug)]
pub(crate) struct Busy(Idle);

impl Idle {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State {
            busy: 0,
            quiet_since: clock.now(),
        };
        Idle {
            clock,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Notes that a request has come.
    pub(crate) fn begin(&self) -> Busy {
        self.change(|state| state.busy += 1);
        Busy(self.clone())
    }

    /// Waits until no request has been under way for this long.
    pub(crate) async fn wait(&self, period: Duration) {
        loop {
            let now = self.clock.now();
            let until = self.change(|state| match state.busy {
                0 => state.quiet_since + period,
                _ => now + period,
            });
            if until <= now {
                return;
            }
            self.clock.sleep_until(until).await;
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock())
    }
}

impl Busy {
    /// The answer's body, which is part of the request.
    pub(crate) fn until_sent(self, body: Body) -> Sending {
        Sending { body, _busy: self }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = self.0.clock.now();
        self.0.change(|state| {
            state.busy -= 1;
            state.quiet_since = now;
        });
    }
}

/// A body whose request lasts until it is dropped.
pub(crate) struct Sending {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use sendo_world::World;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_after_its_last_answer() {
        let world = World::seeded(0);
        let clock = world.clock();
        let idle = Idle::new(clock.clone());
        let mut waiting = Box::pin(idle.wait(MINUTE));
        assert!(poll!(&mut waiting).is_pending());

        clock.sleep(MINUTE / 2).await;
        let busy = idle.begin();
        assert!(poll!(&mut waiting).is_pending());
        let sending = busy.until_sent(Body::empty());
        clock.sleep(10 * MINUTE).await;
        assert!(poll!(&mut waiting).is_pending(), "an answer is being sent");

        let ended = clock.now();
        drop(sending);
        waiting.await;
        assert_eq!(clock.now(), ended + MINUTE);
    }
}
