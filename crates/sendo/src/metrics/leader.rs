//! Who leads.

use prometheus_client::metrics::gauge::Gauge;

use super::{Gauges, Registered, Registry};

pub(super) fn register(to: &mut Registered) -> Gauges {
    to.own(
        "leader_election_master_status",
        "Whether this process leads, by the name of the lease: 1 if it does",
        Gauges::default(),
    )
}

/// Shows whether this process holds a lease.
#[derive(Clone, Debug)]
pub struct LeaderMetrics(Gauge);

impl LeaderMetrics {
    /// The status of the lease named `lease`: not leading, at first.
    pub fn new(registry: &Registry, lease: &str) -> Self {
        let labels = vec![("name", lease.to_owned())];
        LeaderMetrics(registry.families().leader.get_or_create_owned(&labels))
    }

    /// Says whether this process leads.
    pub fn set_leading(&self, leading: bool) {
        self.0.set(i64::from(leading));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn leading_is_one_and_not_leading_is_zero() {
        let registry = Registry::new();
        let metrics = LeaderMetrics::new(&registry, "x");
        let line = |n| format!("leader_election_master_status{{name=\"x\"}} {n}\n");
        assert!(registry.encode(Format::Prometheus).contains(&line(0)));
        metrics.set_leading(true);
        assert!(registry.encode(Format::Prometheus).contains(&line(1)));
    }
}
