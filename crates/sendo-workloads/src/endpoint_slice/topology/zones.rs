//! How many endpoints each zone should have, by the CPUs of its nodes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/topologycache/topologycache.go`: `SetNodes`, `getAllocations`
//! - `staging/src/k8s.io/endpointslice/topologycache/utils.go`: `getGivingAndReceivingZones`,
//!   `serviceOverloaded`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use sendo::ObjectExt;
use sendo_apimachinery::Quantity;

use super::super::desired::ZONE;
use crate::slices::metrics::figure;

/// How much more than its share an endpoint may have to bear.
const OVERLOAD: f64 = 0.2;

/// The labels of nodes that run the control plane: no clients are expected there.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// How many endpoints are for each zone.
pub(super) type Counts = BTreeMap<String, usize>;

/// The part of all CPUs that each of two or more zones has.
#[derive(Debug)]
pub(super) struct Ratios(BTreeMap<String, f64>);

/// How many endpoints a zone should have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allocation {
    pub(super) minimum: usize,
    pub(super) maximum: usize,
    pub(super) desired: f64,
}

/// What of a node matters here: whether it is ready, and its zone.
pub(super) fn place(node: &Node) -> (bool, Option<&str>) {
    (is_ready(node), node.label(ZONE))
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.is_some_and(|condition| condition.status == "True")
}

/// The allocatable CPUs of a node, in thousandths; `None` if it has none.
fn cpu(node: &Node) -> Option<i64> {
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    let quantity = allocatable.get("cpu")?.0.parse::<Quantity>().ok()?;
    Some(quantity.milli()).filter(|milli| *milli != 0)
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

/// Rounded up, of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of endpoints"
)]
fn ceil(number: f64) -> usize {
    number.ceil() as usize
}

impl Ratios {
    /// Those of the nodes that are ready. `None` if there is only one zone, or a node without.
    pub(super) fn from_nodes(nodes: impl Iterator<Item = Arc<Node>>) -> Option<Self> {
        let mut by_zone: BTreeMap<String, i64> = BTreeMap::new();
        for node in nodes {
            let is_excluded = EXCLUDED.iter().any(|label| node.label(label).is_some());
            if is_excluded || !is_ready(&node) {
                continue;
            }
            let zone = node.label(ZONE).filter(|zone| !zone.is_empty())?;
            *by_zone.entry(zone.to_owned()).or_default() += cpu(&node)?;
        }
        let total = by_zone.values().sum();
        let ratios = by_zone
            .into_iter()
            .map(|(zone, cpu)| (zone, ratio(cpu, total)));
        let ratios: BTreeMap<_, _> = ratios.collect();
        (ratios.len() >= 2).then_some(Ratios(ratios))
    }
}

/// How many of `count` endpoints each zone should have; why not, if it cannot be done well.
pub(super) fn allocate(
    ratios: Option<&Ratios>,
    count: usize,
) -> Result<BTreeMap<String, Allocation>, String> {
    let Some(Ratios(ratios)) = ratios else {
        let why = "Insufficient Node information: allocatable CPU or zone not specified on one or \
                   more nodes";
        return Err(why.to_owned());
    };
    let figures = format!("({count} endpoints, {} zones)", ratios.len());
    if ratios.len() > count {
        return Err(format!("Insufficient number of endpoints {figures}"));
    }
    let allocation = |ratio: &f64| {
        let desired = ratio * figure(count);
        let minimum = ceil(desired * (1.0 / (1.0 + OVERLOAD)));
        Allocation {
            minimum,
            maximum: 0,
            desired: desired.max(figure(minimum)),
        }
    };
    let allocations = ratios
        .iter()
        .map(|(zone, ratio)| (zone.clone(), allocation(ratio)));
    let mut allocations: BTreeMap<_, _> = allocations.collect();
    let minimum: usize = allocations
        .values()
        .map(|allocation| allocation.minimum)
        .sum();
    let Some(spare) = count.checked_sub(minimum) else {
        let why = "Unable to allocate minimum required endpoints to each zone without exceeding \
                   overload threshold";
        return Err(format!("{why} {figures}"));
    };
    for allocation in allocations.values_mut() {
        allocation.maximum = allocation.minimum + spare;
    }
    Ok(allocations)
}

