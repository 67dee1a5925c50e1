//! Events that a function makes: a ticker, or anything that runs.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::future::FutureExt;
use sendo_world::{Stop, Timestamp, World};
use tokio::sync::mpsc;

use super::{Closed, Opening, Source, from_task, ready_then};
use crate::error::panic_message;
use crate::error::{Error, Result};

/// How many events a function may be ahead of the handler.
const AHEAD: usize = 64;

/// How long a function that failed waits before it runs again, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(800);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A beat of a [`ticker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// When it was.
    pub at: Timestamp,
}

/// An event every `period`, the first after one period. Beats that were missed
/// are left out.
///
/// It belongs to its controller: on the leader only, if that works there only.
///
/// # Panics
/// If `period` is zero.
pub fn ticker(period: Duration) -> Source<Tick> {
    assert!(!period.is_zero(), "a ticker needs a period");
    function("ticker", move |out: Output<Tick>| async move {
        let clock = out.world().clock().clone();
        let mut beat = clock.interval(period);
        beat.tick().await;
        loop {
            beat.tick().await;
            out.send(Tick { at: clock.wall() }).await?;
        }
    })
}

/// Events that `run` sends while it runs. The source is ready at once.
///
/// `run` is dropped when the controller stops or the source is taken away. If it returns `Ok`, the source has
/// ended; if it fails or panics, that is reported and it runs again, after 0.8 s
/// at first and 30 s at most. Neither delays any other source.
///
/// ```
/// use sendo::source;
///
/// # async fn next_message() -> sendo::Result<String> { std::future::pending().await }
/// let messages = source::function("messages", |out| async move {
///     loop {
///         out.send(next_message().await?).await?;
///     }
/// });
/// # let _: source::Source<String> = messages;
/// ```
pub fn function<E, F>(name: &str, run: impl Fn(Output<E>) -> F + Send + Sync + 'static) -> Source<E>
where
    E: Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let label = name.to_owned();
    Source::new(name, move |opening: Opening| {
        let (events, receiver) = mpsc::channel(AHEAD);
        let world = opening.world;
        let task = format!("function {label}");
        ready_then(from_task(
            &world.clone(),
            &task,
            receiver,
            |stop| async move {
                let out = Output {
                    events,
                    world,
                    stop,
                };
                again_and_again(&label, out, run).await;
            },
        ))
    })
}

async fn again_and_again<E, F>(name: &str, out: Output<E>, run: impl Fn(Output<E>) -> F)
where
    F: Future<Output = Result<()>>,
{
    let mut wait = FIRST_WAIT;
    loop {
        let clock = out.world.clock();
        let started = clock.now();
        let ended = AssertUnwindSafe(async { run(out.clone()).await });
        let error = match ended.catch_unwind().await {
            Ok(Ok(())) => return,
            // Nothing receives its events any more.
            Ok(Err(_)) if out.events.is_closed() => return,
            Ok(Err(error)) => error,
            Err(panic) => Error::message(format!("it panicked: {}", panic_message(&*panic))),
        };
        if clock.now() - started > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        tracing::error!(source = name, %error, ?wait, "a source failed; it runs again");
        clock.sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Where a [`function`] sends its events. Cheap to clone.
pub struct Output<E> {
    events: mpsc::Sender<E>,
    world: World,
    stop: Stop,
}

impl<E> Output<E> {
    /// Sends an event; waits while the handler is far behind. Fails if the
    /// controller has ended or the source was taken away: the function is then
    /// dropped, or returns the error with `?`, which is no failure of the source.
    ///
    /// Cancel safe: a dropped future has sent nothing.
    pub async fn send(&self, event: E) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }

    /// The world of the controller: its clock, its randomness, its tasks.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Cancelled when the controller is to stop or the source is taken away. What
    /// the function has started beside itself ends by it.
    pub fn stopping(&self) -> &Stop {
        &self.stop
    }
}

impl<E> Clone for Output<E> {
    fn clone(&self) -> Self {
        Output {
            events: self.events.clone(),
            world: self.world.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<E> fmt::Debug for Output<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}
