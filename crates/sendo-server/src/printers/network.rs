//! Table rows of Services, Endpoints, EndpointSlices and the kinds of `networking.k8s.io`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printService`, `printIngress`,
//!   `printIngressClass`, `printEndpoints`, `printEndpointSlice`, `printNetworkPolicy`,
//!   `printServiceCIDR`, `printIPAddress`

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cells, Printer, first_of, joined, labels, or, selector, text_or};
use crate::kinds::value::Read;

pub(super) fn printer(kind: &str) -> Option<Printer> {
    Some(match kind {
        "EndpointSlice" => endpoint_slice,
        "Endpoints" => endpoints,
        "IPAddress" => ip_address,
        "Ingress" => ingress,
        "IngressClass" => ingress_class,
        "NetworkPolicy" => network_policy,
        "Service" => service,
        "ServiceCIDR" => service_cidr,
        _ => return None,
    })
}

/// Name, Type, Cluster-IP, External-IP, Port(s), Age; wide: Selector.
fn service(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let cluster_ip = spec.items("clusterIPs").first().and_then(Value::as_str);
    let ports: Vec<String> = spec.items("ports").iter().map(service_port).collect();
    vec![
        cells.name(),
        spec.text("type").into(),
        cluster_ip.unwrap_or("<none>").into(),
        external_ip(cells).into(),
        or(&ports.join(","), "<none>").into(),
        cells.age(),
        labels(spec.at("selector")).into(),
    ]
}

fn service_port(port: &Value) -> String {
    let node_port = match port.count("nodePort") {
        0 => String::new(),
        node_port => format!(":{node_port}"),
    };
    format!(
        "{}{node_port}/{}",
        port.count("port"),
        port.text("protocol")
    )
}

