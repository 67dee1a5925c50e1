//! Services, and the pods behind them, as the controllers of endpoints read them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/util/controller_utils.go`: `GetPodUpdateProjectionKey`,
//!   `GetServicesToUpdate`, `podEndpointsChanged`, `ShouldPodBeInEndpoints`, `ShouldSetHostname`
//! - `staging/src/k8s.io/endpointslice/utils.go`: `FindPort`, `getAddressTypesForService`,
//!   `isServiceIPSet`

pub(crate) mod go_hash;
pub(crate) mod subsets;
pub(crate) mod trigger_time;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sendo::handler::{Handler, map};
use sendo::{Context, Event, ObjectExt, ObjectKey, Reader, Selector};

use crate::pods::{Pod, is_ready, phase};

/// The label of slices and Endpoints of a Service without an address of its own.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The value of `clusterIP` of a headless Service.
const NO_ADDRESS: &str = "None";

/// The family of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// The family of an address; an IPv4 address in the form of an IPv6 one counts as IPv4.
    pub(crate) fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// As it is written in `ipFamilies` and as an EndpointSlice's address type.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Family::V4, Family::V6]
            .into_iter()
            .find(|family| family.as_str() == text)
    }
}

/// An address as Go's `ParseIPSloppy` reads it: the numbers of an IPv4 address may begin with zeros.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(address).to_canonical());
    }
    let number = |text: &str| match text.trim_start_matches('0') {
        _ if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
        "" => Some(0),
        digits => digits.parse::<u8>().ok(),
    };
    let octets = text.split('.').map(number).collect::<Option<Vec<_>>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

/// The spec of a Service; one without is treated as empty.
pub(crate) fn spec(service: &Service) -> ServiceSpec {
    service.spec.clone().unwrap_or_default()
}

/// The selector of a Service whose endpoints follow from pods; `None` for one that has none, or
/// that is a name for something outside of the cluster.
pub(crate) fn selector(service: &Service) -> Option<Selector> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let labels = spec.selector.as_ref().filter(|labels| !labels.is_empty())?;
    Some(Selector::labels(labels))
}

/// Whether the Service selects pods at all.
pub(crate) fn has_selector(service: &Service) -> bool {
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|labels| !labels.is_empty())
}

/// Whether the Service has an address of its own.
pub(crate) fn has_address(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref());
    !matches!(address.unwrap_or_default(), "" | NO_ADDRESS)
}

/// Whether the Service says that it has no address.
pub(crate) fn is_headless(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some(NO_ADDRESS)
}

/// The families of the addresses that the Service's endpoints have.
pub(crate) fn families(service: &Service) -> Vec<Family> {
    let spec = service.spec.as_ref();
    let named = spec.and_then(|spec| spec.ip_families.as_ref());
    let mut families: Vec<Family> = Vec::new();
    for family in named
        .into_iter()
        .flatten()
        .filter_map(|name| Family::parse(name))
    {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if !families.is_empty() {
        return families;
    }
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref());
    match address.and_then(parse_address) {
        Some(address) => vec![Family::from_address(address)],
        None if has_address(service) => vec![Family::V4],
        None => vec![Family::V4, Family::V6],
    }
}

/// The pods that the selector of the Service matches, by name.
pub(crate) fn pods(service: &Service, selector: &Selector, cx: &Context) -> Vec<Arc<Pod>> {
    let namespace = service.namespace().unwrap_or_default();
    let pods = cx.list::<Pod>().in_namespace(namespace);
    pods.labels(selector).iter().collect()
}

/// The addresses that a pod has been given.
pub(crate) fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> + '_ {
    let addresses = pod
        .status
        .iter()
        .flat_map(|status| status.pod_ips.iter().flatten());
    addresses.filter_map(|address| parse_address(&address.ip))
}

/// Whether a pod that is being deleted still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminating {
    Included,
    LeftOut,
}

/// Whether a pod that a Service selects is one of its endpoints: it has an address and has not ended.
pub(crate) fn is_endpoint(pod: &Pod, terminating: Terminating) -> bool {
    let status = pod.status.as_ref();
    let has_address = status.is_some_and(|status| {
        let first = status.pod_ip.as_deref().unwrap_or_default();
        !first.is_empty() || status.pod_ips.iter().flatten().next().is_some()
    });
    has_address
        && !matches!(phase(pod), "Succeeded" | "Failed")
        && (terminating == Terminating::Included || !pod.is_being_deleted())
}

/// The host name of the pod within the Service, if its subdomain is the Service.
pub(crate) fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_deref().filter(|name| !name.is_empty())?;
    let is_within = spec.subdomain.as_deref().unwrap_or_default() == service.name()
        && pod.namespace() == service.namespace();
    is_within.then_some(hostname)
}

/// The port of the pod that a port of a Service goes to; `None` if the pod has none of that name.
pub(crate) fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
        None => return Some(port.port),
    };
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().flatten().chain(sidecars);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let found = ports.find(|own| own.name == *name && own.protocol == protocol);
    found.map(|own| own.container_port)
}

