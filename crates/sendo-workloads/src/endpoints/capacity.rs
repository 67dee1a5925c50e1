//! The addresses that one object of Endpoints may hold. Of too many, ready ones are kept first,
//! from each subset its share.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpoint/endpoints_controller.go`: `truncateEndpoints`,
//!   `capacityAnnotationSetCorrectly`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EndpointSubset;

/// The most addresses of one object.
const MAX: usize = 1000;

/// The annotation of Endpoints that lack addresses, and its value.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

/// Whether addresses were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capacity {
    Enough,
    Exceeded,
}

/// Says in the annotations whether addresses were left out.
pub(super) fn annotate(annotations: &mut BTreeMap<String, String>, capacity: Capacity) {
    match capacity {
        Capacity::Enough => annotations.remove(OVER_CAPACITY),
        Capacity::Exceeded => annotations.insert(OVER_CAPACITY.to_owned(), TRUNCATED.to_owned()),
    };
}

/// Whether stored Endpoints hold no more than they may, and do not claim to lack any.
pub(super) fn is_right(
    annotations: Option<&BTreeMap<String, String>>,
    subsets: &[EndpointSubset],
) -> bool {
    let claims = annotations.is_some_and(|annotations| annotations.contains_key(OVER_CAPACITY));
    !claims
        && subsets
            .iter()
            .map(|subset| ready(subset) + not_ready(subset))
            .sum::<usize>()
            <= MAX
}

fn ready(subset: &EndpointSubset) -> usize {
    subset.addresses.as_ref().map_or(0, Vec::len)
}

fn not_ready(subset: &EndpointSubset) -> usize {
    subset.not_ready_addresses.as_ref().map_or(0, Vec::len)
}

/// Cuts subsets to what Endpoints may hold.
pub(super) fn truncate(subsets: &mut [EndpointSubset]) -> Capacity {
    let total_ready: usize = subsets.iter().map(ready).sum();
    let total_not_ready: usize = subsets.iter().map(not_ready).sum();
    if total_ready + total_not_ready <= MAX {
        return Capacity::Enough;
    }
    let cuts_ready = total_ready > MAX;
    let (room, total) = match cuts_ready {
        true => (MAX, total_ready),
        false => (MAX - total_ready, total_not_ready),
    };
    let mut left = room;
    for subset in subsets {
        let (cut, count) = match cuts_ready {
            true => (&mut subset.addresses, total_ready.min(MAX)),
            false => (&mut subset.not_ready_addresses, room),
        };
        let addresses = cut.get_or_insert_default();
        // Rounded up: the last subset then has fewer than its share.
        let share = (addresses.len() * count).div_ceil(total);
        addresses.truncate(share.min(left));
        left -= addresses.len();
        if cuts_ready {
            subset.not_ready_addresses = None;
        }
    }
    Capacity::Exceeded
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::EndpointAddress;

    fn subset(ready: usize, not_ready: usize) -> EndpointSubset {
        let addresses = |count| Some(vec![EndpointAddress::default(); count]);
        EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: None,
        }
    }

    fn cut(subsets: &[(usize, usize)]) -> (Capacity, Vec<(usize, usize)>) {
        let mut subsets: Vec<_> = subsets.iter().map(|(r, n)| subset(*r, *n)).collect();
        let capacity = truncate(&mut subsets);
        let left = subsets
            .iter()
            .map(|subset| (ready(subset), not_ready(subset)));
        (capacity, left.collect())
    }

    #[test]
    fn each_subset_keeps_its_share_and_ready_addresses_come_first() {
        use Capacity::{Enough, Exceeded};
        assert_eq!(cut(&[(600, 400)]), (Enough, vec![(600, 400)]));
        assert_eq!(
            cut(&[(600, 300), (200, 300)]),
            (Exceeded, vec![(600, 100), (200, 100)])
        );
        assert_eq!(
            cut(&[(1500, 10), (500, 10)]),
            (Exceeded, vec![(750, 0), (250, 0)])
        );
        assert_eq!(
            cut(&[(1000, 0), (1, 0), (1000, 0)]),
            (Exceeded, vec![(500, 0), (1, 0), (499, 0)])
        );
    }

    #[test]
    fn the_annotation_stands_only_where_addresses_are_missing() {
        let mut annotations = BTreeMap::new();
        assert!(is_right(Some(&annotations), &[subset(999, 1)]));
        assert!(!is_right(Some(&annotations), &[subset(1000, 1)]));
        annotate(&mut annotations, Capacity::Exceeded);
        assert!(!is_right(Some(&annotations), &[subset(1, 0)]));
        annotate(&mut annotations, Capacity::Enough);
        assert!(annotations.is_empty());
    }
}
