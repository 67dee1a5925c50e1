//! The subsets of Endpoints in the one form that Kubernetes writes them in: addresses with the
//! same ports stand together, each once, in order.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/v1/endpoints/util.go`: `RepackSubsets`, `SortSubsets`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};

use super::go_hash;

/// What tells two addresses apart: pods on one host may share an address.
type AddressKey = (String, String);

/// The addresses that a port is at, and whether each is ready there.
type Ready = BTreeMap<AddressKey, bool>;

/// Subsets in their one form.
pub(crate) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut known: BTreeMap<AddressKey, EndpointAddress> = BTreeMap::new();
    // By a text that is the same for equal ports; the empty one is that of subsets without ports.
    let mut by_port: BTreeMap<String, (Option<EndpointPort>, Ready)> = BTreeMap::new();
    for subset in subsets {
        let ports = subset.ports.iter().flatten().map(Some);
        let without_ports = subset
            .ports
            .iter()
            .flatten()
            .next()
            .is_none()
            .then_some(None);
        for port in ports.chain(without_ports) {
            let entry = by_port.entry(port.map(port_key).unwrap_or_default());
            let (_, ready) = entry.or_insert_with(|| (port.cloned(), Ready::new()));
            for (address, is_ready) in addresses(subset) {
                let key = address_key(address);
                known.entry(key.clone()).or_insert_with(|| address.clone());
                // Not ready on one account is not ready.
                let both = ready.get(&key).is_none_or(|before| *before) && is_ready;
                ready.insert(key, both);
            }
        }
    }

    let mut by_addresses: BTreeMap<Ready, Vec<EndpointPort>> = BTreeMap::new();
    for (port, ready) in by_port.into_values() {
        by_addresses.entry(ready).or_default().extend(port);
    }
    let packed = by_addresses.into_iter().map(|(ready, mut ports)| {
        let of = |wanted: bool| {
            let keys = ready.iter().filter(|(_, ready)| **ready == wanted);
            let addresses: Vec<_> = keys.map(|(key, _)| known[key].clone()).collect();
            Some(addresses).filter(|addresses| !addresses.is_empty())
        };
        go_hash::sort_ports(&mut ports);
        EndpointSubset {
            addresses: of(true),
            not_ready_addresses: of(false),
            ports: Some(ports).filter(|ports| !ports.is_empty()),
        }
    });
    let mut packed: Vec<_> = packed.collect();
    go_hash::sort_subsets(&mut packed);
    packed
}

/// The addresses of a subset, and whether each is ready.
pub(crate) fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset
        .addresses
        .iter()
        .flatten()
        .map(|address| (address, true));
    let others = subset.not_ready_addresses.iter().flatten();
    ready.chain(others.map(|address| (address, false)))
}

fn address_key(address: &EndpointAddress) -> AddressKey {
    let target = address.target_ref.as_ref();
    let uid = target.and_then(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

fn port_key(port: &EndpointPort) -> String {
    let name = port.name.as_deref().unwrap_or_default();
    format!(
        "{name}/{}/{:?}/{:?}",
        port.port, port.protocol, port.app_protocol
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn repacked(subsets: Value) -> Value {
        let subsets: Vec<EndpointSubset> = serde_json::from_value(subsets).expect("subsets");
        json!(repack(&subsets))
    }

    #[test]
    fn addresses_with_the_same_ports_stand_together_in_order() {
        let port = json!({"port": 80});
        let packed = repacked(json!([
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [port]},
            {"addresses": [{"ip": "192.0.2.1"}], "ports": [port]},
            {"notReadyAddresses": [{"ip": "192.0.2.3"}], "ports": [port]},
        ]));
        let expected = json!([{
            "addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}],
            "notReadyAddresses": [{"ip": "192.0.2.3"}],
            "ports": [port],
        }]);
        assert_eq!(packed, expected);
    }

    #[test]
    fn an_address_that_is_not_ready_once_is_not_ready() {
        let packed = repacked(json!([
            {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]},
            {"notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]},
        ]));
        let expected =
            json!([{"notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]);
        assert_eq!(packed, expected);
    }

    #[test]
    fn ports_of_other_addresses_are_another_subset() {
        let packed = repacked(json!([
            {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "a", "port": 80}]},
        ]));
        let shown = |subset: &Value| {
            (
                subset["addresses"].as_array().map(Vec::len),
                subset["ports"][0]["name"].clone(),
            )
        };
        let mut shown: Vec<_> = packed.as_array().into_iter().flatten().map(shown).collect();
        shown.sort_by_key(|(count, _)| *count);
        assert_eq!(shown, [(Some(1), json!("b")), (Some(2), json!("a"))]);
    }

    #[test]
    fn addresses_without_ports_are_kept_and_what_is_packed_stays() {
        let subsets = json!([{"addresses": [{"ip": "192.0.2.1"}]}]);
        assert_eq!(repacked(subsets.clone()), subsets);
    }
}
