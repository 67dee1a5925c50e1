//! What the scheduler counts, under Kubernetes' names.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/metrics/metrics.go`: `InitMetrics`

use std::time::Duration;

use sendo::ObjectKey;
use sendo::controller::ForKeys;
use sendo::metrics::{Counter, Family, Gauge, Histogram, exponential_buckets};

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of one scheduler. Clones share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    attempts: Family<Labels, Counter>,
    attempt_duration: Histograms,
    algorithm_duration: Histogram,
    preemption_attempts: Counter,
    preemption_victims: Histogram,
    pending: Family<Labels, Gauge>,
    incoming: Family<Labels, Counter>,
    attempts_of_pod: Histogram,
    sli_duration: Histograms,
    cache_size: Family<Labels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        Metrics {
            attempts: Family::default(),
            attempt_duration: Histograms::new_with_constructor(seconds),
            algorithm_duration: seconds(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            pending: Family::default(),
            incoming: Family::default(),
            attempts_of_pod: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            sli_duration: Histograms::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.01, 2.0, 20))
            }),
            cache_size: Family::default(),
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Scheduled,
    Unschedulable,
    Error,
}

impl Attempt {
    fn name(self) -> &'static str {
        match self {
            Attempt::Scheduled => "scheduled",
            Attempt::Unschedulable => "unschedulable",
            Attempt::Error => "error",
        }
    }
}

impl Metrics {
    /// Declares them with the controller.
    pub(crate) fn declare(&self, controller: ForKeys<ObjectKey>) -> ForKeys<ObjectKey> {
        controller
            .metric(
                "scheduler_schedule_attempts_total",
                "Number of attempts to schedule pods, by the result",
                self.attempts.clone(),
            )
            .metric(
                "scheduler_scheduling_attempt_duration_seconds",
                "How long an attempt takes, its binding included",
                self.attempt_duration.clone(),
            )
            .metric(
                "scheduler_scheduling_algorithm_duration_seconds",
                "How long it takes to choose a node",
                self.algorithm_duration.clone(),
            )
            .metric(
                "scheduler_preemption_attempts_total",
                "Attempts at preemption",
                self.preemption_attempts.clone(),
            )
            .metric(
                "scheduler_preemption_victims",
                "Number of pods that make way for one",
                self.preemption_victims.clone(),
            )
            .metric(
                "scheduler_pending_pods",
                "Number of pending pods, by the queue type",
                self.pending.clone(),
            )
            .metric(
                "scheduler_queue_incoming_pods_total",
                "Number of pods added to scheduling queues by event and queue type",
                self.incoming.clone(),
            )
            .metric(
                "scheduler_pod_scheduling_attempts",
                "Number of attempts that a pod took",
                self.attempts_of_pod.clone(),
            )
            .metric(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "How long a pod was in the queue until it was scheduled",
                self.sli_duration.clone(),
            )
            .metric(
                "scheduler_cache_size",
                "Number of nodes and pods in the scheduler's cache",
                self.cache_size.clone(),
            )
    }

    pub(crate) fn attempt(&self, profile: &str, result: Attempt, took: Duration) {
        let labels = vec![
            ("result", result.name().to_owned()),
            ("profile", profile.to_owned()),
        ];
        self.attempts.get_or_create(&labels).inc();
        let duration = self.attempt_duration.get_or_create(&labels);
        duration.observe(took.as_secs_f64());
    }

    pub(crate) fn algorithm(&self, took: Duration) {
        self.algorithm_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn preemption(&self, victims: Option<usize>) {
        self.preemption_attempts.inc();
        if let Some(victims) = victims {
            self.preemption_victims.observe(victims as f64);
        }
    }

    pub(crate) fn scheduled(&self, attempts: u32, waited: Duration) {
        self.attempts_of_pod.observe(f64::from(attempts));
        let labels = vec![("attempts", attempts.to_string())];
        let duration = self.sli_duration.get_or_create(&labels);
        duration.observe(waited.as_secs_f64());
    }

    pub(crate) fn pending(&self, queue: Option<&str>, by: i64) {
        if let Some(queue) = queue {
            let labels = vec![("queue", queue.to_owned())];
            self.pending.get_or_create(&labels).inc_by(by);
        }
    }

    pub(crate) fn entered(&self, queue: &str, event: &str) {
        let labels = vec![("queue", queue.to_owned()), ("event", event.to_owned())];
        self.incoming.get_or_create(&labels).inc();
    }

    pub(crate) fn cached(&self, nodes: usize, pods: usize) {
        let set = |kind: &str, count: usize| {
            let labels = vec![("type", kind.to_owned())];
            self.cache_size.get_or_create(&labels).set(count as i64);
        };
        set("nodes", nodes);
        set("pods", pods);
    }
}
