//! Watches: streams of changes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::FusedStream;

use crate::{Batch, Error, Revision};

/// A stream of the changes in a range of keys; each item is a transaction.
///
/// Items come in the order of their revisions, each revision once and whole.
/// An error ends the stream: [`Error::Compacted`] if the watch fell so far
/// behind that changes it had not read were forgotten. A watch never blocks a
/// writer. The stream ends without an error only when the store is dropped.
///
/// Dropping a watch cancels it. Waiting for the next item is cancel safe.
pub struct Watch {
    source: Box<dyn WatchSource>,
    ended: bool,
}

impl Watch {
    /// A watch with the changes of `source`.
    pub fn new(source: impl WatchSource) -> Self {
        Watch {
            source: Box::new(source),
            ended: false,
        }
    }

    /// The progress of this watch: it has returned every change in its range up to and including
    /// this revision, and all further items are after it.
    ///
    /// It increases with writes outside the range too, without waking anyone, so that a watch of a
    /// range that rarely changes can be resumed from a recent revision. It is never less than the
    /// revision after which the watch was opened, and never decreases.
    pub fn progress(&self) -> Revision {
        self.source.progress()
    }
}

/// The changes of a [`Watch`], implemented by back ends.
pub trait WatchSource: Send + 'static {
    /// The next transaction, as for [`Stream::poll_next`]. Not called again
    /// after an error or the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, Error>>>;

    /// See [`Watch::progress`].
    fn progress(&self) -> Revision;
}

impl Stream for Watch {
    type Item = Result<Batch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let item = self.source.poll_next(cx);
        self.ended = matches!(item, Poll::Ready(None | Some(Err(_))));
        item
    }
}

impl FusedStream for Watch {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("progress", &self.progress())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
