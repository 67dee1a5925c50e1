//! The body of a response: bytes at once, or a stream of them.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use http_body_util::BodyStream;

/// The body of an answer. It never fails: a watch that must end early says so in an event, and
/// one that another server breaks off just ends.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    /// A body sent as it comes, one frame per item.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Body(Kind::Stream(Box::pin(stream)))
    }

    /// The body as a stream, one item per frame.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        match self.0 {
            Kind::Whole(bytes) => futures::stream::iter(bytes).left_stream(),
            Kind::Stream(stream) => stream.right_stream(),
        }
    }

    /// What another server sends, as it comes.
    pub(crate) fn received(body: hyper::body::Incoming) -> Self {
        if http_body::Body::is_end_stream(&body) {
            return Body::empty();
        }
        let frames = BodyStream::new(body).map(|frame| match frame {
            Ok(frame) => Some(frame.into_data().unwrap_or_default()),
            Err(error) => {
                tracing::debug!(%error, "another server broke a response off");
                None
            }
        });
        let until_broken = frames.take_while(|bytes| ready(bytes.is_some()));
        Body::stream(until_broken.filter_map(ready))
    }

    /// No body.
    pub(crate) fn empty() -> Self {
        Body(Kind::Whole(None))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => f.debug_tuple("Body").field(bytes).finish(),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Kind::Whole(bytes) => bytes.take(),
            Kind::Stream(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
