//! Events from anywhere in the program, through a bounded channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Opening, Source, ready_then};

/// A source fed by a [`Sender`], with a buffer of `capacity` events not yet handled.
///
/// An event may be of any type. What happens when the channel is full is up to
/// who sends: [`Sender::send`] waits, so that nothing is lost;
/// [`Sender::offer`] drops the event and counts it, so that nobody waits.
///
/// # Panics
/// If `capacity` is zero.
pub fn channel<E: Send + 'static>(capacity: usize) -> (Sender<E>, Source<E>) {
    let (events, mut receiver) = mpsc::channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    let counted = dropped.clone();
    let source = Source::new("channel", move |opening: Opening| {
        opening.metrics.follow_source(&opening.name, counted);
        ready_then(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    });
    (Sender { events, dropped }, source)
}

/// The sending end of a [`channel`]. Cheap to clone.
#[derive(Debug)]
pub struct Sender<E> {
    events: mpsc::Sender<E>,
    dropped: Arc<AtomicU64>,
}

impl<E> Clone for Sender<E> {
    fn clone(&self) -> Self {
        Sender {
            events: self.events.clone(),
            dropped: self.dropped.clone(),
        }
    }
}

/// Nobody reads the events any more: the controller has ended, or the source was
/// taken away.
#[derive(Debug, thiserror::Error)]
#[error("the controller that reads these events has ended, or watches this source no more")]
pub struct Closed;

impl<E> Sender<E> {
    /// Sends an event, waiting while the channel is full.
    ///
    /// Cancel safe: a dropped future has sent nothing.
    pub async fn send(&self, event: E) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }

    /// Sends an event if the buffer is not full. Returns whether there was: if not, the
    /// event is gone, and counted. Never waits.
    pub fn offer(&self, event: E) -> Result<bool, Closed> {
        match self.events.try_send(event) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            Err(TrySendError::Closed(_)) => Err(Closed),
        }
    }

    /// How many offered events were dropped. Also the metric
    /// `sendo_source_dropped_total`, by controller and source.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
