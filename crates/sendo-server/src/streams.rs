//! Where the requests of a connection are worked on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use sendo_world::{Clock, Tasks};

/// How often the connection and its streams are looked at in turn before other
/// tasks have their turn.
const ROUNDS: usize = 16;

/// What costs less to answer than to hand over to another thread, about.
const QUICK: Duration = Duration::from_micros(50);

/// How many quick streams are worked on before their answers are sent, together.
const TOGETHER: usize = 8;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams that an HTTP/2 connection carries.
///
/// One that comes alone, and can be answered at once, is worked on by the task
/// of its connection: for most requests it would cost more to wake another thread
/// than to answer. So are those that come together, as long as answers take no
/// time to speak of. The others become tasks of their own: all but one of those
/// that come together, and what has to wait, such as a watch.
pub(crate) struct Streams {
    begun: Begun,
    tasks: Tasks,
    clock: Clock,
    alarm: Arc<Alarm>,
    /// How long streams were worked on here lately.
    usual: Duration,
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
    pub(crate) fn new(tasks: Tasks, clock: Clock) -> Self {
        Streams {
            begun: Begun::default(),
            tasks,
            clock,
            alarm: Arc::default(),
            usual: QUICK,
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
        // Those that wait for their first turn, and those that have had it.
        let (mut new, mut here) = (VecDeque::new(), Vec::new());
        let mut outcome = Poll::Pending;
        let mut is_over = false;
        for _ in 0..ROUNDS {
            outcome = connection.as_mut().poll(&mut inner);
            new.extend(std::mem::take(&mut *self.begun.lock()));
            here.retain_mut(|stream: &mut Stream| stream.as_mut().poll(&mut inner).is_pending());
            let many = if self.usual < QUICK { TOGETHER } else { 1 };
            let many = many.min(new.len());
            if many == 1 {
                self.hand_over(new.drain(1..));
            }
            for mut stream in new.drain(..many) {
                if self.work_on(&mut stream, &mut inner).is_pending() {
                    here.push(stream);
                }
            }
            is_over = outcome.is_ready() || (new.is_empty() && !alarm.rang());
            if is_over {
                break;
            }
        }
        self.hand_over(new.into_iter().chain(here));
        if !is_over {
            context.waker().wake_by_ref();
        }
        outcome
    }

    /// Works on a stream for the first time.
    fn work_on(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<()> {
        let began = self.clock.now();
        let outcome = stream.as_mut().poll(context);
        self.usual = (self.usual * 7 + (self.clock.now() - began)) / 8;
        outcome
    }

    fn hand_over(&self, streams: impl Iterator<Item = Stream>) {
        for stream in streams {
            self.tasks.spawn("stream", stream);
        }
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
    use sendo_world::World;
    use tokio::sync::oneshot;

    use super::*;

    fn streams(tasks: Tasks) -> Streams {
        Streams::new(tasks, World::real().clock().clone())
    }

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
        carry(&mut streams(tasks), vec![Box::pin(stream)]).await;
        assert_eq!(*found.lock().unwrap(), Some(Vec::new()));
    }

    #[tokio::test]
    async fn of_streams_that_come_together_all_but_one_are_tasks() {
        let tasks = Tasks::new("server");
        let mut streams = streams(tasks.clone());
        let never = || -> Stream { Box::pin(std::future::pending()) };
        carry(&mut streams, vec![never(), never(), Box::pin(async {})]).await;
        assert_eq!(tasks.running(), ["server/stream", "server/stream"]);
    }

    #[tokio::test]
    async fn quick_streams_that_come_together_are_no_tasks() {
        let tasks = Tasks::new("server");
        let mut streams = streams(tasks.clone());
        streams.usual = Duration::ZERO;
        let most = Arc::new(Mutex::new(0));
        let quick = || -> Stream {
            let (owner, most) = (tasks.clone(), Arc::clone(&most));
            Box::pin(async move {
                let mut most = most.lock().unwrap();
                *most = owner.running().len().max(*most);
            })
        };
        carry(&mut streams, (0..TOGETHER * 3).map(|_| quick()).collect()).await;
        assert_eq!(*most.lock().unwrap(), 0);
    }

    #[tokio::test]
    async fn a_stream_that_has_to_wait_becomes_a_task_and_is_not_forgotten() {
        let tasks = Tasks::new("server");
        for _ in 0..100 {
            let (send, receive) = oneshot::channel();
            let stream = async move { receive.await.unwrap() };
            tasks.spawn("other", async move {
                tokio::task::yield_now().await;
                send.send(()).unwrap();
            });
            carry(&mut streams(tasks.clone()), vec![Box::pin(stream)]).await;
        }
    }

    #[tokio::test]
    async fn a_stream_goes_on_when_its_connection_has_ended() {
        let tasks = Tasks::new("server");
        let mut streams = streams(tasks.clone());
        let begun = streams.executor();
        let (send, receive) = oneshot::channel();
        let mut connection = std::pin::pin!(async {
            begun.execute(async move {
                tokio::task::yield_now().await;
                send.send(7).unwrap();
            });
        });
        poll_fn(|context| streams.poll(connection.as_mut(), context)).await;
        assert_eq!(receive.await, Ok(7));
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
        let mut streams = streams(tasks.clone());
        tokio::select! {
            biased;
            () = carry(&mut streams, vec![Box::pin(busy)]) => unreachable!("it has no end"),
            seven = other.output() => assert_eq!(seven, Some(7)),
        }
    }
}
