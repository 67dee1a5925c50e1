//! The order in which Kubernetes puts the ports and subsets of endpoints: that of the FNV-128a
//! hashes of Go's description of each value.
//!
//! Clients see this order, and it is the same on every server.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/util/controller_utils.go`: `deepHashObject`, `portsInOrder`
//! - `pkg/api/v1/endpoints/util.go`: `portsByHash`, `subsetsByHash`
//! - `k8s.io/utils/dump`: `ForHash`

use std::fmt::{Display, Write};

use k8s_openapi::api::core::v1::{self, EndpointAddress, EndpointSubset, ObjectReference};
use k8s_openapi::api::discovery::v1 as discovery;

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The FNV-128a hash of a text.
pub(crate) fn fnv_128a(text: &str) -> u128 {
    text.bytes().fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

/// Sorts the ports of a slice, and returns a text that is the same for equal ports only.
pub(crate) fn sort_slice_ports(ports: &mut [discovery::EndpointPort]) -> String {
    ports.sort_by_cached_key(|port| fnv_128a(&slice_port(port)));
    ports.iter().map(slice_port).collect()
}

/// Sorts the ports of a subset.
pub(crate) fn sort_ports(ports: &mut [v1::EndpointPort]) {
    ports.sort_by_cached_key(|port| fnv_128a(&typed("v1.EndpointPort", &port_fields(port))));
}

/// Sorts subsets.
pub(crate) fn sort_subsets(subsets: &mut [EndpointSubset]) {
    subsets.sort_by_cached_key(|each| fnv_128a(&subset(each)));
}

fn typed(name: &str, value: &str) -> String {
    format!("({name}){value}")
}

fn pointer(name: &str, value: Option<&impl Display>) -> String {
    match value {
        Some(value) => format!("(*{name}){value}"),
        None => format!("(*{name})<nil>"),
    }
}

fn list<T>(name: &str, items: Option<&Vec<T>>, describe: impl Fn(&T) -> String) -> String {
    let Some(items) = items else {
        return format!("([]{name})<nil>");
    };
    let items: Vec<String> = items.iter().map(describe).collect();
    format!("([]{name})[{}]", items.join(" "))
}

fn slice_port(port: &discovery::EndpointPort) -> String {
    let fields = format!(
        "{{Name:{} Protocol:{} Port:{} AppProtocol:{}}}",
        pointer("string", port.name.as_ref()),
        pointer("v1.Protocol", port.protocol.as_ref()),
        pointer("int32", port.port.as_ref()),
        pointer("string", port.app_protocol.as_ref()),
    );
    typed("v1.EndpointPort", &fields)
}

fn port_fields(port: &v1::EndpointPort) -> String {
    format!(
        "{{Name:(string){} Port:(int32){} Protocol:(v1.Protocol){} AppProtocol:{}}}",
        port.name.as_deref().unwrap_or_default(),
        port.port,
        port.protocol.as_deref().unwrap_or_default(),
        pointer("string", port.app_protocol.as_ref()),
    )
}

fn address_fields(address: &EndpointAddress) -> String {
    format!(
        "{{IP:(string){} Hostname:(string){} NodeName:{} TargetRef:{}}}",
        address.ip,
        address.hostname.as_deref().unwrap_or_default(),
        pointer("string", address.node_name.as_ref()),
        pointer(
            "v1.ObjectReference",
            address.target_ref.as_ref().map(reference_fields).as_ref()
        ),
    )
}

fn reference_fields(reference: &ObjectReference) -> String {
    let mut text = String::from("{");
    for (name, kind, value) in [
        ("Kind", "string", &reference.kind),
        ("Namespace", "string", &reference.namespace),
        ("Name", "string", &reference.name),
        ("UID", "types.UID", &reference.uid),
        ("APIVersion", "string", &reference.api_version),
        ("ResourceVersion", "string", &reference.resource_version),
        ("FieldPath", "string", &reference.field_path),
    ] {
        let separator = if text.len() > 1 { " " } else { "" };
        let value = value.as_deref().unwrap_or_default();
        write!(text, "{separator}{name}:({kind}){value}").expect("a string takes any text");
    }
    text.push('}');
    text
}

fn subset(subset: &EndpointSubset) -> String {
    let addresses = |addresses: &Option<Vec<EndpointAddress>>| {
        list("v1.EndpointAddress", addresses.as_ref(), address_fields)
    };
    let fields = format!(
        "{{Addresses:{} NotReadyAddresses:{} Ports:{}}}",
        addresses(&subset.addresses),
        addresses(&subset.not_ready_addresses),
        list("v1.EndpointPort", subset.ports.as_ref(), port_fields),
    );
    typed("v1.EndpointSubset", &fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("a value of its type")
    }

    /// What Go's `fnv.New128a` makes of the same descriptions.
    #[test]
    fn hashes_are_those_of_go() {
        let port: discovery::EndpointPort = read(json!({
            "name": "", "port": 443, "protocol": "UDP", "appProtocol": "kubernetes.io/h2c",
        }));
        let hash = fnv_128a(&slice_port(&port));
        assert_eq!(format!("{hash:032x}"), "edee1b8abe5d6bdc48b7a5bf6cf3f7d1");

        let ports = json!([
            {"name": "http", "port": 8080, "protocol": "TCP"},
            {"name": "a\"b", "port": 8080, "protocol": "TCP", "appProtocol": "x"},
        ]);
        let one: EndpointSubset = read(json!({
            "addresses": [
                {"ip": "1.2.3.4", "nodeName": "n", "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u"}},
                {"ip": "1.1.1.1"},
            ],
            "ports": ports,
        }));
        let hash = fnv_128a(&subset(&one));
        assert_eq!(format!("{hash:032x}"), "51d64c231b8cb4d1a987cf62646bc3ca");
    }

    #[test]
    fn ports_are_told_apart_by_each_field() {
        let key = |port: Value| sort_slice_ports(&mut [read(port)]);
        let ports = [
            json!({"port": 80}),
            json!({"port": 80, "name": ""}),
            json!({"port": 80, "name": "a"}),
            json!({"port": 80, "protocol": "TCP"}),
            json!({"port": 80, "appProtocol": "http"}),
            json!({}),
        ];
        let keys: std::collections::BTreeSet<_> = ports.iter().cloned().map(key).collect();
        assert_eq!(keys.len(), ports.len());
    }
}
