//! Mirrors Endpoints that people write by hand, for Services without a selector, into
//! EndpointSlices: one slice for each set of ports and address family.
//!
//! `desired` makes endpoints of addresses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go`
//! - `pkg/controller/endpointslicemirroring/reconciler.go`, `reconciler_helpers.go`, `events.go`

mod desired;
mod figures;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo::EventSeverity::Warning;
use sendo::handler::on;
use sendo::predicate::Predicate;
use sendo::queue::Backoff;
use sendo::source::kind;
use sendo::{Action, Context, Controller, Event, ObjectExt, ObjectKey, Reconcile, Result};

use self::desired::{Desired, Group, SliceKey};
use self::figures::Figures;
use crate::endpoints::LEADER;
use crate::service;
use crate::slices::{
    self, BY_SERVICE, Changes, EndpointId, EndpointSet, WriteError, are_equal, metrics,
};

/// The value of the label of the slices that this controller writes.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

/// The most addresses of a subset that are mirrored.
const MAX_ENDPOINTS: usize = 1000;

/// The label of Endpoints that are not to be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// How long Endpoints that failed wait: such a sync may write many slices.
const RETRY: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(100),
    factor: 2.0,
};

/// The controller that mirrors Endpoints.
pub fn controller() -> Controller {
    let may_be_mirrored = Predicate::new(|event: &Event<Endpoints>| {
        let before = event.old().is_some_and(|old| is_to_be_mirrored(old));
        before || is_to_be_mirrored(event.object())
    });
    // Of a Service it only matters whether it has a selector.
    let services = on::<Service, ObjectKey>()
        .created(|service, _| (!service::has_selector(service)).then(|| service.key()))
        .updated(|old, new, _| {
            let has_changed = service::has_selector(old) != service::has_selector(new);
            has_changed.then(|| new.key())
        })
        .deleted(|service, _| (!service::has_selector(service)).then(|| service.key()))
        .handler();
    let figures = Figures::default();
    let controller = Controller::new::<Endpoints>()
        .named("endpointslice-mirroring-controller")
        .events_as("endpoint-slice-mirroring-controller")
        .when(may_be_mirrored)
        .watches(kind::<Service>(), services)
        .watches(kind::<EndpointSlice>(), slices::service_of_slice(MANAGER))
        .index(&BY_SERVICE)
        .retry(RETRY)
        .workers(5);
    figures.declare(controller).reconcile(Mirror { figures })
}

/// Whether Endpoints are such that they may be mirrored; it depends on their Service, too.
fn is_to_be_mirrored(endpoints: &Endpoints) -> bool {
    endpoints.label(SKIP) != Some("true") && endpoints.annotation(LEADER).is_none()
}

struct Mirror {
    figures: Figures,
}

impl Reconcile<Endpoints> for Mirror {
    async fn reconcile(&self, endpoints: Arc<Endpoints>, cx: Context) -> Result<Action> {
        let begun = cx.clock().now();
        let service = cx.get::<Service>(endpoints.key());
        let selects_nothing = service.is_some_and(|service| !service::has_selector(&service));
        let mirrored = match is_to_be_mirrored(&endpoints) && selects_nothing {
            true => self.mirror(&endpoints, &cx).await.map_err(Into::into),
            false => self.remove(&endpoints.key(), &cx).await,
        };
        self.figures.took(cx.clock().now() - begun);
        mirrored.map(|()| Action::done())
    }

    async fn gone(&self, key: ObjectKey, cx: Context) -> Result<()> {
        self.remove(&key, &cx).await
    }
}

impl Mirror {
    /// Deletes the slices of Endpoints that are mirrored no more.
    async fn remove(&self, endpoints: &ObjectKey, cx: &Context) -> Result<()> {
        self.figures.slices.forget(endpoints);
        for slice in slices::slices_of(endpoints, MANAGER, cx) {
            cx.delete(&slice).await?;
        }
        Ok(())
    }

    async fn mirror(&self, endpoints: &Endpoints, cx: &Context) -> Result<(), WriteError> {
        let Desired {
            groups,
            invalid,
            skipped,
        } = Desired::new(endpoints);
        self.figures.skipped(skipped);
        if invalid > 0 {
            let message =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            cx.event(Warning, "InvalidIPAddress", message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {MAX_ENDPOINTS} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            cx.event(Warning, "TooManyAddressesToMirror", message);
        }

        let mut existing: BTreeMap<SliceKey, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in slices::slices_of(&endpoints.key(), MANAGER, cx) {
            existing
                .entry(SliceKey::new(&slice))
                .or_default()
                .push(slice);
        }
        let mut changes = Changes::default();
        let mut totals = Totals::default();
        let mut by_type: BTreeMap<&'static str, Vec<metrics::Group>> = BTreeMap::new();
        for (key, group) in groups {
            let slices = existing.remove(&key).unwrap_or_default();
            by_type
                .entry(key.family.as_str())
                .or_default()
                .push(metrics::Group {
                    endpoints: group.endpoints.len(),
                    slices: 1,
                });
            plan(endpoints, &key, group, slices, &mut changes, &mut totals);
        }
        // Sets of ports that are there no more.
        changes.delete.extend(existing.into_values().flatten());
        self.figures.synced(&totals);
        for (address_type, groups) in by_type {
            self.figures
                .slices
                .set(&endpoints.key(), address_type, groups);
        }
        changes.reuse(|_| true);
        let owner = format!("Endpoints {}", endpoints.key());
        let going = endpoints.is_being_deleted();
        changes.write(&owner, going, &self.figures.slices, cx).await
    }
}

/// How many endpoints a sync changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    added: usize,
    updated: usize,
    removed: usize,
}

