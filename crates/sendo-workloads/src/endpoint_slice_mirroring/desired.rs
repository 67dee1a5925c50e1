//! The slices that Endpoints become.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpointslicemirroring/utils.go`: `newEndpointSlice`, `addressToEndpoint`,
//!   `epPortsToEpsPorts`
//! - `pkg/controller/endpointslicemirroring/reconciler.go`: `needRebuildExistingSlices`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, EndpointAddress, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sendo::ObjectExt;

use super::{MANAGER, MAX_ENDPOINTS};
use crate::service::subsets::{addresses, repack};
use crate::service::{Family, go_hash, parse_address, trigger_time};
use crate::slices::{EndpointId, EndpointList, EndpointSet, MANAGED_BY, SERVICE_NAME, name_prefix};

/// The annotation in which kubectl keeps what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The endpoints of Endpoints.
#[derive(Debug, Default)]
pub(super) struct Desired {
    pub(super) groups: BTreeMap<SliceKey, Group>,
    /// How many addresses are no IP addresses.
    pub(super) invalid: usize,
    /// How many addresses are not mirrored, invalid ones included.
    pub(super) skipped: usize,
}

/// What endpoints of one slice have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SliceKey {
    pub(super) family: Family,
    ports: String,
}

impl SliceKey {
    pub(super) fn new(slice: &EndpointSlice) -> Self {
        SliceKey {
            family: Family::parse(&slice.address_type).unwrap_or(Family::V4),
            ports: go_hash::sort_slice_ports(&mut slice.ports.clone().unwrap_or_default()),
        }
    }
}

/// Endpoints with the same ports.
#[derive(Debug, Default)]
pub(super) struct Group {
    ports: Vec<EndpointPort>,
    pub(super) endpoints: EndpointSet,
}

impl Desired {
    pub(super) fn new(endpoints: &Endpoints) -> Self {
        let mut desired = Desired::default();
        for subset in repack(endpoints.subsets.as_deref().unwrap_or_default()) {
            let mut ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
            let key = go_hash::sort_slice_ports(&mut ports);
            let mut added = 0;
            for (address, ready) in addresses(&subset) {
                if added == MAX_ENDPOINTS {
                    break;
                }
                let Some((family, endpoint)) = endpoint(address, ready) else {
                    desired.invalid += 1;
                    continue;
                };
                let key = SliceKey {
                    family,
                    ports: key.clone(),
                };
                let group = desired.groups.entry(key).or_insert_with(|| Group {
                    ports: ports.clone(),
                    endpoints: EndpointSet::new(),
                });
                group.endpoints.insert(EndpointId::new(&endpoint), endpoint);
                added += 1;
            }
            desired.skipped += addresses(&subset).count() - added;
        }
        desired
    }
}

fn port(port: &v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(Family, Endpoint)> {
    let ip = parse_address(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        ..Endpoint::default()
    };
    Some((Family::from_address(ip), endpoint))
}

/// The new slice of a group.
pub(super) fn slice(endpoints: &Endpoints, key: &SliceKey, group: Group) -> EndpointSlice {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Endpoints".to_owned(),
        name: endpoints.name().to_owned(),
        uid: endpoints.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let targets = group.endpoints.into_values().take(MAX_ENDPOINTS);
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(name_prefix(endpoints.name())),
            namespace: endpoints.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations(endpoints)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        address_type: key.family.as_str().to_owned(),
        endpoints: EndpointList::from_vec(targets.collect()),
        ports: Some(group.ports),
    }
}

/// The annotations that are mirrored.
fn annotations(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| name != LAST_APPLIED && !trigger_time::is_annotation(name));
    annotations
}

/// Whether labels, annotations and owner of a slice are those that the Endpoints ask for.
pub(super) fn describes(slice: &EndpointSlice, endpoints: &Endpoints) -> bool {
    let mut labels = slice.metadata.labels.clone().unwrap_or_default();
    labels.retain(|name, _| name != MANAGED_BY && name != SERVICE_NAME);
    let mut owners = slice.metadata.owner_references.iter().flatten();
    let is_of_another = owners.any(|owner| {
        owner.kind == "Endpoints"
            && owner.name == endpoints.name()
            && Some(&owner.uid) != endpoints.metadata.uid.as_ref()
    });
    labels == endpoints.metadata.labels.clone().unwrap_or_default()
        && slice.metadata.annotations.clone().unwrap_or_default() == annotations(endpoints)
        && !is_of_another
}
