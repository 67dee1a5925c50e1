//! Distributes endpoints over slices so that few slices change.
//!
//! Endpoints stay in the slice they are in. New ones go into slices that change anyhow, then into
//! the one slice that they fill best, and into new slices only if there is none.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/reconciler.go`: `reconcileByPortMapping`
//! - `staging/src/k8s.io/endpointslice/utils.go`: `getSliceToFill`

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::{MAX_ENDPOINTS, desired};
use crate::slices::{
    Changes, EndpointId, EndpointList, EndpointSet, are_equal, endpoints, endpoints_mut,
};

/// What is to be written so that the slices hold the endpoints.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) changes: Changes,
    /// How many endpoints are in no slice yet.
    pub(super) added: usize,
    /// How many endpoints of slices are wanted no more.
    pub(super) removed: usize,
}

/// Distributes `wanted` over the slices `existing`, and over new ones.
pub(super) fn fill(
    service: &Service,
    existing: &[Arc<EndpointSlice>],
    mut wanted: EndpointSet,
    new_slice: impl Fn() -> EndpointSlice,
) -> Filled {
    let mut filled = Filled::default();
    let mut unchanged: Vec<&Arc<EndpointSlice>> = Vec::new();
    let changes = &mut filled.changes;
    for slice in existing {
        let (mut kept, mut is_changed) = (Vec::new(), false);
        for endpoint in endpoints(slice) {
            if let Some(wanted) = wanted.remove(&EndpointId::new(endpoint)) {
                is_changed |= !are_equal(&wanted, endpoint);
                kept.push(wanted);
            }
        }
        let lost = endpoints(slice).len() - kept.len();
        filled.removed += lost;
        if is_changed || lost > 0 {
            match kept.is_empty() {
                true => changes.delete.push(slice.clone()),
                false => changes.update.push(with(slice, service, kept)),
            }
        } else if desired::lacks_labels(slice, service) {
            changes
                .update
                .push(with(slice, service, endpoints(slice).to_vec()));
        } else {
            unchanged.push(slice);
        }
    }
    filled.added = wanted.len();

    // The fullest first, so that few slices are left half empty.
    changes
        .update
        .sort_by_key(|slice| Reverse(endpoints(slice).len()));
    for slice in &mut changes.update {
        add(slice, &mut wanted);
    }
    while !wanted.is_empty() {
        let best = match wanted.len() < MAX_ENDPOINTS {
            true => best_to_fill(&unchanged, wanted.len()),
            false => None,
        };
        match best {
            Some(at) => {
                let mut slice = EndpointSlice::clone(unchanged.remove(at));
                add(&mut slice, &mut wanted);
                changes.update.push(slice);
            }
            None => {
                let mut slice = new_slice();
                add(&mut slice, &mut wanted);
                changes.create.push(slice);
            }
        }
    }
    filled
}

/// The slice with other endpoints, and with the labels of its Service.
fn with(slice: &EndpointSlice, service: &Service, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let mut slice = slice.clone();
    slice.endpoints = EndpointList::from_vec(endpoints);
    slice.metadata.labels = Some(desired::labels(service));
    slice
}

/// Moves as many endpoints into a slice as it takes.
fn add(slice: &mut EndpointSlice, wanted: &mut EndpointSet) {
    let endpoints = endpoints_mut(slice);
    while endpoints.len() < MAX_ENDPOINTS
        && let Some((_, endpoint)) = wanted.pop_first()
    {
        endpoints.push(endpoint);
    }
}

