//! What this controller counts beside what all controllers of slices do.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/metrics/metrics.go`, `cache.go`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use sendo::ObjectKey;
use sendo::controller::ForObjects;
use sendo::metrics::{Counter, Family, Gauge, Histogram};

use super::traffic_distribution::{self, Distribution};
use super::{MAX_ENDPOINTS, topology};
use crate::slices::metrics::{SliceMetrics, counts, figure};

const SUBSYSTEM: &str = "endpoint_slice_controller";

type Labels = Vec<(&'static str, String)>;

/// The metrics of the controller. Clones share them.
#[derive(Clone)]
pub(super) struct Figures {
    pub(super) slices: SliceMetrics,
    changed: Family<Labels, Histogram, fn() -> Histogram>,
    syncs: Family<Labels, Counter>,
    services: Family<Labels, Gauge>,
    distributions: Arc<Mutex<BTreeMap<ObjectKey, &'static str>>>,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            slices: SliceMetrics::new(MAX_ENDPOINTS),
            changed: Family::new_with_constructor(counts),
            syncs: Family::default(),
            services: Family::default(),
            distributions: Arc::default(),
        }
    }
}

impl Figures {
    pub(super) fn declare(&self, controller: ForObjects<Service>) -> ForObjects<Service> {
        let name = |name: &str| format!("{SUBSYSTEM}_{name}");
        let changed = "Number of EndpointSlices changed on each Service sync";
        let services = "Number of Services using some specific trafficDistribution";
        self.slices
            .declare(controller, SUBSYSTEM, "Service")
            .metric(
                &name("endpointslices_changed_per_sync"),
                changed,
                self.changed.clone(),
            )
            .metric(
                &name("syncs_total"),
                "Number of EndpointSlice syncs",
                self.syncs.clone(),
            )
            .metric(
                &name("services_count_by_traffic_distribution"),
                services,
                self.services.clone(),
            )
    }

    /// A sync has ended.
    pub(super) fn synced(&self, is_success: bool) {
        let result = if is_success { "success" } else { "error" };
        self.syncs
            .get_or_create(&vec![("result", result.to_owned())])
            .inc();
    }

    /// A sync changes so many slices.
    pub(super) fn changed(&self, service: &Service, count: usize) {
        let is_by_topology = topology::is_wanted(service);
        let topology = if is_by_topology { "Auto" } else { "Disabled" };
        let distribution = traffic_distribution::requested(service).filter(|_| !is_by_topology);
        let labels = vec![
            ("topology", topology.to_owned()),
            (
                "traffic_distribution",
                distribution.map_or("", Distribution::as_str).to_owned(),
            ),
        ];
        self.changed.get_or_create(&labels).observe(figure(count));
    }

    /// Notes the distribution that a Service uses.
    pub(super) fn distribute(&self, service: &ObjectKey, distribution: Option<Distribution>) {
        let mut services = self.distributions.lock();
        let before = match distribution {
            Some(distribution) => services.insert(service.clone(), distribution.as_str()),
            None => services.remove(service),
        };
        let now = distribution.map(Distribution::as_str);
        if before != now {
            let gauge = |name: &str| {
                let labels = vec![("traffic_distribution", name.to_owned())];
                self.services.get_or_create_owned(&labels)
            };
            if let Some(before) = before {
                gauge(before).dec();
            }
            if let Some(now) = now {
                gauge(now).inc();
            }
        }
    }

    /// Forgets a Service that is gone.
    pub(super) fn forget(&self, service: &ObjectKey) {
        self.slices.forget(service);
        self.distribute(service, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_counted_by_their_distribution() {
        let figures = Figures::default();
        let count = |name: &str| {
            let labels = vec![("traffic_distribution", name.to_owned())];
            figures.services.get_or_create(&labels).get()
        };
        for service in ["n/a", "n/b"] {
            figures.distribute(&service.into(), Some(Distribution::Close));
        }
        figures.distribute(&"n/b".into(), Some(Distribution::SameNode));
        assert_eq!((count("PreferClose"), count("PreferSameNode")), (1, 1));
        figures.forget(&"n/a".into());
        assert_eq!((count("PreferClose"), count("PreferSameNode")), (0, 1));
    }
}
