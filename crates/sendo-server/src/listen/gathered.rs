//! Gathers what is written to a connection, to send it together.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is gathered before it is sent in any case.
const MOST: usize = 128 * 1024;
/// How much room a connection keeps for the next time.
const KEPT: usize = 64 * 1024;

/// A connection whose writes can be gathered.
///
/// HTTP/2 has every frame of some size flushed before the next one. Each time that
/// is a system call, and at the other end most often a thread that wakes for
/// one message of many. While the connection is [polled](Self::poll_gathered),
/// flushing therefore does nothing: what was written is sent once, after that.
///
/// Clones are the same connection.
pub struct Gathered<S>(Arc<Mutex<State<S>>>);

struct State<S> {
    stream: S,
    written: Vec<u8>,
    /// How much of that is sent.
    sent: usize,
    /// More is about to be written.
    is_open: bool,
    /// Why sending has failed, for who writes or flushes next.
    failed: Option<io::Error>,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Gathered(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// A connection over `stream`, of which nothing is gathered yet.
    pub fn new(stream: S) -> Self {
        Gathered(Arc::new(Mutex::new(State {
            stream,
            written: Vec::new(),
            sent: 0,
            is_open: false,
            failed: None,
        })))
    }

    /// Polls whoever writes to the connection, and sends what that was.
    pub fn poll_gathered<F: Future>(
        &self,
        writer: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.lock().is_open = true;
        let outcome = writer.poll(context);
        let mut state = self.lock();
        state.is_open = false;
        if let Poll::Ready(Err(error)) = state.poll_send(context) {
            // The writer hears of it when it goes on.
            state.failed = Some(error);
            context.waker().wake_by_ref();
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock()
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        while self.sent < self.written.len() {
            let rest = &self.written[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.written.clear();
        self.written.shrink_to(KEPT);
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends what there is if it is enough, so that there is room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.failed.is_some() || self.written.len() >= MOST {
            ready!(self.poll_send(context))?;
        }
        Poll::Ready(Ok(MOST - self.written.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        Pin::new(&mut state.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        let room = ready!(state.poll_room(context))?;
        let before = state.written.len();
        for piece in pieces {
            let left = room - (state.written.len() - before);
            state
                .written
                .extend_from_slice(&piece[..piece.len().min(left)]);
        }
        Poll::Ready(Ok(state.written.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        if state.is_open && state.failed.is_none() {
            return Poll::Ready(Ok(()));
        }
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Takes what it is sent piece by piece, until it is broken.
    #[derive(Clone, Default)]
    struct Socket(Arc<Mutex<(Vec<Vec<u8>>, bool)>>);

    impl Socket {
        fn pieces(&self) -> Vec<String> {
            let taken = std::mem::take(&mut self.0.lock().0);
            let text = |piece| String::from_utf8(piece).unwrap();
            taken.into_iter().map(text).collect()
        }

        fn break_down(&self) {
            self.0.lock().1 = true;
        }
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let mut state = self.0.lock();
            if state.1 {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            state.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Runs a writer as the task of a connection does.
    async fn gather<S: AsyncWrite + Unpin, T>(
        connection: &Gathered<S>,
        writer: impl Future<Output = T>,
    ) -> T {
        let mut writer = pin!(writer);
        poll_fn(|context| connection.poll_gathered(writer.as_mut(), context)).await
    }

    async fn say(connection: &mut Gathered<Socket>, text: &str) -> io::Result<()> {
        connection.write_all(text.as_bytes()).await?;
        connection.flush().await
    }

    #[tokio::test]
    async fn what_one_poll_writes_is_sent_in_one_piece() {
        let socket = Socket::default();
        let connection = Gathered::new(socket.clone());
        let mut own = connection.clone();
        gather(&connection, async {
            say(&mut own, "a").await.unwrap();
            say(&mut own, "b").await.unwrap();
            assert!(socket.pieces().is_empty());
            tokio::task::yield_now().await;
            assert_eq!(socket.pieces(), ["ab"]);
            say(&mut own, "c").await.unwrap();
        })
        .await;
        assert_eq!(socket.pieces(), ["c"]);
    }

    #[tokio::test]
    async fn whoever_else_writes_is_not_kept_waiting() {
        let socket = Socket::default();
        let mut connection = Gathered::new(socket.clone());
        say(&mut connection, "a").await.unwrap();
        assert_eq!(socket.pieces(), ["a"]);
        connection.write_all(b"b").await.unwrap();
        assert!(socket.pieces().is_empty());
        connection.shutdown().await.unwrap();
        assert_eq!(socket.pieces(), ["b"]);
    }

    #[tokio::test]
    async fn much_is_sent_before_the_end() {
        let socket = Socket::default();
        let connection = Gathered::new(socket.clone());
        let mut own = connection.clone();
        let text = "0123456789".repeat(MOST / 4);
        gather(&connection, async {
            say(&mut own, &text).await.unwrap();
            assert_eq!(socket.0.lock().0.len(), 2);
        })
        .await;
        assert_eq!(socket.pieces().concat(), text);
        assert!(connection.lock().written.capacity() <= KEPT);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_gets_everything_in_order() {
        let (near, mut far) = duplex(1000);
        let connection = Gathered::new(near);
        let mut own = connection.clone();
        let text: Vec<u8> = (0..3 * MOST).map(|i| (i % 251) as u8).collect();
        let sending = gather(&connection, async {
            for piece in text.chunks(4000) {
                own.write_all(piece).await.unwrap();
                own.flush().await.unwrap();
            }
            own.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        let (_, received) = tokio::join!(sending, far.read_to_end(&mut read));
        received.unwrap();
        assert!(read == text, "what came is not what was sent");
    }

    #[tokio::test]
    async fn a_broken_connection_is_reported_to_its_writer() {
        let socket = Socket::default();
        let connection = Gathered::new(socket.clone());
        let mut own = connection.clone();
        socket.break_down();
        let heard = gather(&connection, async {
            say(&mut own, "a").await.unwrap();
            tokio::task::yield_now().await;
            say(&mut own, "b").await.unwrap_err().kind()
        });
        assert_eq!(heard.await, io::ErrorKind::ConnectionReset);
    }
}
