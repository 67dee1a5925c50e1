//! The endpoints that a Service should have, and the slices they go into.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/utils.go`: `podToEndpoint`, `getEndpointPorts`,
//!   `newEndpointSlice`, `setEndpointSliceLabels`, `ownedBy`
//! - `staging/src/k8s.io/endpointslice/reconciler.go`: `placeholderSliceCompare`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sendo::{Context, ObjectExt, ObjectKey};

use super::{MANAGER, SyncError};
use crate::endpoints::reference;
use crate::pods::{Pod, is_ready, node_of};
use crate::service::{self, Family, HEADLESS, Terminating, go_hash};
use crate::slices::{
    EndpointId, EndpointList, EndpointSet, MANAGED_BY, SERVICE_NAME, endpoints, name_prefix,
};

/// The label of a node with its zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// The endpoints that a Service should have.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// By their ports: those of pods with the same ports share slices.
    pub(super) groups: BTreeMap<String, Group>,
    /// Why pods were left out.
    pub(super) errors: Vec<SyncError>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) ports: Vec<EndpointPort>,
    pub(super) endpoints: EndpointSet,
}

impl Desired {
    /// Those with addresses of one family.
    pub(super) fn new(service: &Service, family: Family, pods: &[Arc<Pod>], cx: &Context) -> Self {
        let spec = service.spec.as_ref();
        let publishes = spec.and_then(|spec| spec.publish_not_ready_addresses);
        let publishes = publishes.unwrap_or_default();
        let mut desired = Desired::default();
        let endpoints = pods
            .iter()
            .filter(|pod| service::is_endpoint(pod, Terminating::Included));
        for pod in endpoints {
            let mut ports = ports(service, pod);
            let key = go_hash::sort_slice_ports(&mut ports);
            let group = desired.groups.entry(key).or_insert_with(|| Group {
                ports,
                endpoints: EndpointSet::new(),
            });
            let name = node_of(pod).unwrap_or_default();
            let node = cx.get::<Node>(ObjectKey::cluster(name));
            if node.is_none() && !publishes {
                desired.errors.push(SyncError::NodeNotFound {
                    pod: pod.name().to_owned(),
                    service: service.key(),
                    node: name.to_owned(),
                });
                continue;
            }
            let endpoint = endpoint(pod, node.as_deref(), service, family);
            if !endpoint.addresses.is_empty() {
                group.endpoints.insert(EndpointId::new(&endpoint), endpoint);
            }
        }
        desired
    }
}

fn endpoint(pod: &Pod, node: Option<&Node>, service: &Service, family: Family) -> Endpoint {
    let spec = service.spec.as_ref();
    let publishes = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let (serving, terminating) = (is_ready(pod), pod.is_being_deleted());
    let addresses =
        service::addresses(pod).filter(|address| Family::from_address(*address) == family);
    let mut addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    addresses.sort();
    let zone = node.and_then(|node| node.label(ZONE));
    Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(publishes || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: service::hostname(pod, service).map(str::to_owned),
        node_name: node_of(pod).map(str::to_owned),
        target_ref: Some(reference(pod)),
        zone: zone.filter(|zone| !zone.is_empty()).map(str::to_owned),
        ..Endpoint::default()
    }
}

/// The ports of a Service as a pod has them.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_ref());
    let ports = ports.into_iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(service::target_port(pod, port)?),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

/// A text that is the same for slices with the same ports.
pub(super) fn ports_key(slice: &EndpointSlice) -> String {
    go_hash::sort_slice_ports(&mut slice.ports.clone().unwrap_or_default())
}

/// A slice of a Service, still without endpoints.
pub(super) fn new_slice(
    service: &Service,
    family: Family,
    ports: Vec<EndpointPort>,
) -> EndpointSlice {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: service.name().to_owned(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(name_prefix(service.name())),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        address_type: family.as_str().to_owned(),
        endpoints: EndpointList::from_vec(Vec::new()),
        ports: Some(ports),
    }
}

/// Whether a slice belongs to this very Service, not to an older one of its name.
pub(super) fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let mut owners = slice.metadata.owner_references.iter().flatten();
    let uid = service.metadata.uid.as_deref();
    owners.any(|owner| {
        Some(owner.uid.as_str()) == uid && owner.kind == "Service" && owner.api_version == "v1"
    })
}

/// Whether a slice is the empty one of a Service without endpoints.
pub(super) fn is_such_an_empty_slice(slice: &EndpointSlice, empty: &EndpointSlice) -> bool {
    slice.address_type == empty.address_type
        && slice.metadata.labels == empty.metadata.labels
        && endpoints(slice).is_empty()
        && slice.ports.iter().flatten().next().is_none()
}

/// The labels of a slice that say what it is; a Service's own labels of these names do not count.
fn is_reserved(label: &str) -> bool {
    matches!(label, SERVICE_NAME | MANAGED_BY | HEADLESS)
}

/// The labels of the slices of a Service.
pub(super) fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = copied(service.metadata.labels.as_ref());
    if !service::has_address(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// Whether a slice has not the labels that its Service has.
pub(super) fn lacks_labels(slice: &EndpointSlice, service: &Service) -> bool {
    copied(slice.metadata.labels.as_ref()) != copied(service.metadata.labels.as_ref())
}

fn copied(labels: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let labels = labels.into_iter().flatten();
    let copied = labels.filter(|(name, _)| !is_reserved(name));
    copied
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