/// The slice that has room for all, and is closest to full then.
fn best_to_fill(slices: &[&Arc<EndpointSlice>], count: usize) -> Option<usize> {
    let room_left =
        |slice: &EndpointSlice| MAX_ENDPOINTS.checked_sub(endpoints(slice).len() + count);
    let fitting = slices.iter().enumerate().filter_map(|(at, slice)| {
        let room = room_left(slice)?;
        // An empty slice that nothing is added to would not do.
        (room < MAX_ENDPOINTS).then_some((room, at))
    });
    fitting.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Family;
    use sendo::ObjectExt;
    use serde_json::json;

    fn service(labels: serde_json::Value) -> Service {
        let metadata = json!({"name": "s", "namespace": "n", "uid": "u", "labels": labels});
        let spec = json!({"clusterIP": "10.0.0.1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a service")
    }

    fn endpoint(number: usize) -> Endpoint {
        Endpoint {
            addresses: vec![format!("{number:04}")],
            ..Endpoint::default()
        }
    }

    fn set(numbers: impl IntoIterator<Item = usize>) -> EndpointSet {
        let endpoints = numbers.into_iter().map(endpoint);
        endpoints
            .map(|endpoint| (EndpointId::new(&endpoint), endpoint))
            .collect()
    }

    fn slice(name: &str, numbers: impl IntoIterator<Item = usize>) -> Arc<EndpointSlice> {
        let mut slice = desired::new_slice(&service(json!({})), Family::V4, Vec::new());
        slice.metadata.name = Some(name.to_owned());
        *endpoints_mut(&mut slice) = numbers.into_iter().map(endpoint).collect();
        Arc::new(slice)
    }

    fn filled(existing: &[Arc<EndpointSlice>], wanted: EndpointSet) -> Filled {
        let service = service(json!({}));
        fill(&service, existing, wanted, || {
            desired::new_slice(&service, Family::V4, Vec::new())
        })
    }

    /// How many endpoints each slice has: new ones, changed ones by name, and the names of those to go.
    fn shown(filled: &Filled) -> (Vec<usize>, Vec<(&str, usize)>, Vec<&str>) {
        let Changes {
            create,
            update,
            delete,
        } = &filled.changes;
        let count = |slice: &EndpointSlice| endpoints(slice).len();
        (
            create.iter().map(count).collect(),
            update
                .iter()
                .map(|slice| (slice.name(), count(slice)))
                .collect(),
            delete.iter().map(|slice| slice.name()).collect(),
        )
    }

    #[test]
    fn new_slices_are_filled_to_a_hundred() {
        let filled = filled(&[], set(0..250));
        assert_eq!(shown(&filled), (vec![100, 100, 50], vec![], vec![]));
        assert_eq!((filled.added, filled.removed), (250, 0));
    }

    #[test]
    fn nothing_changes_where_all_is_in_place() {
        let filled = filled(&[slice("a", 0..60), slice("b", 60..100)], set(0..100));
        assert_eq!(shown(&filled), (vec![], vec![], vec![]));
    }

    #[test]
    fn new_endpoints_go_into_slices_that_change_anyhow() {
        let existing = [slice("a", 0..90), slice("b", 100..120)];
        let filled = filled(&existing, set((1..90).chain(100..120).chain(200..205)));
        assert_eq!(shown(&filled), (vec![], vec![("a", 94)], vec![]));
        assert_eq!((filled.added, filled.removed), (5, 1));
    }

    #[test]
    fn otherwise_they_go_into_the_slice_that_they_fill_best() {
        let existing = [
            slice("a", 0..10),
            slice("b", 100..190),
            slice("c", 200..299),
        ];
        let all =
            |more: std::ops::Range<usize>| set((0..10).chain(100..190).chain(200..299).chain(more));
        assert_eq!(
            shown(&filled(&existing, all(500..505))),
            (vec![], vec![("b", 95)], vec![])
        );
        assert_eq!(
            shown(&filled(&existing, all(500..511))),
            (vec![], vec![("a", 21)], vec![])
        );
        // None has room for all of them: a new slice, rather than several changed ones.
        assert_eq!(
            shown(&filled(&existing, all(500..595))),
            (vec![95], vec![], vec![])
        );
    }

    #[test]
    fn a_slice_of_which_nothing_is_left_goes() {
        let filled = filled(&[slice("a", 0..3), slice("b", 5..7)], set(5..7));
        assert_eq!(shown(&filled), (vec![], vec![], vec!["a"]));
        assert_eq!((filled.added, filled.removed), (0, 3));
    }

    #[test]
    fn an_endpoint_in_two_slices_stays_in_one() {
        let filled = filled(&[slice("a", 0..3), slice("b", 2..5)], set(0..5));
        assert_eq!(shown(&filled), (vec![], vec![("b", 2)], vec![]));
    }

    #[test]
    fn labels_of_the_service_are_those_of_its_slices() {
        let service = service(json!({"team": "a", "kubernetes.io/service-name": "no"}));
        let filled = fill(&service, &[slice("a", 0..3)], set(0..3), || unreachable!());
        let labels = filled.changes.update[0]
            .metadata
            .labels
            .clone()
            .unwrap_or_default();
        assert_eq!(labels.get("team").map(String::as_str), Some("a"));
        assert_eq!(
            labels.get("kubernetes.io/service-name").map(String::as_str),
            Some("s")
        );
        assert_eq!(endpoints(&filled.changes.update[0]).len(), 3);
    }
}
