//! What the controllers of EndpointSlices count, under the names of Kubernetes.
//!
//! The names of counters end in `_total`, as those of all metrics of a program here.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/metrics/metrics.go`, `cache.go`
//! - `pkg/controller/endpointslicemirroring/metrics/metrics.go`, `cache.go`

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use sendo::metrics::{Counter, Family, Gauge, Histogram, exponential_buckets};
use sendo::{ObjectKey, Typed, controller::ForObjects};

type Labels = Vec<(&'static str, String)>;

/// The groups of each owner, by address type.
type Owners = BTreeMap<ObjectKey, BTreeMap<&'static str, Vec<Group>>>;

/// Endpoints and slices that have the same ports, of one Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) endpoints: usize,
    pub(crate) slices: usize,
}

/// The metrics of one controller. Clones share them.
#[derive(Clone)]
pub(crate) struct SliceMetrics {
    added: Histogram,
    removed: Histogram,
    endpoints: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
    changes: Family<Labels, Counter>,
    max_endpoints: usize,
    groups: Arc<Mutex<Owners>>,
}

impl fmt::Debug for SliceMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceMetrics").finish_non_exhaustive()
    }
}

/// A histogram of numbers of endpoints.
pub(crate) fn counts() -> Histogram {
    Histogram::new(exponential_buckets(2.0, 2.0, 15))
}

/// A number of objects, for a metric.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 endpoints")]
pub(crate) fn figure(count: usize) -> f64 {
    count as f64
}

impl SliceMetrics {
    /// Those of a controller whose slices have at most `max_endpoints`.
    pub(crate) fn new(max_endpoints: usize) -> Self {
        SliceMetrics {
            added: counts(),
            removed: counts(),
            endpoints: Gauge::default(),
            slices: Gauge::default(),
            desired_slices: Gauge::default(),
            changes: Family::default(),
            max_endpoints,
            groups: Arc::default(),
        }
    }

    /// Adds the metrics to a controller of `K`, under names that begin with `subsystem`.
    pub(crate) fn declare<K: Typed>(
        &self,
        controller: ForObjects<K>,
        subsystem: &str,
        owner: &str,
    ) -> ForObjects<K> {
        let name = |name: &str| format!("{subsystem}_{name}");
        let added = format!("Number of endpoints added on each {owner} sync");
        let removed = format!("Number of endpoints removed on each {owner} sync");
        let desired = "Number of EndpointSlices that would exist with perfect endpoint allocation";
        controller
            .metric(
                &name("endpoints_added_per_sync"),
                &added,
                self.added.clone(),
            )
            .metric(
                &name("endpoints_removed_per_sync"),
                &removed,
                self.removed.clone(),
            )
            .metric(
                &name("endpoints_desired"),
                "Number of endpoints desired",
                self.endpoints.clone(),
            )
            .metric(
                &name("num_endpoint_slices"),
                "Number of EndpointSlices",
                self.slices.clone(),
            )
            .metric(
                &name("desired_endpoint_slices"),
                desired,
                self.desired_slices.clone(),
            )
            .metric(
                &name("changes_total"),
                "Number of EndpointSlice changes",
                self.changes.clone(),
            )
    }

    /// A slice was created, updated or deleted.
    pub(crate) fn changed(&self, operation: &str) {
        let labels = vec![("operation", operation.to_owned())];
        self.changes.get_or_create(&labels).inc();
    }

    /// A sync added and removed so many endpoints.
    pub(crate) fn synced(&self, added: usize, removed: usize) {
        self.added.observe(figure(added));
        self.removed.observe(figure(removed));
    }

    /// What there is of an owner with addresses of one type.
    pub(crate) fn set(&self, owner: &ObjectKey, address_type: &'static str, groups: Vec<Group>) {
        let mut owners = self.groups.lock();
        owners
            .entry(owner.clone())
            .or_default()
            .insert(address_type, groups);
        self.show(&owners);
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        let mut owners = self.groups.lock();
        if owners.remove(owner).is_some() {
            self.show(&owners);
        }
    }

    fn show(&self, owners: &Owners) {
        let (mut endpoints, mut slices, mut desired) = (0, 0, 0);
        for groups in owners.values().flat_map(BTreeMap::values) {
            endpoints += groups.iter().map(|group| group.endpoints).sum::<usize>();
            slices += groups.iter().map(|group| group.slices).sum::<usize>();
            let full = |group: &Group| group.endpoints.div_ceil(self.max_endpoints);
            desired += groups
                .iter()
                .map(full)
                .sum::<usize>()
                .max(groups.len().min(1));
        }
        let show =
            |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        show(&self.endpoints, endpoints);
        show(&self.slices, slices);
        show(&self.desired_slices, desired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_all_owners() {
        let metrics = SliceMetrics::new(100);
        let shown = || {
            (
                metrics.endpoints.get(),
                metrics.slices.get(),
                metrics.desired_slices.get(),
            )
        };
        let group = |endpoints, slices| Group { endpoints, slices };
        metrics.set(&"n/a".into(), "IPv4", vec![group(150, 3), group(10, 1)]);
        metrics.set(&"n/a".into(), "IPv6", vec![group(0, 1)]);
        metrics.set(&"n/b".into(), "IPv4", vec![group(1, 1)]);
        assert_eq!(shown(), (161, 6, 5));
        metrics.forget(&"n/a".into());
        assert_eq!(shown(), (1, 1, 1));
    }
}
