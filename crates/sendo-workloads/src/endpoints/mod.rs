//! Keeps the Endpoints of each Service with a selector: the addresses of its pods.
//!
//! Endpoints are of the same name as their Service, and hold at most a thousand addresses, of
//! the Service's first address family. EndpointSlices hold all; see
//! [`endpoint_slice`](crate::endpoint_slice).
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpoint/endpoints_controller.go`: `syncService`, `onEndpointsDelete`,
//!   `checkLeftoverEndpoints`

mod capacity;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Service, ServicePort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::EventSeverity::Warning;
use sendo::handler::map;
use sendo::source::kind;
use sendo::{Action, Context, Controller, Event, ObjectExt, ObjectKey, Reconcile, Result, client};

use crate::pods::{Pod, is_ready};
use crate::service::subsets::repack;
use crate::service::trigger_time::{self, TriggerTimes};
use crate::service::{self, Family, HEADLESS, Terminating};

/// The label of Endpoints that this controller writes, and its value.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// The annotation of Endpoints with which programs elected a leader before there were Leases.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The controller of Endpoints.
pub fn controller() -> Controller {
    // Those of a Service that went while this program did not run, and those that somebody deletes.
    // Those that somebody creates for no Service stay.
    let endpoints = map(|event: Event<Endpoints>, cx| match event {
        Event::Created {
            object,
            initial: true,
        } => {
            let is_left = cx.get::<Service>(object.key()).is_none();
            let is_lease = object.annotation(LEADER).is_some();
            (is_left && !is_lease).then(|| object.key())
        }
        Event::Deleted { object, .. } => Some(object.key()),
        _ => None,
    });
    Controller::new::<Service>()
        .named("endpoints-controller")
        .events_as(MANAGER)
        .watches(kind::<Pod>(), service::services_of_pod())
        .watches(kind::<Endpoints>(), endpoints)
        .workers(5)
        .reconcile(EndpointsOf::default())
}

#[derive(Default)]
struct EndpointsOf {
    times: TriggerTimes,
}

impl Reconcile<Service> for EndpointsOf {
    async fn reconcile(&self, service: Arc<Service>, cx: Context) -> Result<Action> {
        let Some(selector) = service::selector(&service) else {
            return Ok(Action::done());
        };
        let pods = service::pods(&service, &selector, &cx);
        let changed = self.times.of_changes(&service, &pods);
        let subsets = subsets(&service, &pods);

        let current = cx.get::<Endpoints>(service.key());
        if current
            .as_ref()
            .is_some_and(|current| is_right(current, &service, &subsets))
        {
            return Ok(Action::done());
        }
        let mut endpoints = match &current {
            Some(current) => Endpoints::clone(current),
            None => Endpoints {
                metadata: ObjectMeta {
                    name: Some(service.name().to_owned()),
                    namespace: service.namespace().map(str::to_owned),
                    ..ObjectMeta::default()
                },
                subsets: None,
            },
        };
        let mut subsets = subsets;
        let annotations = endpoints.metadata.annotations.get_or_insert_default();
        trigger_time::annotate(annotations, changed);
        capacity::annotate(annotations, capacity::truncate(&mut subsets));
        endpoints.subsets = Some(subsets);
        endpoints.metadata.labels = Some(labels(&service));
        write(&endpoints, current.is_some(), &service, &cx).await?;
        Ok(Action::done())
    }

    async fn gone(&self, key: ObjectKey, cx: Context) -> Result<()> {
        cx.client().delete::<Endpoints>(&key).await?;
        self.times.forget(&key);
        Ok(())
    }
}

async fn write(
    endpoints: &Endpoints,
    exists: bool,
    service: &Service,
    cx: &Context,
) -> Result<(), client::Error> {
    let key = service.key();
    let (written, reason, what) = match exists {
        true => {
            let what = format!("Failed to update endpoint {key}");
            (cx.update(endpoints).await, "FailedToUpdateEndpoint", what)
        }
        false => {
            let what = format!("Failed to create endpoint for service {key}");
            (cx.create(endpoints).await, "FailedToCreateEndpoint", what)
        }
    };
    match written {
        // Nothing can be created there any more.
        Err(error) if error.is_namespace_gone() => Ok(()),
        Err(error) => {
            if !error.is_conflict() {
                cx.event_on(endpoints, Warning, reason, format!("{what}: {error}"));
            }
            Err(error)
        }
        Ok(_) => Ok(()),
    }
}

/// The labels of the Service's Endpoints.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    match service::has_address(service) {
        true => labels.remove(HEADLESS),
        false => labels.insert(HEADLESS.to_owned(), String::new()),
    };
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// Whether the Endpoints of a Service need no change.
fn is_right(current: &Endpoints, service: &Service, subsets: &[EndpointSubset]) -> bool {
    let own = current.subsets.as_deref().unwrap_or_default();
    let annotations = current.metadata.annotations.as_ref();
    let same = are_equal(own, subsets) || are_equal(&repack(own), subsets);
    same && are_right_labels(current, service) && capacity::is_right(annotations, own)
}

/// Whether the labels are those of the Service; the one about an address does not count.
fn are_right_labels(current: &Endpoints, service: &Service) -> bool {
    let own = current.metadata.labels.iter().flatten();
    let copied = own.filter(|(name, _)| *name != HEADLESS && *name != MANAGED_BY);
    current.label(MANAGED_BY) == Some(MANAGER)
        && copied.eq(service.metadata.labels.iter().flatten())
}

/// Whether subsets are equal, but for the versions of the pods, and lists that are empty or absent.
fn are_equal(one: &[EndpointSubset], other: &[EndpointSubset]) -> bool {
    let plain = |subset: &EndpointSubset| {
        let addresses = |list: &Option<Vec<EndpointAddress>>| {
            let mut list = list.clone().unwrap_or_default();
            for target in list
                .iter_mut()
                .filter_map(|address| address.target_ref.as_mut())
            {
                target.resource_version = None;
            }
            list
        };
        let ports = subset.ports.clone().unwrap_or_default();
        (
            addresses(&subset.addresses),
            addresses(&subset.not_ready_addresses),
            ports,
        )
    };
    one.iter().map(plain).eq(other.iter().map(plain))
}

/// The subsets that the pods of a Service make.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service::spec(service);
    let publishes = spec.publish_not_ready_addresses.unwrap_or_default();
    let terminating = match publishes {
        true => Terminating::Included,
        false => Terminating::LeftOut,
    };
    let service_ports = spec.ports.as_deref().unwrap_or_default();
    let mut subsets = Vec::new();
    for pod in pods
        .iter()
        .filter(|pod| service::is_endpoint(pod, terminating))
    {
        let Some(address) = address(service, pod) else {
            continue;
        };
        let mut add = |port: Option<EndpointPort>| {
            let addresses = Some(vec![address.clone()]);
            let (ready, others) = match publishes || is_ready(pod) {
                true => (addresses, None),
                false => (None, addresses),
            };
            subsets.push(EndpointSubset {
                addresses: ready,
                not_ready_addresses: others,
                ports: port.map(|port| vec![port]),
            });
        };
        if service_ports.is_empty() && service::is_headless(service) {
            add(None);
        }
        for port in service_ports {
            if let Some(number) = service::target_port(pod, port) {
                add(Some(endpoint_port(port, number)));
            }
        }
    }
    repack(&subsets)
}

fn endpoint_port(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: port.name.clone().filter(|name| !name.is_empty()),
        port: number,
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    }
}

/// The address of a pod in the Service's first family; `None` if it has none.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let spec = service.spec.as_ref();
    let named = spec.and_then(|spec| spec.ip_families.as_ref()?.first());
    let own = || spec?.cluster_ip.as_deref().and_then(service::parse_address);
    let first = || service::parse_address(pod.status.as_ref()?.pod_ip.as_deref()?);
    let family = match named {
        Some(name) => Family::parse(name),
        None => own().or_else(first).map(Family::from_address),
    };
    let family = family.unwrap_or(Family::V4);
    let address =
        service::addresses(pod).find(|address| Family::from_address(*address) == family)?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Some(EndpointAddress {
        ip: address.to_string(),
        hostname: service::hostname(pod, service).map(str::to_owned),
        node_name: Some(node.unwrap_or_default()),
        target_ref: Some(reference(pod)),
    })
}

/// The reference to a pod in endpoints.
pub(crate) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
