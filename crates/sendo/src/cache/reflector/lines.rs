//! The lines of a watch, as the body brings them.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;

/// Cuts a body into lines. A line that comes in one piece is not copied.
pub(super) struct Lines<B> {
    body: B,
    /// What has come of a line that is not whole yet.
    partial: BytesMut,
    /// What has come and was not looked at yet.
    rest: Bytes,
}

impl<B: Body<Data = Bytes> + Unpin> Lines<B> {
    pub(super) fn new(body: B) -> Self {
        Lines {
            body,
            partial: BytesMut::new(),
            rest: Bytes::new(),
        }
    }

    /// The next line that is not blank; `None` when the body ends. What is left
    /// then of a line cut in the middle is dropped: it will be sent again.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, B::Error> {
        loop {
            while let Some(line) = self.cut() {
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            // Trailers say nothing here.
            if let Ok(data) = frame?.into_data() {
                self.rest = data;
            }
        }
    }

    fn cut(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.rest) else {
            self.partial.extend_from_slice(&self.rest);
            self.rest.clear();
            return None;
        };
        let line = self.rest.split_to(end + 1);
        if self.partial.is_empty() {
            return Some(line);
        }
        self.partial.extend_from_slice(&line);
        Some(self.partial.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    async fn lines(pieces: &[&'static str]) -> Vec<String> {
        let frames = pieces.iter().map(|piece| Frame::data(Bytes::from(*piece)));
        let frames = stream::iter(frames.map(Ok::<_, Infallible>));
        let mut lines = Lines::new(StreamBody::new(frames));
        let mut all = Vec::new();
        while let Ok(Some(line)) = lines.next().await {
            all.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        all
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_are_cut() {
        assert_eq!(lines(&["a\nb\n"]).await, ["a", "b"]);
        assert_eq!(lines(&["a", "b\nc", "\n"]).await, ["ab", "c"]);
        assert_eq!(lines(&["a\n", "\n", "", "b\n"]).await, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_line_that_was_cut_off_is_dropped() {
        assert_eq!(lines(&["a\nb"]).await, ["a"]);
    }
}
