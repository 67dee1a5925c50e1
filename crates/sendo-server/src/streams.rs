//! Where the requests of a connection are worked on.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::task::AtomicWaker;
use sendo_world::Tasks;

/// How often the connection and its streams are looked at in turn before other
/// tasks have their turn.
const ROUNDS: usize = 16;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams that an HTTP/2 connection carries.
///
/// One that comes alone is worked on by the task of its connection: for most
/// requests it would cost more to wake another thread than to answer. Of several
/// that come together, all but one become tasks of their own.
pub(crate) struct Streams {
    begun: Begun,
    here: FuturesUnordered<Stream>,
    tasks: Tasks,
    alarm: Arc<Alarm>,
}

/// Takes the streams that begin: the executor to build a connection with.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<Vec<Stream>>>);

impl<F> hyper::rt::Executor<F> for Begun
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.lock().push(Box::pin(stream));
    }
}

impl Begun {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// No streams yet; `tasks` owns those that become tasks.
    pub(crate) fn new(tasks: Tasks) -> Self {
        Streams {
            begun: Begun::default(),
            here: FuturesUnordered::new(),
            tasks,
            alarm: Arc::default(),
        }
    }

    /// What the connection is to be built with.
    pub(crate) fn executor(&self) -> Begun {
        self.begun.clone()
    }

    /// Polls the connection, and its streams with it.
    pub(crate) fn poll<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        let alarm = Arc::clone(&self.alarm);
        let waker = Waker::from(Arc::clone(&alarm));
        let mut inner = Context::from_waker(&waker);
        alarm.begin(context.waker());
        for _ in 0..ROUNDS {
            if let Poll::Ready(ended) = connection.as_mut().poll(&mut inner) {
                return Poll::Ready(ended);
            }
            let mut begun = std::mem::take(&mut *self.begun.lock());
            self.here.extend(begun.pop());
            for stream in begun {
                self.tasks.spawn("stream", stream);
            }
            while let Poll::Ready(Some(())) = self.here.poll_next_unpin(&mut inner) {}
            if !alarm.rang() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Wakes the connection's task, unless that is awake and will look anyway: a
/// stream that has answered says so to the connection that polls it.
#[derive(Default)]
struct Alarm {
    rings: AtomicBool,
    is_awake: AtomicBool,
    task: AtomicWaker,
}

impl Alarm {
    /// The task has begun to look.
    fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.is_awake.store(true, SeqCst);
        self.rings.store(false, SeqCst);
    }

    /// Whether there is more to look at; if not, the task will be woken from now on.
    fn rang(&self) -> bool {
        if self.rings.swap(false, SeqCst) {
            return true;
        }
        self.is_awake.store(false, SeqCst);
        // Somebody may have relied on the task being awake a moment ago.
        let rang = self.rings.swap(false, SeqCst);
        self.is_awake.store(rang, SeqCst);
        rang
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rings.store(true, SeqCst);
        if !self.is_awake.load(SeqCst) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper::rt::Executor as _;
    use tokio::sync::oneshot;

    use super::*;

    /// A connection that carries some streams, and ends when they have.
    async fn carry(streams: &mut Streams, work: Vec<Stream>) {
        let begun = streams.executor();
        let mut work = Some(work);
        let (ended, mut all_ended) = tokio::sync::mpsc::channel::<()>(1);
        let mut connection = Box::pin(poll_fn(move |context| {
            for stream in work.take().unwrap_or_default() {
                let ended = ended.clone();
                begun.execute(async move {
                    stream.await;
                    let _ = ended.send(()).await;
                });
            }
            match all_ended.poll_recv(context) {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            }
        }));
        poll_fn(|context| streams.poll(connection.as_mut(), context)).await;
    }

    #[tokio::test]
    async fn a_stream_that_comes_alone_is_no_task() {
        let tasks = Tasks::new("server");
        let (owner, found) = (tasks.clone(), Arc::new(Mutex::new(None)));
        let seen = Arc::clone(&found);
        let stream = async move { *seen.lock().unwrap() = Some(owner.running()) };
        carry(&mut Streams::new(tasks), vec![Box::pin(stream)]).await;
        assert_eq!(*found.lock().unwrap(), Some(Vec::new()));
    }

    #[tokio::test]
    async fn of_streams_that_come_together_all_but_one_are_tasks() {
        let tasks = Tasks::new("server");
        let mut streams = Streams::new(tasks.clone());
        let never = || -> Stream { Box::pin(std::future::pending()) };
        carry(&mut streams, vec![never(), never(), Box::pin(async {})]).await;
        assert_eq!(tasks.running(), ["server/stream", "server/stream"]);
    }

    #[tokio::test]
    async fn what_a_stream_waits_for_wakes_the_connection() {
        let tasks = Tasks::new("server");
        for _ in 0..100 {
            let (send, receive) = oneshot::channel();
            let stream = async move { receive.await.unwrap() };
            tasks.spawn("other", async move {
                tokio::task::yield_now().await;
                send.send(()).unwrap();
            });
            carry(&mut Streams::new(tasks.clone()), vec![Box::pin(stream)]).await;
        }
    }

    #[tokio::test]
    async fn a_stream_that_always_has_more_leaves_others_their_turn() {
        let tasks = Tasks::new("server");
        let other = tasks.spawn("other", async { 7 });
        let busy = async {
            loop {
                // Wakes itself and waits.
                let mut is_first = true;
                poll_fn(|context| match std::mem::take(&mut is_first) {
                    true => {
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    false => Poll::Ready(()),
                })
                .await;
            }
        };
        let mut streams = Streams::new(tasks.clone());
        tokio::select! {
            biased;
            () = carry(&mut streams, vec![Box::pin(busy)]) => unreachable!("it has no end"),
            seven = other.output() => assert_eq!(seven, Some(7)),
        }
    }
}
