//! A stream of changes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::FusedStream;

use crate::{Batch, Error, Revision};

/// The changes of a range of keys, one transaction an item.
///
/// Items come in the order of their revisions, each revision once and whole.
/// An error ends the stream: [`Error::Compacted`] if the watch fell so far
/// behind that changes it had not read were forgotten. A watch never makes a
/// writer wait. The stream ends without an error only when the store is gone.
///
/// Dropping a watch cancels it. Waiting for the next item is cancel safe.
pub struct Watch {
    source: Box<dyn WatchSource>,
    ended: bool,
}

impl Watch {
    /// A watch that a back end feeds.
    pub fn new(source: impl WatchSource) -> Self {
        Watch {
            source: Box::new(source),
            ended: false,
        }
    }

    /// How far this watch has come: every change in its range up to and
    /// including this revision has been handed out, and all further items lie
    /// after it.
    ///
    /// It moves on with writes outside the range too, without waking anyone, so
    /// that who watches a quiet range can resume from a recent revision. Never
    /// less than the revision the watch was opened after, and never falls.
    pub fn progress(&self) -> Revision {
        self.source.progress()
    }
}

/// What a back end gives to make a [`Watch`].
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
