//! The metrics of buckets.

use std::sync::atomic::AtomicU64;

use sendo::metrics::{Counter, Family, Gauge};
use sendo::{Manager, ObjectKey};

use crate::store::Health;

type Labels = Vec<(&'static str, String)>;

/// The metrics of all buckets. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    healthy: Family<Labels, Gauge>,
    latency: Family<Labels, Gauge<f64, AtomicU64>>,
    checks: Family<Labels, Counter>,
}

const RESULTS: [&str; 2] = ["healthy", "unhealthy"];

impl Metrics {
    /// Adds them to the metrics of a manager.
    pub(crate) fn register(&self, program: Manager) -> Manager {
        program
            .metric(
                "storage_bucket_healthy",
                "Whether the last check of the bucket succeeded",
                self.healthy.clone(),
            )
            .metric(
                "storage_bucket_latency_seconds",
                "How long the last check that succeeded took",
                self.latency.clone(),
            )
            .metric(
                "storage_bucket_checks_total",
                "Checks of the bucket, by their result",
                self.checks.clone(),
            )
    }

    pub(crate) fn observe(&self, bucket: &ObjectKey, health: &Health) {
        let labels = labels(bucket);
        let result = match health {
            Health::Healthy { latency, .. } => {
                let seconds = latency.as_secs_f64();
                self.latency.get_or_create(&labels).set(seconds);
                RESULTS[0]
            }
            Health::Unhealthy(_) => RESULTS[1],
        };
        let healthy = i64::from(health.problem().is_none());
        self.healthy.get_or_create(&labels).set(healthy);
        self.checks
            .get_or_create(&with_result(bucket, result))
            .inc();
    }

    /// Removes the metrics of a deleted bucket.
    pub(crate) fn forget(&self, bucket: &ObjectKey) {
        self.healthy.remove(&labels(bucket));
        self.latency.remove(&labels(bucket));
        for result in RESULTS {
            self.checks.remove(&with_result(bucket, result));
        }
    }
}

fn labels(bucket: &ObjectKey) -> Labels {
    let namespace = bucket.namespace().unwrap_or_default();
    vec![
        ("namespace", namespace.to_owned()),
        ("name", bucket.name().to_owned()),
    ]
}

fn with_result(bucket: &ObjectKey, result: &str) -> Labels {
    let mut labels = labels(bucket);
    labels.push(("result", result.to_owned()));
    labels
}
