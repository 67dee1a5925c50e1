//! What a controller counts.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{Counters, Gauges, Histograms, Registered, Registry};

/// Seconds: fine up to half a second, where most reconciles end, coarse up to a minute.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

pub(super) struct Families {
    total: Counters,
    errors: Counters,
    terminal: Counters,
    panics: Counters,
    handler_panics: Counters,
    timeouts: Counters,
    time: Histograms,
    workers: Gauges,
    active: Gauges,
}

impl Families {
    pub(super) fn register(to: &mut Registered) -> Self {
        let name = |tail: &str| format!("controller_runtime_{tail}");
        let mut counters = |tail, help| to.own(&name(tail), help, Counters::default());
        Families {
            total: counters("reconcile_total", "Reconciles by how they ended"),
            errors: counters("reconcile_errors_total", "Reconciles that failed"),
            terminal: counters(
                "terminal_reconcile_errors_total",
                "Reconciles that failed in a way that no retry mends",
            ),
            panics: counters("reconcile_panics_total", "Reconciles that panicked"),
            timeouts: counters(
                "reconcile_timeouts_total",
                "Reconciles that took longer than they may",
            ),
            handler_panics: to.own(
                "sendo_handler_panics_total",
                "Events that were skipped because a handler or predicate panicked",
                Counters::default(),
            ),
            time: to.own(
                &name("reconcile_time_seconds"),
                "How long reconciles take",
                Histograms::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            ),
            workers: to.own(
                &name("max_concurrent_reconciles"),
                "Workers of the controller",
                Gauges::default(),
            ),
            active: to.own(
                &name("active_workers"),
                "Workers that are reconciling",
                Gauges::default(),
            ),
        }
    }
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing more to do.
    Success,
    /// To run again after a time.
    RequeueAfter,
    /// Failed, to be retried.
    Error,
    /// Failed, and not to be retried.
    TerminalError,
    /// Another writer was faster: to be retried, and no failure.
    Conflict,
}

impl ReconcileResult {
    /// The value of the `result` label.
    fn result(self) -> &'static str {
        match self {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error | ReconcileResult::TerminalError => "error",
            ReconcileResult::Conflict => "conflict",
        }
    }
}

/// The metrics of one controller, all of them there, at zero, from the start.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    success: Counter,
    requeue_after: Counter,
    error: Counter,
    conflict: Counter,
    errors: Counter,
    terminal: Counter,
    panics: Counter,
    handler_panics: Counter,
    timeouts: Counter,
    time: Histogram,
    workers: Gauge,
    active: Gauge,
}

impl ControllerMetrics {
    /// The metrics of the controller named `controller`.
    pub fn new(registry: &Registry, controller: &str) -> Self {
        let families = &registry.families().controller;
        let labels = vec![("controller", controller.to_owned())];
        let total = |outcome: ReconcileResult| {
            let result = ("result", outcome.result().to_owned());
            let labels = vec![labels[0].clone(), result];
            families.total.get_or_create_owned(&labels)
        };
        ControllerMetrics {
            success: total(ReconcileResult::Success),
            requeue_after: total(ReconcileResult::RequeueAfter),
            error: total(ReconcileResult::Error),
            conflict: total(ReconcileResult::Conflict),
            errors: families.errors.get_or_create_owned(&labels),
            terminal: families.terminal.get_or_create_owned(&labels),
            panics: families.panics.get_or_create_owned(&labels),
            handler_panics: families.handler_panics.get_or_create_owned(&labels),
            timeouts: families.timeouts.get_or_create_owned(&labels),
            time: families.time.get_or_create_owned(&labels),
            workers: families.workers.get_or_create_owned(&labels),
            active: families.active.get_or_create_owned(&labels),
        }
    }

    /// Counts an event whose handler or predicate panicked.
    pub fn handler_panicked(&self) {
        self.handler_panics.inc();
    }

    /// Sets the number of workers.
    pub fn set_workers(&self, workers: usize) {
        self.workers.set(workers as i64);
    }

    /// Counts a worker as active until the returned value is dropped.
    pub fn active(&self) -> ActiveWorker {
        self.active.inc();
        ActiveWorker(self.active.clone())
    }

    /// Counts a reconcile that ended.
    pub fn reconciled(&self, outcome: ReconcileResult, took: Duration) {
        self.time.observe(took.as_secs_f64());
        let total = match outcome {
            ReconcileResult::Success => &self.success,
            ReconcileResult::RequeueAfter => &self.requeue_after,
            ReconcileResult::Error | ReconcileResult::TerminalError => &self.error,
            ReconcileResult::Conflict => &self.conflict,
        };
        total.inc();
        if matches!(
            outcome,
            ReconcileResult::Error | ReconcileResult::TerminalError
        ) {
            self.errors.inc();
        }
        if outcome == ReconcileResult::TerminalError {
            self.terminal.inc();
        }
    }

    /// Counts a panic, beside the failure it is.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts a reconcile cut off by its time-out, beside the failure it is.
    pub fn timed_out(&self) {
        self.timeouts.inc();
    }
}

/// A worker that is reconciling; see [`ControllerMetrics::active`].
#[derive(Debug)]
pub struct ActiveWorker(Gauge);

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn every_outcome_is_counted_where_dashboards_look_for_it() {
        let registry = Registry::new();
        let metrics = ControllerMetrics::new(&registry, "pods");
        metrics.set_workers(4);
        let active = metrics.active();
        drop(metrics.active());
        for outcome in [
            ReconcileResult::Success,
            ReconcileResult::RequeueAfter,
            ReconcileResult::Error,
            ReconcileResult::TerminalError,
            ReconcileResult::Conflict,
        ] {
            metrics.reconciled(outcome, Duration::from_millis(30));
        }
        metrics.panicked();
        metrics.timed_out();
        let page = registry.encode(Format::Prometheus);
        for line in [
            "reconcile_total{controller=\"pods\",result=\"success\"} 1",
            "reconcile_total{controller=\"pods\",result=\"requeue_after\"} 1",
            "reconcile_total{controller=\"pods\",result=\"error\"} 2",
            "reconcile_total{controller=\"pods\",result=\"conflict\"} 1",
            "reconcile_errors_total{controller=\"pods\"} 2",
            "terminal_reconcile_errors_total{controller=\"pods\"} 1",
            "reconcile_panics_total{controller=\"pods\"} 1",
            "reconcile_timeouts_total{controller=\"pods\"} 1",
            "reconcile_time_seconds_count{controller=\"pods\"} 5",
            "reconcile_time_seconds_bucket{controller=\"pods\",le=\"0.025\"} 0",
            "reconcile_time_seconds_bucket{controller=\"pods\",le=\"0.05\"} 5",
            "max_concurrent_reconciles{controller=\"pods\"} 4",
            "active_workers{controller=\"pods\"} 1",
        ] {
            let line = format!("controller_runtime_{line}\n");
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
        drop(active);
    }
}