fn external_ip(cells: &Cells<'_>) -> String {
    let spec = cells.spec();
    let external = spec.items("externalIPs");
    match spec.text("type") {
        "ClusterIP" | "NodePort" => or(&joined(external, ","), "<none>").to_owned(),
        "LoadBalancer" => {
            let addresses = [load_balancer(cells), joined(external, ",")];
            let addresses: Vec<String> = addresses.into_iter().filter(|a| !a.is_empty()).collect();
            or(&addresses.join(","), "<pending>").to_owned()
        }
        "ExternalName" => spec.text("externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses or host names of a load balancer, each once, in order.
fn load_balancer(cells: &Cells<'_>) -> String {
    let ingress = cells.status().at("loadBalancer").items("ingress");
    let addresses: BTreeSet<&str> = ingress
        .iter()
        .map(|ingress| or(ingress.text("ip"), ingress.text("hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    let addresses: Vec<&str> = addresses.into_iter().collect();
    addresses.join(",")
}

/// Name, Class, Hosts, Address, Ports, Age.
fn ingress(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let ports = if spec.items("tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        cells.name(),
        text_or(spec, "ingressClassName", "<none>").into(),
        hosts(spec.items("rules")).into(),
        load_balancer(cells).into(),
        ports.into(),
        cells.age(),
    ]
}

/// The first three hosts. Rules after these are counted as more, with or without a host.
fn hosts(rules: &[Value]) -> String {
    const MAX: usize = 3;
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == MAX;
        if !more && !rule.text("host").is_empty() {
            hosts.push(rule.text("host"));
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => format!("{} + {} more...", hosts.join(","), rules.len() - MAX),
        _ => hosts.join(","),
    }
}

/// Name, Controller, Parameters, Age.
fn ingress_class(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let is_default = cells.annotation("ingressclass.kubernetes.io/is-default-class") == "true";
    let name = cells.metadata().text("name");
    let parameters = match spec.at("parameters") {
        Value::Null => "<none>".to_owned(),
        parameters => {
            let group = parameters.at("apiGroup").as_str();
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!(
                "{}{group}/{}",
                parameters.text("kind"),
                parameters.text("name")
            )
        }
    };
    vec![
        if is_default {
            format!("{name} (default)").into()
        } else {
            name.into()
        },
        spec.text("controller").into(),
        parameters.into(),
        cells.age(),
    ]
}

/// Name, Endpoints, Age.
fn endpoints(cells: &Cells<'_>) -> Vec<Value> {
    let subsets = cells.object.items("subsets");
    let addresses: Vec<String> = subsets.iter().flat_map(subset_addresses).collect();
    let text = if subsets.is_empty() {
        "<none>".to_owned()
    } else {
        first_of(&addresses, 3, "")
    };
    vec![cells.name(), text.into(), cells.age()]
}

/// All addresses of a subset with all its ports, or the addresses alone if it has no port.
fn subset_addresses(subset: &Value) -> Vec<String> {
    let addresses = || {
        subset
            .items("addresses")
            .iter()
            .map(|address| address.text("ip"))
    };
    let ports = subset.items("ports");
    if ports.is_empty() {
        return addresses().map(str::to_owned).collect();
    }
    let with_port = |port: &Value| {
        addresses()
            .map(|ip| host_port(ip, port.count("port")))
            .collect::<Vec<_>>()
    };
    ports.iter().flat_map(with_port).collect()
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

/// Name, AddressType, Ports, Endpoints, Age.
fn endpoint_slice(cells: &Cells<'_>) -> Vec<Value> {
    let object = cells.object;
    let port = |port: &Value| match port.number("port") {
        Some(number) => number.to_string(),
        None => text_or(port, "name", "*").to_owned(),
    };
    let ports: Vec<String> = object.items("ports").iter().map(port).collect();
    let endpoints = object.items("endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| endpoint.items("addresses"));
    let addresses: Vec<String> = addresses
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        cells.name(),
        object.text("addressType").into(),
        or(&first_of(&ports, 3, ""), "<unset>").into(),
        or(&first_of(&addresses, 3, ""), "<unset>").into(),
        cells.age(),
    ]
}

/// Name, Pod-Selector, Age.
fn network_policy(cells: &Cells<'_>) -> Vec<Value> {
    let pods = selector::or_none(cells.spec().at("podSelector"));
    vec![cells.name(), pods.into(), cells.age()]
}

/// Name, CIDRs, Age.
fn service_cidr(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        joined(cells.spec().items("cidrs"), ",").into(),
        cells.age(),
    ]
}

/// Name, ParentRef.
fn ip_address(cells: &Cells<'_>) -> Vec<Value> {
    let parent = match cells.spec().at("parentRef") {
        Value::Null => "<none>".to_owned(),
        parent => {
            let resource = [parent.text("resource"), parent.text("group")];
            let resource: Vec<&str> = resource
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
            let resource = resource.join(".").to_lowercase();
            let parts = [
                resource.as_str(),
                parent.text("namespace"),
                parent.text("name"),
            ];
            let [resource, namespace, name] = parts;
            if namespace.is_empty() {
                format!("{resource}/{name}")
            } else {
                parts.join("/")
            }
        }
    };
    vec![cells.name(), parent.into(), cells.age()]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::printers::row;

    fn cells(group: &str, kind: &str, mut object: Value) -> Value {
        object["metadata"]["name"] = "x".into();
        row(
            group,
            kind,
            &object,
            "2026-01-01T00:05:00Z".parse().expect("a time"),
        )
        .into()
    }

    #[test]
    fn a_service_shows_its_addresses_and_ports() {
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
        let balanced = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"hostname": "lb"}, {"ip": "192.0.2.1"}]}});
        let cases = [
            (
                json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports}),
                json!({}),
                json!(["10.0.0.1", "<none>", "80/TCP,53:30053/UDP"]),
            ),
            (
                json!({"type": "ClusterIP", "externalIPs": ["192.0.2.1"]}),
                json!({}),
                json!(["<none>", "192.0.2.1", "<none>"]),
            ),
            (
                json!({"type": "ExternalName", "externalName": "a.b"}),
                json!({}),
                json!(["<none>", "a.b", "<none>"]),
            ),
            (
                json!({"type": "LoadBalancer"}),
                json!({}),
                json!(["<none>", "<pending>", "<none>"]),
            ),
            (
                json!({"type": "LoadBalancer", "externalIPs": ["192.0.2.9"]}),
                balanced,
                json!(["<none>", "192.0.2.1,192.0.2.2,lb,192.0.2.9", "<none>"]),
            ),
        ];
        for (spec, status, expected) in cases {
            let row = cells("", "Service", json!({"spec": spec, "status": status}));
            assert_eq!(json!([row[2], row[3], row[4]]), expected);
        }
    }

    #[test]
    fn long_lists_end_in_how_many_more_there_are() {
        let addresses: Vec<Value> = (1..=3)
            .map(|n| json!({"ip": format!("192.0.2.{n}")}))
            .collect();
        let object =
            json!({"subsets": [{"addresses": addresses, "ports": [{"port": 1}, {"port": 2}]}]});
        assert_eq!(
            cells("", "Endpoints", object)[1],
            "192.0.2.1:1,192.0.2.2:1,192.0.2.3:1 + 3 more..."
        );
        let hosts: Vec<Value> = ["a", "b", "c", "d"]
            .map(|host| json!({"host": host}))
            .to_vec();
        assert_eq!(
            cells(
                "networking.k8s.io",
                "Ingress",
                json!({"spec": {"rules": hosts}})
            )[2],
            "a,b,c + 1 more..."
        );
    }

    #[test]
    fn an_address_without_a_parent_in_a_namespace_leaves_it_out() {
        let parent = json!({"resource": "services", "group": "", "namespace": "n", "name": "s"});
        let row = cells(
            "networking.k8s.io",
            "IPAddress",
            json!({"spec": {"parentRef": parent}}),
        );
        assert_eq!(row[1], "services/n/s");
    }
}
