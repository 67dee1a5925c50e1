//! The workers: take a key, reconcile it, and handle its result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use sendo_world::Stop;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::dynamic::{Watches, carry_out};
use super::watch::{Pump, Watch};
use super::workbench::Workbench;
use super::{Action, Announce, BusyKeys, Key, Prepared, Settings, Stuck, Surroundings};
use crate::context::{Context, Shared};
use crate::error::{Category, Error, Result, Undeclared, panic_message};
use crate::metrics::{ControllerMetrics, QueueMetrics, ReconcileResult};
use crate::queue::{Options, Picked, Queue};
use crate::reader::Reader;
use crate::source::Opening;

/// What a worker does with a key.
pub(crate) trait Job<Q>: Send + Sync + 'static {
    fn run(&self, key: Q, cx: Context) -> BoxFuture<'_, Result<Action>>;
}

/// Adds a declared index to the informer it belongs to.
pub(crate) type AddIndex = Box<dyn FnOnce(&Reader) + Send>;

/// A controller as declared, with the type of its keys known.
pub(crate) struct Plan<Q> {
    pub(crate) name: String,
    pub(crate) settings: Settings<Q>,
    pub(crate) watches: Vec<Watch<Q>>,
    pub(crate) indexes: Vec<AddIndex>,
    pub(crate) job: Box<dyn Job<Q>>,
}

impl<Q: Key> Plan<Q> {
    /// Opens the sources, whose events fill the queue from now on.
    pub(crate) fn prepare(self, surroundings: Surroundings) -> Prepared {
        let Surroundings { cache, world, .. } = &surroundings;
        let namespaces = &surroundings.namespaces;
        let reader = Reader::open(&self.name, &self.settings.reads, cache, world, namespaces);
        for add in self.indexes {
            add(&reader);
        }
        let metrics = ControllerMetrics::new(&surroundings.metrics, &self.name);
        let workers = surroundings.workers.get(&self.name).copied();
        let workers = workers.unwrap_or(self.settings.workers).max(1);
        metrics.set_workers(workers);
        let queue_metrics = QueueMetrics::new(&surroundings.metrics, &self.name);
        let defaults = Options::default();
        let queue = Queue::new(
            world,
            Options {
                limiter: self.settings.limiter,
                fairness: self.settings.fairness.unwrap_or(defaults.fairness),
                observer: Some(queue_metrics.observer()),
            },
        );
        queue_metrics.follow(&queue);

        let pumps = Pumps {
            controller: self.name.clone(),
            opening: Opening {
                cache: cache.clone(),
                client: surroundings.kube.for_discovery().clone(),
                world: world.clone(),
                metrics: surroundings.metrics.clone(),
                name: self.name.clone(),
                namespaces: namespaces.clone(),
                removable: false,
            },
            reader: reader.clone(),
            queue: queue.clone(),
            metrics: metrics.clone(),
        };
        let mut ready = Vec::new();
        let stopping = world.tasks().stopping();
        for watch in self.watches {
            ready.push(pumps.start(watch, stopping.clone(), false));
        }
        for orders in self.settings.dynamic.iter().filter_map(Watches::take) {
            let pumps = pumps.clone();
            let start = move |watch, stop| drop(pumps.start(watch, stop, true));
            world
                .tasks()
                .spawn("sources", carry_out(orders, stopping.clone(), start));
        }
        let reads = reader.clone();
        let ready = async move {
            join_all(ready).await;
            reads.synced().await;
        };

        let pool = Arc::new(WorkerPool {
            name: self.name,
            timeout: self.settings.timeout,
            job: self.job,
            queue,
            metrics,
            announce: self.settings.announce,
            workbenches: (0..workers)
                .map(|_| Workbench::new(world.clock()))
                .collect(),
            shared: Arc::new(Shared {
                leads: surroundings.leads.clone(),
                reader,
                client: surroundings.client.clone(),
                kube: surroundings.kube.clone(),
                recorder: surroundings.recorder.clone(),
                stopping: world.tasks().stopping().clone(),
                world: world.clone(),
            }),
        });
        Prepared {
            ready: Box::pin(ready),
            stuck: pool.stuck(),
            busy: pool.busy(),
            work: Box::pin(pool.work()),
        }
    }
}

/// Where the sources of a controller are opened and lead to.
#[derive(Clone)]
struct Pumps<Q> {
    controller: String,
    opening: Opening,
    reader: Reader,
    queue: Queue<Q>,
    metrics: ControllerMetrics,
}

impl<Q: Key> Pumps<Q> {
    /// Opens a source; its events fill the queue until `stop`. The receiver resolves when it has
    /// delivered what was there.
    fn start(&self, watch: Watch<Q>, stop: Stop, removable: bool) -> oneshot::Receiver<()> {
        let (ready, heard) = oneshot::channel();
        let name = format!("source {}", watch.name);
        let opening = Opening {
            name: format!("{}/{}", self.controller, watch.name),
            removable,
            ..self.opening.clone()
        };
        let tasks = opening.world.tasks().clone();
        let pump = watch.start(Pump {
            opening,
            reader: self.reader.clone(),
            queue: self.queue.clone(),
            metrics: self.metrics.clone(),
            ready,
        });
        let span = tracing::info_span!("controller", name = %self.controller);
        let pump = async move {
            stop.run_until_cancelled(pump).await;
        };
        tasks.spawn(&name, pump.instrument(span));
        heard
    }
}