/// From a pod to the Services whose endpoints change with it.
pub(crate) fn services_of_pod() -> Handler<Event<Pod>, ObjectKey> {
    map(|event: Event<Pod>, reader| {
        let pod = event.object();
        let now = || services_selecting(pod, reader);
        let Some(old) = event.old() else {
            return now();
        };
        let has_moved = pod.metadata.labels != old.metadata.labels || host(pod) != host(old);
        match (has_changed(old, pod), has_moved) {
            (false, false) => BTreeSet::new(),
            (true, false) => now(),
            (true, true) => &now() | &services_selecting(old, reader),
            (false, true) => &now() ^ &services_selecting(old, reader),
        }
    })
}

fn host(pod: &Pod) -> Option<(&Option<String>, &Option<String>)> {
    let spec = pod.spec.as_ref()?;
    Some((&spec.hostname, &spec.subdomain))
}

/// Whether a pod's endpoint is another than before.
fn has_changed(old: &Pod, new: &Pod) -> bool {
    old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || is_ready(old) != is_ready(new)
        || !addresses(old).eq(addresses(new))
}

fn services_selecting(pod: &Pod, reader: &Reader) -> BTreeSet<ObjectKey> {
    let services = reader
        .list::<Service>()
        .in_namespace(pod.namespace().unwrap_or_default());
    let selects = |service: &Service| {
        let spec = service.spec.as_ref();
        let labels = spec.and_then(|spec| spec.selector.as_ref());
        let labels = labels.filter(|labels| !labels.is_empty());
        labels.is_some_and(|labels| Selector::labels(labels).matches(pod.metadata.labels.as_ref()))
    };
    services.filter(selects).keys().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec}))
            .expect("a service")
    }

    fn pod(spec: Value, status: Value) -> Pod {
        let metadata = json!({"name": "p", "namespace": "n"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
            .expect("a pod")
    }

    #[test]
    fn an_address_may_begin_with_zeros_and_ipv4_hides_in_ipv6() {
        let shown = |text: &str| parse_address(text).map(|address| address.to_string());
        for (text, address) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.000.002.010", Some("192.0.2.10")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("2001:DB8:0::1", Some("2001:db8::1")),
            ("192.0.2", None),
            ("192.0.2.256", None),
            ("192.0.+2.1", None),
            ("", None),
        ] {
            assert_eq!(shown(text).as_deref(), address, "{text}");
        }
    }

    #[test]
    fn families_come_from_the_service_or_from_its_address() {
        use Family::{V4, V6};
        for (spec, expected) in [
            (json!({"ipFamilies": ["IPv6", "IPv4"]}), vec![V6, V4]),
            (json!({"clusterIP": "fd00::1"}), vec![V6]),
            (json!({"clusterIP": "10.0.0.1"}), vec![V4]),
            (json!({"clusterIP": "None"}), vec![V4, V6]),
        ] {
            assert_eq!(families(&service(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn a_named_port_is_one_of_a_container_or_a_sidecar() {
        let port = |name: &str, number: i32| json!([{"name": name, "containerPort": number, "protocol": "TCP"}]);
        let pod = pod(
            json!({
                "containers": [{"ports": port("http", 80)}],
                "initContainers": [
                    {"ports": port("setup", 81)},
                    {"ports": port("proxy", 82), "restartPolicy": "Always"},
                ],
            }),
            json!({}),
        );
        let target = |target: Value, protocol: &str| {
            let port = json!({"port": 1, "targetPort": target, "protocol": protocol});
            let port = serde_json::from_value(port).expect("a port");
            target_port(&pod, &port)
        };
        assert_eq!(target(json!("http"), "TCP"), Some(80));
        assert_eq!(target(json!("http"), "UDP"), None);
        assert_eq!(target(json!("setup"), "TCP"), None);
        assert_eq!(target(json!("proxy"), "TCP"), Some(82));
        assert_eq!(target(json!(8080), "TCP"), Some(8080));
    }

    #[test]
    fn a_pod_is_an_endpoint_while_it_has_an_address_and_has_not_ended() {
        use Terminating::{Included, LeftOut};
        let with = |status: Value| pod(json!({}), status);
        assert!(is_endpoint(&with(json!({"podIP": "192.0.2.1"})), LeftOut));
        assert!(!is_endpoint(&with(json!({"podIP": ""})), Included));
        let ended = json!({"podIP": "192.0.2.1", "phase": "Failed"});
        assert!(!is_endpoint(&with(ended), Included));
        let mut leaving = with(json!({"podIPs": [{"ip": "192.0.2.1"}]}));
        leaving.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time"));
        assert!(is_endpoint(&leaving, Included));
        assert!(!is_endpoint(&leaving, LeftOut));
    }

    #[test]
    fn a_host_name_counts_within_its_subdomain_only() {
        let of = |subdomain: &str| {
            let pod = pod(json!({"hostname": "h", "subdomain": subdomain}), json!({}));
            hostname(&pod, &service(json!({}))).map(str::to_owned)
        };
        assert_eq!(of("s").as_deref(), Some("h"));
        assert_eq!(of("other"), None);
    }
}