/// Plans the one slice of a group of endpoints with the same ports.
fn plan(
    endpoints: &Endpoints,
    key: &SliceKey,
    group: Group,
    existing: Vec<Arc<EndpointSlice>>,
    changes: &mut Changes,
    totals: &mut Totals,
) {
    let mut existing = existing.into_iter();
    let first = existing.next();
    changes.delete.extend(existing);
    let own = match &first {
        Some(first) => differences(first, &group.endpoints),
        None => Totals {
            added: group.endpoints.len(),
            ..Totals::default()
        },
    };
    totals.added += own.added;
    totals.updated += own.updated;
    totals.removed += own.removed;
    let Some(first) = first else {
        changes.create.push(desired::slice(endpoints, key, group));
        return;
    };
    if own != Totals::default() || !desired::describes(&first, endpoints) {
        let mut slice = desired::slice(endpoints, key, group);
        slice.metadata.generate_name = None;
        slice.metadata.name = first.metadata.name.clone();
        changes.update.push(slice);
    }
}

/// How a slice differs from what is wanted.
fn differences(slice: &EndpointSlice, wanted: &EndpointSet) -> Totals {
    let mut totals = Totals::default();
    let mut found = 0;
    for endpoint in slices::endpoints(slice) {
        match wanted.get(&EndpointId::new(endpoint)) {
            None => totals.removed += 1,
            Some(wanted) => {
                found += 1;
                totals.updated += usize::from(!are_equal(wanted, endpoint));
            }
        }
    }
    totals.added = wanted.len().saturating_sub(found);
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({
            "name": "s", "namespace": "n", "uid": "u", "labels": {"team": "a"},
            "annotations": {"note": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        });
        serde_json::from_value(json!({"metadata": metadata, "subsets": subsets}))
            .expect("endpoints")
    }

    /// What has to be written so that `existing` becomes the mirror of the endpoints.
    fn planned(endpoints: &Endpoints, existing: &[EndpointSlice]) -> (Changes, Totals) {
        let (mut changes, mut totals) = (Changes::default(), Totals::default());
        for (key, group) in Desired::new(endpoints).groups {
            let slices = existing.iter().filter(|slice| SliceKey::new(slice) == key);
            let slices = slices.cloned().map(Arc::new).collect();
            plan(endpoints, &key, group, slices, &mut changes, &mut totals);
        }
        (changes, totals)
    }

    fn mirrored(endpoints: &Endpoints) -> Vec<EndpointSlice> {
        let (changes, _) = planned(endpoints, &[]);
        let named = changes
            .create
            .into_iter()
            .enumerate()
            .map(|(number, mut slice)| {
                slice.metadata.name = Some(format!("s-{number}"));
                slice
            });
        named.collect()
    }

    #[test]
    fn addresses_become_endpoints_of_a_slice_for_each_family() {
        let endpoints = endpoints(json!([{
            "addresses": [{"ip": "192.0.2.1", "hostname": "h"}, {"ip": "2001:db8::1"}],
            "notReadyAddresses": [{"ip": "192.0.2.2", "nodeName": "n"}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }]));
        let slices = mirrored(&endpoints);
        let shown =
            |slice: &EndpointSlice| json!([slice.address_type, slice.endpoints, slice.ports]);
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
        let expected = [
            json!(["IPv4", [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "hostname": "h"},
                {"addresses": ["192.0.2.2"], "conditions": {"ready": false}, "nodeName": "n"},
            ], ports]),
            json!(["IPv6", [{"addresses": ["2001:db8::1"], "conditions": {"ready": true}}], ports]),
        ];
        assert_eq!(slices.iter().map(shown).collect::<Vec<_>>(), expected);
        let metadata = json!({
            "name": "s-0", "namespace": "n", "generateName": "s-",
            "annotations": {"note": "b"},
            "labels": {
                "team": "a", "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": MANAGER,
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Endpoints", "name": "s", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        });
        assert_eq!(json!(slices[0].metadata), metadata);
    }

    #[test]
    fn what_is_mirrored_stays_and_what_differs_is_updated() {
        let subsets = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]);
        let before = endpoints(subsets);
        let slices = mirrored(&before);
        assert_eq!(planned(&before, &slices).0.count(), 0);

        let subsets = json!([{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 80}]}]);
        let (changes, totals) = planned(&endpoints(subsets), &slices);
        assert_eq!(
            (totals.added, totals.removed, changes.update.len()),
            (1, 1, 1)
        );
        assert_eq!(changes.update[0].name(), "s-0");

        let mut relabelled = before.clone();
        relabelled.metadata.labels.get_or_insert_default().clear();
        assert_eq!(planned(&relabelled, &slices).0.update.len(), 1);
        // Endpoints that were deleted and written again.
        let mut again = before;
        again.metadata.uid = Some("other".to_owned());
        assert_eq!(planned(&again, &slices).0.update.len(), 1);
    }

    #[test]
    fn of_too_many_addresses_some_are_skipped() {
        let address =
            |number: usize| json!({"ip": format!("10.0.{}.{}", number / 250, number % 250)});
        let addresses: Vec<Value> = (0..1005).map(address).collect();
        let subsets = json!([{"addresses": addresses, "ports": [{"port": 80}]}]);
        let desired = Desired::new(&endpoints(subsets));
        assert_eq!((desired.skipped, desired.invalid), (5, 0));
        let sizes: Vec<_> = desired
            .groups
            .values()
            .map(|group| group.endpoints.len())
            .collect();
        assert_eq!(sizes, [1000]);
    }
}