/// How many endpoints each zone should give to others, and how many it should receive.
pub(super) fn moves(
    allocations: &BTreeMap<String, Allocation>,
    counts: &Counts,
) -> (Counts, Counts) {
    let (mut to_give, mut to_receive) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let surplus = figure(counts.get(zone).copied().unwrap_or_default()) - allocation.desired;
        match surplus > 0.0 {
            true => to_give.insert(zone, surplus),
            false => to_receive.insert(zone, -surplus),
        };
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((from, gives)), Some((to, receives))) = (most(&to_give), most(&to_receive)) {
        if (gives < 1.0 && receives < 1.0) || gives < 0.5 || receives < 0.5 {
            break;
        }
        to_give.insert(from, gives - 1.0);
        to_receive.insert(to, receives - 1.0);
        *giving.entry(from.clone()).or_default() += 1;
        *receiving.entry(to.clone()).or_default() += 1;
    }
    (giving, receiving)
}

/// The zone with the greatest number, the first of several.
fn most<'z>(zones: &BTreeMap<&'z String, f64>) -> Option<(&'z String, f64)> {
    let mut most = None;
    for (zone, number) in zones {
        if most.map_or(0.0, |(_, most)| most) < *number {
            most = Some((*zone, *number));
        }
    }
    most
}

/// Takes one of a zone's number; whether there was one.
pub(super) fn take(counts: &mut Counts, zone: &str) -> bool {
    let Some(count) = counts.get_mut(zone) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(zone);
    }
    true
}

/// Whether a zone has fewer endpoints than it needs.
pub(super) fn is_overloaded(counts: &Counts, ratios: Option<&Ratios>) -> bool {
    if counts.is_empty() {
        return false;
    }
    let Some(Ratios(ratios)) = ratios else {
        return true;
    };
    let total = figure(counts.values().sum());
    ratios.iter().any(|(zone, ratio)| {
        let minimum = ceil(total * ratio * (1.0 / (1.0 + OVERLOAD)));
        counts.get(zone).is_none_or(|count| *count < minimum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(zones: &[(&str, f64)]) -> Ratios {
        Ratios(
            zones
                .iter()
                .map(|(zone, ratio)| ((*zone).to_owned(), *ratio))
                .collect(),
        )
    }

    fn counts(zones: &[(&str, usize)]) -> Counts {
        zones
            .iter()
            .map(|(zone, count)| ((*zone).to_owned(), *count))
            .collect()
    }

    #[test]
    fn each_zone_gets_its_share() {
        let ratios = ratios(&[("a", 0.5), ("b", 0.25), ("c", 0.25)]);
        let allocations = allocate(Some(&ratios), 8).expect("allocations");
        let shown = |zone: &str| (allocations[zone].minimum, allocations[zone].maximum);
        assert_eq!(
            (shown("a"), shown("b"), shown("c")),
            ((4, 4), (2, 2), (2, 2))
        );
        let refused = allocate(Some(&ratios), 4).map(|_| ());
        assert_eq!(refused, Ok(()));
        let uneven = self::ratios(&[("a", 0.5), ("b", 0.35), ("c", 0.15)]);
        let why = allocate(Some(&uneven), 4).unwrap_err();
        assert!(
            why.ends_with("overload threshold (4 endpoints, 3 zones)"),
            "{why}"
        );
    }

    #[test]
    fn zones_with_more_than_their_share_give() {
        let ratios = ratios(&[("a", 0.5), ("b", 0.5)]);
        let allocations = allocate(Some(&ratios), 6).expect("allocations");
        let (giving, receiving) = moves(&allocations, &counts(&[("a", 5), ("b", 1)]));
        assert_eq!(giving, counts(&[("a", 2)]));
        assert_eq!(receiving, counts(&[("b", 2)]));
    }

    #[test]
    fn a_zone_that_lacks_endpoints_is_overloaded() {
        let ratios = ratios(&[("a", 0.5), ("b", 0.5)]);
        assert!(!is_overloaded(
            &counts(&[("a", 3), ("b", 3)]),
            Some(&ratios)
        ));
        assert!(is_overloaded(&counts(&[("a", 5), ("b", 1)]), Some(&ratios)));
        assert!(is_overloaded(&counts(&[("a", 5)]), Some(&ratios)));
        assert!(is_overloaded(&counts(&[("a", 5)]), None));
        assert!(!is_overloaded(&counts(&[]), None));
    }
}
