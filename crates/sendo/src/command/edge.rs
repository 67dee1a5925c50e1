//! The edge of a process: signals, and an end that comes whatever the program does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use sendo_world::{Clock, Moment, Stop, World};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Result;
use crate::manager::Running;

/// How often the program's runtime shows that it runs, and how often it is looked at.
const BEAT: Duration = Duration::from_millis(250);

/// How long a runtime that shows nothing is taken to be busy; after that, blocked.
const BLOCKED: Duration = Duration::from_secs(2);

/// How long the orderly end of what serves may take, after that of what writes.
const ORDERLY: Duration = Duration::from_secs(60);

/// What looks after a program from outside of its runtime, on a thread of its own.
///
/// A reconcile that never waits keeps its thread for ever, and on a runtime of one
/// thread nothing else runs any more: no signal is seen, no lease is renewed, no
/// deadline passes. From here the process is ended all the same.
pub(super) struct Edge {
    done: Stop,
    watchers: mpsc::Sender<Watcher>,
    thread: JoinHandle<()>,
}

impl Edge {
    /// From now on signals are heard. Nothing comes of them until there is a
    /// program to [watch](Edge::watch).
    pub(super) fn start() -> Result<Self> {
        let (tell, ended) = mpsc::channel();
        let (watchers, watcher) = mpsc::channel::<Watcher>();
        let watch = move || {
            // The receiver waits for just this.
            let failed = |error: &std::io::Error| {
                let _ = tell.send(Err(error.kind()));
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime.inspect_err(failed) else {
                return;
            };
            runtime.block_on(async {
                let Ok(signals) = Signals::new().inspect_err(failed) else {
                    return;
                };
                let _ = tell.send(Ok(()));
                // There is none if the program could not be started.
                if let Ok(watcher) = watcher.recv() {
                    watcher.watch(signals).await;
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("edge".to_owned())
            .spawn(watch)?;
        if let Ok(Err(error)) = ended.recv() {
            return Err(std::io::Error::from(error).into());
        }
        Ok(Edge {
            done: Stop::new(),
            watchers,
            thread,
        })
    }

    /// Looks after a program that runs in `world`, and whose parts have `limit` to
    /// stop. Must be called on its runtime.
    pub(super) fn watch(&self, running: &Running, world: &World, limit: Duration) {
        let beat = Arc::new(Beat::new(world.clock()));
        let (beating, until) = (beat.clone(), self.done.clone());
        world.tasks().spawn("beat", async move {
            until.run_until_cancelled(beating.go_on()).await;
        });
        let watcher = Watcher {
            stop: running.stopping().clone(),
            done: self.done.clone(),
            beat,
            limit,
            overdue: running.overdue(),
            unfinished: running.unfinished(),
        };
        // The thread waits for it.
        let _ = self.watchers.send(watcher);
    }

    /// The program has ended by itself.
    pub(super) fn end(self) {
        self.done.cancel();
        // It ends at once, and a panic of it has been reported.
        let _ = self.thread.join();
    }
}

/// When the program's runtime last ran a task.
struct Beat {
    clock: Clock,
    /// In milliseconds since the clock's start.
    last: AtomicU64,
}

impl Beat {
    fn new(clock: &Clock) -> Self {
        let beat = Beat {
            clock: clock.clone(),
            last: AtomicU64::new(0),
        };
        beat.beat();
        beat
    }

    async fn go_on(&self) {
        loop {
            self.beat();
            self.clock.sleep(BEAT).await;
        }
    }

    fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Whether nothing has run for so long that nothing can.
    fn is_blocked(&self) -> bool {
        let silent = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        Duration::from_millis(silent) > BLOCKED
    }

    fn now(&self) -> u64 {
        let passed = self.clock.now().since(Moment::START).as_millis();
        u64::try_from(passed).unwrap_or(u64::MAX)
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

struct Watcher {
    stop: Stop,
    done: Stop,
    beat: Arc<Beat>,
    limit: Duration,
    /// Whether leadership is over and the election does not know it yet.
    overdue: Box<dyn Fn() -> bool + Send>,
    /// The parts that have not ended.
    unfinished: Box<dyn Fn() -> Vec<String> + Send>,
}

impl Watcher {
    async fn watch(self, mut signals: Signals) {
        let clock = self.beat.clock.clone();
        let (mut asked, mut signalled) = (None, false);
        loop {
            tokio::select! {
                biased;
                () = self.done.cancelled() => return,
                () = signals.next() => {
                    if signalled {
                        std::process::exit(1);
                    }
                    signalled = true;
                    tracing::info!("stopping; a second signal ends at once");
                    self.stop.cancel();
                }
                () = clock.sleep(BEAT) => {}
            }
            if asked.is_none() && self.stop.is_cancelled() {
                asked = Some(clock.now());
            }
            let passed = asked.map(|asked| clock.now().since(asked));
            let is_late = |limit| passed.is_some_and(|passed| passed > limit);
            if self.beat.is_blocked() {
                if (self.overdue)() {
                    self.give_up("leadership is over, and a blocked thread goes on");
                }
                if is_late(self.limit) {
                    self.give_up("not stopped in time, and a thread is blocked");
                }
            }
            if is_late(self.limit.saturating_add(ORDERLY)) {
                self.give_up("not stopped long after the deadline");
            }
        }
    }

    fn give_up(&self, why: &str) -> ! {
        let parts = (self.unfinished)();
        tracing::error!(?parts, "{why}: the process ends now");
        std::process::exit(1)
    }
}