/// The workers of one controller and what they share.
struct WorkerPool<Q> {
    name: String,
    timeout: Option<Duration>,
    job: Box<dyn Job<Q>>,
    queue: Queue<Q>,
    metrics: ControllerMetrics,
    /// Called with every key that was reconciled with success.
    announce: Vec<Announce<Q>>,
    /// One for each worker.
    workbenches: Arc<[Workbench]>,
    shared: Arc<Shared>,
}

/// How long a reconcile may not wait for anything before it counts as stuck; and
/// how long after its time-out it may still be there.
const STUCK_AFTER: Duration = Duration::from_secs(60);

impl<Q: Key> WorkerPool<Q> {
    fn stuck(&self) -> Stuck {
        let (name, timeout) = (self.name.clone(), self.timeout);
        let (stats, workbenches) = (self.queue.stats_while_alive(), self.workbenches.clone());
        Box::new(move || {
            let blocks = workbenches.iter().find_map(|workbench| {
                let busy = workbench.busy_for().filter(|busy| *busy > STUCK_AFTER)?;
                Some((busy, workbench.key().unwrap_or_default()))
            });
            if let Some((busy, key)) = blocks {
                return Some(format!(
                    "a reconcile of {name} ({key}) has not waited for anything for {busy:.0?}, and blocks its thread"
                ));
            }
            let (limit, running) = (timeout?, stats()?.longest_running);
            (running > limit + STUCK_AFTER).then(|| {
                format!("a reconcile of {name} has run for {running:.0?}, and may for {limit:?}")
            })
        })
    }

    fn busy(&self) -> BusyKeys {
        let workbenches = self.workbenches.clone();
        Arc::new(move || {
            let keys = workbenches.iter().filter_map(Workbench::key);
            keys.map(|key| key.to_string()).collect()
        })
    }

    async fn work(self: Arc<Self>) {
        let tasks = self.shared.world.tasks();
        let workers: Vec<_> = (0..self.workbenches.len())
            .map(|place| tasks.spawn("worker", self.clone().worker(place)))
            .collect();
        self.shared.stopping.cancelled().await;
        // What is queued is found again by whoever comes next.
        self.queue.abandon();
        for worker in workers {
            worker.output().await;
        }
    }

    async fn worker(self: Arc<Self>, place: usize) {
        // No new key is taken after the stop.
        while !self.shared.stopping.is_cancelled() {
            let Some(picked) = self.queue.next().await else {
                return;
            };
            let span = tracing::info_span!(
                "reconcile",
                controller = %self.name,
                key = %picked.key(),
                id = %self.shared.world.random().name_suffix(8),
            );
            let workbench = &self.workbenches[place];
            self.reconcile(picked, workbench).instrument(span).await;
        }
    }

    async fn reconcile(&self, picked: Picked<Q>, workbench: &Workbench) {
        let clock = self.shared.world.clock();
        let started = clock.now();
        let _active = self.metrics.active();
        let result = self.attempt(picked.key(), workbench).await;
        let outcome = self.conclude(&picked, result);
        let took = clock.now() - started;
        tracing::debug!(?outcome, ?took, reasons = %picked.reasons(), "reconciled");
        self.metrics.reconciled(outcome, took);
    }

    /// The user's reconcile, with its panics and its time-out as errors.
    async fn attempt(&self, key: &Q, workbench: &Workbench) -> Result<Action> {
        let cx = Context {
            shared: self.shared.clone(),
            key: key.to_string().into(),
            about: None,
        };
        let name = cx.key.clone();
        // What runs before the first await is guarded, too.
        let run = async { self.job.run(key.clone(), cx).await };
        let run = workbench.work(name, run);
        let guarded = AssertUnwindSafe(run).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => self.shared.world.clock().timeout(limit, guarded).await,
            None => Some(guarded.await),
        };
        match ended {
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
                if let Some(undeclared) = Undeclared::of_panic(&*panic) {
                    // Reading it again will not help.
                    return Err(Error::terminal(undeclared.clone()));
                }
                self.metrics.panicked();
                let message = panic_message(&*panic);
                Err(Error::message(format!("the reconcile panicked: {message}")))
            }
            None => {
                self.metrics.timed_out();
                let limit = self.timeout.unwrap_or_default();
                Err(Error::message(format!(
                    "the reconcile took longer than {limit:?}"
                )))
            }
        }
    }

    /// Puts the key where its result says, and reports what went wrong.
    fn conclude(&self, picked: &Picked<Q>, result: Result<Action>) -> ReconcileResult {
        match result {
            Ok(action) => {
                picked.forget();
                for announce in &self.announce {
                    announce(picked.key());
                }
                match action.again_after {
                    None => ReconcileResult::Success,
                    Some(delay) => {
                        let priority = action.priority.unwrap_or(picked.priority());
                        picked.again_after(delay, priority);
                        ReconcileResult::RequeueAfter
                    }
                }
            }
            Err(error) => match error.category() {
                Category::Conflict => {
                    tracing::debug!(%error, "somebody else was faster; reconciling again");
                    picked.retry();
                    ReconcileResult::Conflict
                }
                Category::Failure => {
                    let attempts = picked.attempts() + 1;
                    let again_in = picked.retry();
                    let key = picked.key();
                    tracing::error!(controller = %self.name, %key, %error, attempts, ?again_in, "reconcile failed");
                    ReconcileResult::Error
                }
                Category::Terminal => {
                    let key = picked.key();
                    tracing::error!(controller = %self.name, %key, %error, "reconcile failed; no retry until something changes");
                    picked.forget();
                    ReconcileResult::TerminalError
                }
            },
        }
    }
}
