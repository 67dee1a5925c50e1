//! What this controller counts beside what all controllers of slices do.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpointslicemirroring/metrics/metrics.go`

use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use sendo::controller::ForObjects;
use sendo::metrics::{Histogram, exponential_buckets};

use super::{MAX_ENDPOINTS, Totals};
use crate::slices::metrics::{SliceMetrics, counts, figure};

const SUBSYSTEM: &str = "endpoint_slice_mirroring_controller";

/// The metrics of the controller.
pub(super) struct Figures {
    pub(super) slices: SliceMetrics,
    updated: Histogram,
    skipped: Histogram,
    duration: Histogram,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            slices: SliceMetrics::new(MAX_ENDPOINTS),
            updated: counts(),
            skipped: counts(),
            duration: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
        }
    }
}

impl Figures {
    pub(super) fn declare(&self, controller: ForObjects<Endpoints>) -> ForObjects<Endpoints> {
        let name = |name: &str| format!("{SUBSYSTEM}_{name}");
        let updated = "Number of endpoints updated on each Endpoints sync";
        let skipped = "Number of addresses skipped on each Endpoints sync due to being invalid or \
                       exceeding MaxEndpointsPerSubset";
        let duration = "Duration of syncEndpoints() in seconds";
        self.slices
            .declare(controller, SUBSYSTEM, "Endpoints")
            .metric(
                &name("endpoints_updated_per_sync"),
                updated,
                self.updated.clone(),
            )
            .metric(
                &name("addresses_skipped_per_sync"),
                skipped,
                self.skipped.clone(),
            )
            .metric(
                &name("endpoints_sync_duration"),
                duration,
                self.duration.clone(),
            )
    }

    pub(super) fn synced(&self, totals: &Totals) {
        self.slices.synced(totals.added, totals.removed);
        self.updated.observe(figure(totals.updated));
    }

    pub(super) fn skipped(&self, addresses: usize) {
        self.skipped.observe(figure(addresses));
    }

    pub(super) fn took(&self, time: Duration) {
        self.duration.observe(time.as_secs_f64());
    }
}
