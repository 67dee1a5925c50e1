//! Whether a connection has anything to do.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use sendo_world::Clock;
use tokio::sync::watch;

use crate::body::Body;

/// Counts the requests of a connection that are not answered to their end.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    busy: watch::Sender<usize>,
}

/// One request, until its answer has been sent or given up.
#[derive(Debug)]
pub(crate) struct Busy(watch::Sender<usize>);

impl Idle {
    pub(crate) fn new() -> Self {
        Idle {
            busy: watch::Sender::new(0),
        }
    }

    /// Notes that a request has come.
    pub(crate) fn begin(&self) -> Busy {
        self.busy.send_modify(|busy| *busy += 1);
        Busy(self.busy.clone())
    }

    /// Waits until nothing has been asked for this long.
    pub(crate) async fn wait(&self, clock: &Clock, period: Duration) {
        let mut busy = self.busy.subscribe();
        loop {
            // It cannot fail: `self` holds a sender.
            let _ = busy.wait_for(|count| *count == 0).await;
            tokio::select! {
                biased;
                _ = busy.changed() => {}
                () = clock.sleep(period) => return,
            }
        }
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
        self.0.send_modify(|busy| *busy -= 1);
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
    use futures::{FutureExt, poll};
    use sendo_world::World;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_after_its_last_answer() {
        let world = World::seeded(0);
        let (clock, idle) = (world.clock(), Idle::new());
        let mut waiting = Box::pin(idle.wait(clock, MINUTE));
        assert!(poll!(&mut waiting).is_pending());

        clock.sleep(MINUTE / 2).await;
        let busy = idle.begin();
        assert!(poll!(&mut waiting).is_pending());
        let sending = busy.until_sent(Body::empty());
        clock.sleep(10 * MINUTE).await;
        assert!(poll!(&mut waiting).is_pending(), "an answer is being sent");

        drop(sending);
        assert!(poll!(&mut waiting).is_pending());
        clock.sleep(MINUTE / 2).await;
        assert!(waiting.as_mut().now_or_never().is_none());
        clock.sleep(MINUTE).await;
        assert!(waiting.now_or_never().is_some());
    }
}
