//! The zones of a cluster, and how fast nodes of each may lose their pods.
//!
//! If many nodes of a zone stop at once, it is rather the network than the nodes: then pods leave
//! them slowly, or not at all. If no node of the cluster answers, it is rather this program that is
//! cut off, and no pod leaves any node.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/nodelifecycle/node_lifecycle_controller.go`: `handleDisruption`,
//!   `ComputeZoneState`, `ReducedQPSFunc`, `setLimiterInZone`
//! - `pkg/controller/nodelifecycle/config/v1alpha1/defaults.go`
//! - `staging/src/k8s.io/component-helpers/node/topology/helpers.go`: `GetZoneKey`

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use sendo::{Moment, ObjectExt};

/// The time between two nodes of a zone whose pods leave.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same in a large zone that is partly disrupted.
const SLOW_INTERVAL: Duration = Duration::from_secs(100);
/// How many nodes a large zone has, at least.
const LARGE: usize = 51;
/// A part of nodes that are not ready, in hundredths, from which on a zone is partly disrupted.
const DISRUPTED_PERCENT: usize = 55;

/// The state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    PartlyDisrupted,
    Disrupted,
}

impl State {
    fn new(ready: usize, unready: usize) -> Self {
        match (ready, unready) {
            (0, 1..) => State::Disrupted,
            (_, 3..) if unready * 100 >= (ready + unready) * DISRUPTED_PERCENT => {
                State::PartlyDisrupted
            }
            _ => State::Normal,
        }
    }
}

#[derive(Clone, Debug)]
struct Zone {
    state: State,
    /// The time between two nodes; `None` if pods leave none.
    interval: Option<Duration>,
    /// When pods of the next node may leave.
    next: Moment,
}

/// The number of nodes of a zone that are ready and that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) ready: usize,
    pub(super) unready: usize,
}

/// The zones of the cluster.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: BTreeMap<String, Zone>,
    is_disrupted: bool,
}

/// What a new count of nodes changes for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// No node answers any more.
    Lost,
    /// A node answers again: no node is to be judged by what it did not say meanwhile.
    Found,
}

impl Zones {
    /// Takes in how many nodes there are in each zone.
    pub(super) fn count(&mut self, counts: &BTreeMap<String, Count>, now: Moment) -> Change {
        self.zones.retain(|zone, _| counts.contains_key(zone));
        for (name, count) in counts {
            let state = State::new(count.ready, count.unready);
            let zone = self.zones.entry(name.clone()).or_insert(Zone {
                state,
                interval: Some(INTERVAL),
                next: now,
            });
            zone.state = state;
            zone.interval = match state {
                State::Normal | State::Disrupted => Some(INTERVAL),
                State::PartlyDisrupted if count.ready + count.unready >= LARGE => {
                    Some(SLOW_INTERVAL)
                }
                State::PartlyDisrupted => None,
            };
        }
        let mut states = self.zones.values().map(|zone| zone.state);
        let is_disrupted = !self.zones.is_empty() && states.all(|state| state == State::Disrupted);
        let was_disrupted = std::mem::replace(&mut self.is_disrupted, is_disrupted);
        match (was_disrupted, is_disrupted) {
            (false, true) => Change::Lost,
            (true, false) => Change::Found,
            _ => Change::None,
        }
    }

    /// Whether no node of the cluster answers.
    pub(super) fn are_disrupted(&self) -> bool {
        self.is_disrupted
    }

    /// Whether the pods of one more node of the zone may leave it now.
    pub(super) fn may_evict(&mut self, zone: &str, now: Moment) -> bool {
        if self.is_disrupted {
            return false;
        }
        let Some(zone) = self.zones.get_mut(zone) else {
            return false;
        };
        match zone.interval {
            Some(interval) if zone.next <= now => {
                zone.next = now + interval;
                true
            }
            _ => false,
        }
    }
}

/// The zone of a node: its region and zone, empty if it is in none.
pub(super) fn zone_of(node: &Node) -> String {
    let part = |old: &str, new: &str| {
        let value = node.label(old).or_else(|| node.label(new));
        value.unwrap_or_default().to_owned()
    };
    let zone = part(
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    );
    let region = part(
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    );
    match (region.is_empty(), zone.is_empty()) {
        (true, true) => String::new(),
        _ => format!("{region}:\0:{zone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn counts(zones: &[(&str, usize, usize)]) -> BTreeMap<String, Count> {
        let count = |(zone, ready, unready): &(&str, usize, usize)| {
            let count = Count {
                ready: *ready,
                unready: *unready,
            };
            ((*zone).to_owned(), count)
        };
        zones.iter().map(count).collect()
    }

    #[test]
    fn pods_leave_one_node_of_a_zone_after_the_other() {
        let mut zones = Zones::default();
        zones.count(&counts(&[("a", 2, 2), ("b", 3, 1)]), at(0));
        assert!(zones.may_evict("a", at(0)));
        assert!(!zones.may_evict("a", at(9)));
        assert!(
            zones.may_evict("b", at(9)),
            "zones do not wait for each other"
        );
        assert!(zones.may_evict("a", at(10)));
    }

    #[test]
    fn a_zone_that_is_partly_disrupted_slows_down() {
        let mut zones = Zones::default();
        zones.count(&counts(&[("small", 4, 6), ("large", 20, 40)]), at(0));
        assert!(!zones.may_evict("small", at(100)));
        assert!(zones.may_evict("large", at(100)));
        assert!(!zones.may_evict("large", at(199)));
        assert!(zones.may_evict("large", at(200)));
        // Two nodes are too few to say anything of the zone.
        zones.count(&counts(&[("small", 1, 2)]), at(200));
        assert!(zones.may_evict("small", at(200)));
    }

    #[test]
    fn nothing_leaves_if_no_node_answers() {
        let mut zones = Zones::default();
        assert_eq!(
            zones.count(&counts(&[("a", 1, 0), ("b", 0, 2)]), at(0)),
            Change::None
        );
        assert!(zones.may_evict("b", at(0)), "one whole zone may be lost");
        let lost = counts(&[("a", 0, 1), ("b", 0, 2)]);
        assert_eq!(zones.count(&lost, at(20)), Change::Lost);
        assert_eq!(zones.count(&lost, at(21)), Change::None);
        assert!(zones.are_disrupted());
        assert!(!zones.may_evict("b", at(100)));
        let found = counts(&[("a", 1, 0), ("b", 0, 2)]);
        assert_eq!(zones.count(&found, at(101)), Change::Found);
        assert!(zones.may_evict("b", at(101)));
    }
}
