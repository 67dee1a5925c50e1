//! What the controller counts, under the names of Kubernetes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/monitor/metrics.go`, `monitor.go`

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use sendo::ObjectKey;
use sendo::controller::ForObjects;
use sendo::metrics::{Counter, Family, Gauge, Histogram, exponential_buckets};

type Labels = Vec<(&'static str, String)>;
type Durations = Family<Labels, Histogram, fn() -> Histogram>;

/// What a reconcile, or one metric, makes of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    ScaleUp,
    ScaleDown,
}

impl Action {
    pub(super) fn new(from: i32, to: i32) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Less => Action::ScaleDown,
            std::cmp::Ordering::Equal => Action::None,
            std::cmp::Ordering::Greater => Action::ScaleUp,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Action::None => "none",
            Action::ScaleUp => "scale_up",
            Action::ScaleDown => "scale_down",
        }
    }
}

/// The metrics of the controller. Clones share them.
#[derive(Clone)]
pub(super) struct Figures {
    reconciles: Family<Labels, Counter>,
    reconcile_durations: Durations,
    computations: Family<Labels, Counter>,
    computation_durations: Durations,
    autoscalers: Gauge,
    desired: Family<Labels, Gauge>,
}

impl Default for Figures {
    fn default() -> Self {
        let durations = || {
            Durations::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 15)))
        };
        Figures {
            reconciles: Family::default(),
            reconcile_durations: durations(),
            computations: Family::default(),
            computation_durations: durations(),
            autoscalers: Gauge::default(),
            desired: Family::default(),
        }
    }
}

impl Figures {
    /// Adds the metrics to the controller.
    pub(super) fn declare(
        &self,
        controller: ForObjects<HorizontalPodAutoscaler>,
    ) -> ForObjects<HorizontalPodAutoscaler> {
        let name = |name: &str| format!("horizontal_pod_autoscaler_controller_{name}");
        controller
            .metric(
                &name("reconciliations_total"),
                "Number of reconciliations of HPA controller",
                self.reconciles.clone(),
            )
            .metric(
                &name("reconciliation_duration_seconds"),
                "The time(seconds) that the HPA controller takes to reconcile once",
                self.reconcile_durations.clone(),
            )
            .metric(
                &name("metric_computation_total"),
                "Number of metric computations",
                self.computations.clone(),
            )
            .metric(
                &name("metric_computation_duration_seconds"),
                "The time(seconds) that the HPA controller takes to calculate one metric",
                self.computation_durations.clone(),
            )
            .metric(
                &name("num_horizontal_pod_autoscalers"),
                "Current number of controlled HPA objects",
                self.autoscalers.clone(),
            )
            .metric(
                &name("desired_replicas"),
                "Current desired replica count for HPA objects",
                self.desired.clone(),
            )
    }

    /// A reconcile is done. `error` is `none`, `spec` or `internal`.
    pub(super) fn reconciled(&self, action: Action, error: &str, took: Duration) {
        let labels = labels(&[("action", action.as_str()), ("error", error)]);
        self.reconciles.get_or_create(&labels).inc();
        let durations = self.reconcile_durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// A metric of this type was computed.
    pub(super) fn computed(&self, type_: &str, action: Action, error: &str, took: Duration) {
        let labels = labels(&[
            ("action", action.as_str()),
            ("error", error),
            ("metric_type", type_),
        ]);
        self.computations.get_or_create(&labels).inc();
        let durations = self.computation_durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// There are this many autoscalers.
    pub(super) fn counted(&self, autoscalers: usize) {
        self.autoscalers.set(autoscalers as i64);
    }

    /// An autoscaler wants so many replicas.
    pub(super) fn desired(&self, autoscaler: &ObjectKey, replicas: i32) {
        let gauge = self.desired.get_or_create(&labels_of(autoscaler));
        gauge.set(replicas.into());
    }

    /// An autoscaler is gone.
    pub(super) fn forget(&self, autoscaler: &ObjectKey) {
        self.desired.remove(&labels_of(autoscaler));
    }
}

fn labels_of(autoscaler: &ObjectKey) -> Labels {
    let namespace = autoscaler.namespace().unwrap_or_default();
    labels(&[("namespace", namespace), ("hpa_name", autoscaler.name())])
}

fn labels(labels: &[(&'static str, &str)]) -> Labels {
    let own = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
    labels.iter().map(own).collect()
}
