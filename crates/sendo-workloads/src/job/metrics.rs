//! What the controller of Jobs counts, under the names of Kubernetes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/metrics/metrics.go`

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use parking_lot::Mutex;
use sendo::controller::ForObjects;
use sendo::metrics::{Counter, Family, Histogram, exponential_buckets};
use sendo::{ObjectExt, ObjectKey};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;

/// The metrics of the controller. Clones share them.
#[derive(Clone)]
pub(super) struct JobMetrics {
    syncs: Counters,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    finished: Counters,
    managed_externally: Counters,
    pods_finished: Counters,
    policy_actions: Counters,
    indexes_finished: Counters,
    pods_created: Counters,
    /// Jobs of other controllers that are counted already.
    known: Arc<Mutex<BTreeSet<ObjectKey>>>,
}

impl Default for JobMetrics {
    fn default() -> Self {
        JobMetrics {
            syncs: Counters::default(),
            durations: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.004, 2.0, 15))
            }),
            finished: Counters::default(),
            managed_externally: Counters::default(),
            pods_finished: Counters::default(),
            policy_actions: Counters::default(),
            indexes_finished: Counters::default(),
            pods_created: Counters::default(),
            known: Arc::default(),
        }
    }
}

impl JobMetrics {
    /// Adds the metrics to the controller.
    pub(super) fn declare(&self, controller: ForObjects<Job>) -> ForObjects<Job> {
        let counters = [
            ("job_syncs_total", "The number of job syncs", &self.syncs),
            (
                "jobs_finished_total",
                "The number of finished jobs",
                &self.finished,
            ),
            (
                "jobs_by_external_controller_total",
                "The number of Jobs managed by an external controller",
                &self.managed_externally,
            ),
            (
                "job_pods_finished_total",
                "The number of finished Pods that are fully tracked",
                &self.pods_finished,
            ),
            (
                "pod_failures_handled_by_failure_policy_total",
                "The number of failed Pods handled by failure policy",
                &self.policy_actions,
            ),
            (
                "job_finished_indexes_total",
                "The number of finished indexes",
                &self.indexes_finished,
            ),
            (
                "job_pods_creation_total",
                "The number of Pods created by the Job controller labelled with a reason for the Pod creation",
                &self.pods_created,
            ),
        ];
        let controller =
            counters
                .into_iter()
                .fold(controller, |controller, (name, help, metric)| {
                    controller.metric(&format!("job_controller_{name}"), help, metric.clone())
                });
        controller.metric(
            "job_controller_job_sync_duration_seconds",
            "The time it took to sync a job",
            self.durations.clone(),
        )
    }

    /// A sync is done. `action` says what it did to pods.
    pub(super) fn synced(&self, mode: &str, succeeded: bool, action: &str, took: Duration) {
        let result = if succeeded { "success" } else { "error" };
        let labels = labels([
            ("completion_mode", mode),
            ("result", result),
            ("action", action),
        ]);
        self.syncs.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(super) fn finished(&self, mode: &str, result: &str, reason: &str) {
        let labels = labels([
            ("completion_mode", mode),
            ("result", result),
            ("reason", reason),
        ]);
        self.finished.get_or_create(&labels).inc();
    }

    /// A Job names another controller; it is counted once.
    pub(super) fn managed_externally(&self, manager: &str, job: &Job) {
        if self.known.lock().insert(job.key()) {
            let labels = labels([("controller_name", manager)]);
            self.managed_externally.get_or_create(&labels).inc();
        }
    }

    pub(super) fn forget(&self, job: &ObjectKey) {
        self.known.lock().remove(job);
    }

    pub(super) fn pods_finished(&self, mode: &str, result: &str, count: i32) {
        let labels = labels([("completion_mode", mode), ("result", result)]);
        add(&self.pods_finished, &labels, count);
    }

    pub(super) fn policy_action(&self, action: &str) {
        add(&self.policy_actions, &labels([("action", action)]), 1);
    }

    pub(super) fn indexes_finished(&self, result: &str, limit: &str, count: i32) {
        let labels = labels([("status", result), ("backoffLimit", limit)]);
        add(&self.indexes_finished, &labels, count);
    }

    pub(super) fn pods_created(&self, reason: &str, result: &str, count: usize) {
        let labels = labels([("reason", reason), ("status", result)]);
        add(
            &self.pods_created,
            &labels,
            count.try_into().unwrap_or(i32::MAX),
        );
    }
}

fn labels<const N: usize>(labels: [(&'static str, &str); N]) -> Labels {
    let owned = labels.map(|(name, value)| (name, value.to_owned()));
    owned.into()
}

fn add(counters: &Counters, labels: &Labels, count: i32) {
    if let Ok(count @ 1..) = u64::try_from(count) {
        counters.get_or_create(labels).inc_by(count);
    }
}
