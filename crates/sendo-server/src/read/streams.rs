//! Polls the requests of a connection in its own task, and spawns tasks for those that wait.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use sendo_world::{Clock, Tasks};
use tokio::runtime::Handle;

/// How often the connection and its streams are polled in turn before other
/// tasks have their turn.
const ROUNDS: usize = 16;

/// What costs less to answer than to hand over to another thread, about.
const QUICK: Duration = Duration::from_micros(50);

/// How long streams are worked on, about, before their answers are sent together.
const TURN: Duration = Duration::from_millis(1);

/// How many streams are worked on in a turn at most.
const TOGETHER: u128 = 16;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams that an HTTP/2 connection carries.
///
/// They are worked on by the task of their connection, which sends the answers of
/// some together: for most requests it would cost more to wake another thread than
/// to answer, and much of what one costs is to have its code at hand. If answers
/// take their time, other threads help, each with one stream after the other. What
/// has to wait, such as a watch, becomes a task of its own.
pub(crate) struct Streams {
    begun: Begun,
    tasks: Tasks,
    clock: Clock,
    /// How many threads there are to work on streams.
    threads: usize,
    /// Held by each task that helps, too.
    helpers: Arc<()>,
    alarm: Arc<Alarm>,
    /// How long streams were worked on here lately.
    usual: Duration,
}

/// Takes the streams that begin: the executor to build a connection with.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<Mutex<VecDeque<Stream>>>);

impl<F> hyper::rt::Executor<F> for Begun
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.lock().push_back(Box::pin(stream));
    }
}

impl Begun {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Stream>> {
        self.0.lock()
    }

    fn next(&self) -> Option<Stream> {
        self.lock().pop_front()
    }
}

impl Streams {
    /// No streams yet; `tasks` owns those that become tasks.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(tasks: Tasks, clock: Clock) -> Self {
        Streams {
            begun: Begun::default(),
            tasks,
            clock,
            threads: Handle::current().metrics().num_workers(),
            helpers: Arc::default(),
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
        // Streams that were worked on and may go on soon.
        let mut here: Vec<Stream> = Vec::new();
        let mut outcome = Poll::Pending;
        let mut is_over = false;
        for _ in 0..ROUNDS {
            outcome = connection.as_mut().poll(&mut inner);
            here.retain_mut(|stream| stream.as_mut().poll(&mut inner).is_pending());
            self.take_turn(&mut here, &mut inner);
            is_over = outcome.is_ready() || (self.begun.lock().is_empty() && !alarm.rang());
            if is_over {
                break;
            }
        }
        for stream in here {
            self.tasks.spawn("stream", stream);
        }
        if outcome.is_ready() && !self.begun.lock().is_empty() {
            // They go on without their connection.
            self.call_helper();
        } else if !is_over {
            context.waker().wake_by_ref();
        }
        outcome
    }

    /// Works on streams that have begun. Those that have to wait are left `here`.
    fn take_turn(&mut self, here: &mut Vec<Stream>, context: &mut Context<'_>) {
        if self.usual >= QUICK {
            let others = self.begun.lock().len().saturating_sub(1);
            let wanted = others.min(self.threads - 1);
            for _ in Arc::strong_count(&self.helpers) - 1..wanted {
                self.call_helper();
            }
        }
        let turn = TURN.as_nanos() / self.usual.as_nanos().max(1);
        for _ in 0..turn.clamp(1, TOGETHER) {
            let Some(mut stream) = self.begun.next() else {
                return;
            };
            let began = self.clock.now();
            if stream.as_mut().poll(context).is_pending() {
                here.push(stream);
            }
            self.usual = (self.usual * 7 + (self.clock.now() - began)) / 8;
        }
    }

    /// Spawns a task that works on streams too, as long as there are any.
    fn call_helper(&self) {
        let (tasks, begun) = (self.tasks.clone(), self.begun.clone());
        let helper = Arc::clone(&self.helpers);
        self.tasks.spawn("streams", async move {
            let _helper = helper;
            while let Some(mut stream) = begun.next() {
                if futures::poll!(stream.as_mut()).is_pending() {
                    tasks.spawn("stream", stream);
                }
            }
        });
        // tokio keeps the last spawned task on this thread (LIFO slot), so spawn another one.
        self.tasks.spawn("nothing", async {});
    }
}

/// Wakes the connection's task, unless that is awake and will poll anyway: a
/// stream that has answered says so to the connection that polls it.
#[derive(Default)]
struct Alarm {
    rings: AtomicBool,
    is_awake: AtomicBool,
    task: AtomicWaker,
}

