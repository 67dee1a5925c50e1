//! The workers: take a key, reconcile it, and do what its result asks for.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, join_all};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::watch::{Pump, Watch, panic_message};
use super::{Action, Key, Prepared, Settings, Surroundings};
use crate::context::{Context, Shared};
use crate::error::{Category, Error, Result};
use crate::metrics::{ControllerMetrics, Outcome, QueueMetrics};
use crate::queue::{Options, Picked, Queue};
use crate::reader::Reader;
use crate::source::Opening;

/// What a worker does with a key.
pub(crate) trait Job<Q>: Send + Sync + 'static {
    fn run(&self, key: Q, cx: Context) -> impl Future<Output = Result<Action>> + Send;
}

/// Adds a declared index to the informer it belongs to.
pub(crate) type AddIndex = Box<dyn FnOnce(&Reader) + Send>;

/// A controller as declared, with its types known.
pub(crate) struct Plan<Q, J> {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) watches: Vec<Watch<Q>>,
    pub(crate) indexes: Vec<AddIndex>,
    pub(crate) job: Arc<J>,
}

impl<Q: Key, J: Job<Q>> Plan<Q, J> {
    /// Opens the sources, whose events fill the queue from now on.
    pub(crate) fn prepare(self, surroundings: Surroundings) -> Prepared {
        let Surroundings { cache, world, .. } = &surroundings;
        let namespaces = &surroundings.namespaces;
        let reader = Reader::open(&self.name, &self.settings.reads, cache, world, namespaces);
        for add in self.indexes {
            add(&reader);
        }
        let metrics = ControllerMetrics::new(&surroundings.metrics, &self.name);
        metrics.set_workers(self.settings.workers);
        let queue_metrics = QueueMetrics::new(&surroundings.metrics, &self.name);
        let queue = Queue::new(
            world,
            Options {
                limiter: self.settings.limiter,
                observer: Some(queue_metrics.observer()),
                ..Options::default()
            },
        );
        queue_metrics.follow(&queue);

        let mut ready = Vec::new();
        for watch in self.watches {
            let (told, heard) = oneshot::channel();
            ready.push(heard);
            let name = format!("source {}", watch.name);
            let pump = watch.start(Pump {
                opening: Opening {
                    cache: cache.clone(),
                    client: surroundings.kube.clone(),
                    world: world.clone(),
                    namespaces: namespaces.clone(),
                },
                reader: reader.clone(),
                queue: queue.clone(),
                metrics: metrics.clone(),
                ready: told,
            });
            let stopping = world.tasks().stopping().clone();
            let span = tracing::info_span!("controller", name = %self.name);
            let pump = async move {
                stopping.run_until_cancelled(pump).await;
            };
            world.tasks().spawn(&name, pump.instrument(span));
        }
        let reads = reader.clone();
        let ready = async move {
            join_all(ready).await;
            reads.synced().await;
        };

        let crew = Arc::new(Crew {
            name: self.name,
            workers: self.settings.workers,
            timeout: self.settings.timeout,
            job: self.job,
            queue,
            metrics,
            shared: Arc::new(Shared {
                reader,
                client: surroundings.client.clone(),
                kube: surroundings.kube.clone(),
                recorder: surroundings.recorder.clone(),
                stopping: world.tasks().stopping().clone(),
                world: world.clone(),
            }),
            cut_off: surroundings.cut_off.clone(),
        });
        Prepared {
            ready: Box::pin(ready),
            work: Box::pin(crew.work()),
        }
    }
}

/// The workers of one controller and what they share.
struct Crew<Q, J> {
    name: String,
    workers: usize,
    timeout: Option<Duration>,
    job: Arc<J>,
    queue: Queue<Q>,
    metrics: ControllerMetrics,
    shared: Arc<Shared>,
    /// Cancelled when reconciles in flight have had their time.
    cut_off: sendo_world::Stop,
}

impl<Q: Key, J: Job<Q>> Crew<Q, J> {
    async fn work(self: Arc<Self>) {
        let tasks = self.shared.world.tasks();
        let workers: Vec<_> = (0..self.workers)
            .map(|_| tasks.spawn("worker", self.clone().worker()))
            .collect();
        self.shared.stopping.cancelled().await;
        // What is queued is found again by whoever comes next.
        self.queue.abandon();
        for worker in workers {
            worker.output().await;
        }
    }

    async fn worker(self: Arc<Self>) {
        // Whoever is asked to stop takes up nothing new.
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
            let finished = self
                .cut_off
                .run_until_cancelled(self.reconcile(picked).instrument(span))
                .await;
            if finished.is_none() {
                return;
            }
        }
    }

    async fn reconcile(&self, picked: Picked<Q>) {
        let clock = self.shared.world.clock();
        let started = clock.now();
        let _active = self.metrics.active();
        let result = self.attempt(picked.key()).await;
        let outcome = self.conclude(&picked, result);
        self.metrics.reconciled(outcome, clock.now() - started);
    }

    /// The user's reconcile, with its panics and its time-out as errors.
    async fn attempt(&self, key: &Q) -> Result<Action> {
        let cx = Context {
            shared: self.shared.clone(),
            key: key.to_string().into(),
            about: None,
        };
        let guarded = AssertUnwindSafe(self.job.run(key.clone(), cx)).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => self.shared.world.clock().timeout(limit, guarded).await,
            None => Some(guarded.await),
        };
        match ended {
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
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
    fn conclude(&self, picked: &Picked<Q>, result: Result<Action>) -> Outcome {
        match result {
            Ok(Action { again_after: None }) => {
                picked.forget();
                Outcome::Success
            }
            Ok(Action {
                again_after: Some(delay),
            }) => {
                picked.forget();
                picked.again_after(delay);
                Outcome::RequeueAfter
            }
            Err(error) => match error.category() {
                Category::Conflict => {
                    tracing::debug!(%error, "somebody else was faster; reconciling again");
                    picked.retry();
                    Outcome::Conflict
                }
                Category::Failure => {
                    let attempts = picked.attempts() + 1;
                    let again_in = picked.retry();
                    tracing::error!(%error, attempts, ?again_in, "reconcile failed");
                    Outcome::Error
                }
                Category::Terminal => {
                    tracing::error!(%error, "reconcile failed; no retry until something changes");
                    picked.forget();
                    Outcome::TerminalError
                }
            },
        }
    }
}
