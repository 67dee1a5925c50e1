//! Events from anywhere in the program, through a bounded channel.

use tokio::sync::mpsc;

use super::{Source, ready_then};

/// A source fed by a [`Sender`], with room for `capacity` events not yet handled.
///
/// An event may be of any type. A full channel makes the sender wait, so nothing is lost.
///
/// # Panics
/// If `capacity` is zero.
pub fn channel<E: Send + 'static>(capacity: usize) -> (Sender<E>, Source<E>) {
    let (sender, mut receiver) = mpsc::channel(capacity);
    let source = Source::new("channel", move |_| {
        ready_then(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    });
    (Sender(sender), source)
}

/// The sending end of a [`channel`]. Cheap to clone.
#[derive(Debug)]
pub struct Sender<E>(mpsc::Sender<E>);

impl<E> Clone for Sender<E> {
    fn clone(&self) -> Self {
        Sender(self.0.clone())
    }
}

/// The controller that reads the channel has ended.
#[derive(Debug, thiserror::Error)]
#[error("the controller that reads this channel has ended")]
pub struct Closed;

impl<E> Sender<E> {
    /// Sends an event, waiting while the channel is full.
    ///
    /// Cancel safe: a dropped future has sent nothing.
    pub async fn send(&self, event: E) -> Result<(), Closed> {
        self.0.send(event).await.map_err(|_| Closed)
    }
}
