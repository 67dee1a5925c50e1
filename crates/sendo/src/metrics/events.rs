//! Events that nobody will see.

use prometheus_client::metrics::counter::Counter;

use super::{Counters, Registered, Registry};

pub(super) fn register(to: &mut Registered) -> Counters {
    to.own(
        "sendo_events_dropped_total",
        "Events that will never be seen, by controller and reason: queue_full, flood or failed",
        Counters::default(),
    )
}

/// Counts the events of a recorder that will never be seen.
///
/// The default one counts, too, and is shown nowhere.
#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    pub(crate) queue_full: Counter,
    pub(crate) flood: Counter,
    pub(crate) failed: Counter,
}

impl EventMetrics {
    /// The counters of the controller named `controller`, at zero from the start.
    pub fn new(registry: &Registry, controller: &str) -> Self {
        let counter = |reason: &str| {
            let controller = ("controller", controller.to_owned());
            let labels = vec![controller, ("reason", reason.to_owned())];
            registry.families().events.get_or_create_owned(&labels)
        };
        EventMetrics {
            queue_full: counter("queue_full"),
            flood: counter("flood"),
            failed: counter("failed"),
        }
    }

    /// How many there are, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.queue_full.get() + self.flood.get() + self.failed.get()
    }
}