impl Alarm {
    /// The task has begun to poll.
    fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.is_awake.store(true, SeqCst);
        self.rings.store(false, SeqCst);
    }

    /// Whether there is more to poll; if not, the task will be woken from now on.
    fn rang(&self) -> bool {
        if self.rings.swap(false, SeqCst) {
            return true;
        }
        self.is_awake.store(false, SeqCst);
        // A waker may have seen the task awake a moment ago, and not woken it.
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

    /// A connection that carries some streams, and ends when `last` of them have.
    async fn carry(streams: &mut Streams, work: Vec<Stream>, mut last: usize) {
        let begun = streams.executor();
        let (ended, mut all_ended) = tokio::sync::mpsc::unbounded_channel();
        let mut work = Some(work);
        let mut connection = Box::pin(poll_fn(move |context| {
            for stream in work.take().unwrap_or_default() {
                let ended = ended.clone();
                begun.execute(async move {
                    stream.await;
                    let _ = ended.send(());
                });
            }
            while last > 0 {
                std::task::ready!(all_ended.poll_recv(context));
                last -= 1;
            }
            Poll::Ready(())
        }));
        poll_fn(|context| streams.poll(connection.as_mut(), context)).await;
    }

    #[tokio::test]
    async fn a_stream_that_comes_alone_is_no_task() {
        let tasks = Tasks::new("server");
        let (owner, found) = (tasks.clone(), Arc::new(Mutex::new(None)));
        let seen = Arc::clone(&found);
        let stream = async move { *seen.lock() = Some(owner.running()) };
        carry(&mut streams(tasks), vec![Box::pin(stream)], 1).await;
        assert_eq!(*found.lock(), Some(Vec::new()));
    }

    /// In which tasks so many streams are worked on that come together: `None` is the connection's.
    async fn shared_out(count: usize, mut streams: Streams) -> Vec<Option<tokio::task::Id>> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let stream = |_| -> Stream {
            let found = Arc::clone(&found);
            Box::pin(async move { found.lock().push(tokio::task::try_id()) })
        };
        carry(&mut streams, (0..count).map(stream).collect(), count).await;
        found.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn quick_streams_that_come_together_are_worked_on_by_their_connection() {
        let mut streams = streams(Tasks::new("server"));
        streams.threads = 3;
        streams.usual = Duration::ZERO;
        assert_eq!(shared_out(50, streams).await, [None; 50]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn other_threads_help_with_streams_that_take_their_time() {
        let mut streams = streams(Tasks::new("server"));
        assert_eq!(streams.threads, 3);
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let stream = |_| -> Stream {
            let barrier = Arc::clone(&barrier);
            // Only three at once get past it.
            Box::pin(async move { _ = barrier.wait() })
        };
        carry(&mut streams, (0..9).map(stream).collect(), 9).await;
    }

    #[tokio::test]
    async fn streams_that_have_to_wait_become_tasks_wherever_they_were_worked_on() {
        let tasks = Tasks::new("server");
        let mut streams = streams(tasks.clone());
        let never = || -> Stream { Box::pin(std::future::pending()) };
        let work = vec![never(), Box::pin(async {}), never(), Box::pin(async {})];
        carry(&mut streams, work, 2).await;
        assert_eq!(tasks.running(), ["server/stream", "server/stream"]);
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
            carry(&mut streams(tasks.clone()), vec![Box::pin(stream)], 1).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_go_on_when_their_connection_has_ended() {
        // More than are worked on in a turn.
        const COUNT: usize = 3 * TOGETHER as usize;
        let tasks = Tasks::new("server");
        let mut streams = streams(tasks.clone());
        let begun = streams.executor();
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        let mut connection = std::pin::pin!(async {
            for number in 0..COUNT {
                let send = send.clone();
                begun.execute(async move {
                    tokio::task::yield_now().await;
                    send.send(number).unwrap();
                });
            }
        });
        poll_fn(|context| streams.poll(connection.as_mut(), context)).await;
        let mut ended = Vec::new();
        while ended.len() < COUNT {
            let next = tokio::time::timeout(Duration::from_secs(1), receive.recv());
            ended.extend(next.await.expect("a stream was forgotten"));
        }
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..COUNT));
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
            () = carry(&mut streams, vec![Box::pin(busy)], 1) => unreachable!("it has no end"),
            seven = other.output() => assert_eq!(seven, Some(7)),
        }
    }
}
