//! Rules of EndpointSlices.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/discovery/validation/validation.go`
//! - `pkg/apis/discovery/v1/defaults.go`
//! - `pkg/registry/discovery/endpointslice/strategy.go`

use sendo_apimachinery::addresses::{Form, parse_ip, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::endpoints::usable_ip;
use super::forms::ip_warnings;
use crate::kinds::check::{self, Errors, PROTOCOLS};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, writes};

pub(super) const RULES: Rules = Rules {
    default: |slice| {
        for port in slice.items_mut("ports") {
            port.default_to("name", "");
            port.default_to("protocol", "TCP");
        }
    },
    prepare_for_create: |_, slice| {
        writes::first_generation(slice);
        drop_topology(slice, &Value::Null);
    },
    prepare_for_update,
    validate: |_, slice| validate(slice, &Value::Null),
    validate_update: |_, new, old| {
        let mut errors = validate(new, old);
        check::immutable(
            &mut errors,
            &Path::new("addressType"),
            new.at("addressType"),
            old.at("addressType"),
        );
        errors
    },
    warnings_on_create: |slice| {
        let mut warnings = Vec::new();
        if slice.text("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        warnings.extend(address_warnings(slice));
        warnings
    },
    warnings_on_update: |new, _| address_warnings(new),
    ..Rules::NEUTRAL
};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// Increments the generation if the address type, endpoints, ports or labels change. Labels count,
/// since one of them names the slice's Service.
fn prepare_for_update(_: &Cx<'_>, new: &mut Value, old: &Value) {
    let content = |slice: &Value| {
        let labels = slice.at("metadata").at("labels").clone();
        ["addressType", "endpoints", "ports"]
            .map(|key| slice.at(key).clone())
            .into_iter()
            .chain([labels])
            .collect()
    };
    let (new_content, old_content): (Vec<Value>, Vec<Value>) = (content(new), content(old));
    if new_content != old_content {
        writes::next_generation(new, old);
    }
    drop_topology(new, old);
}

/// Drops `deprecatedTopology`, a field of v1beta1 that v1 cannot write.
///
/// A node name that the old object has there moves to `nodeName`.
fn drop_topology(slice: &mut Value, old: &Value) {
    const HOST: &str = "kubernetes.io/hostname";
    if old.is_object() && slice.at("endpoints") == old.at("endpoints") {
        return;
    }
    let hosts = old
        .items("endpoints")
        .iter()
        .map(|endpoint| endpoint.at("deprecatedTopology").text(HOST));
    let hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).collect();
    for endpoint in slice.items_mut("endpoints") {
        let host = endpoint.at("deprecatedTopology").text(HOST).to_owned();
        if hosts.contains(&host.as_str()) {
            endpoint.default_to("nodeName", host);
        }
        endpoint.remove("deprecatedTopology");
    }
}

fn validate(slice: &Value, old: &Value) -> Errors {
    let mut errors = check::new_metadata(slice, Scope::Namespaced, names::dns1123_subdomain);
    let address_type = slice.text("addressType");
    check::required_one_of(
        &mut errors,
        &Path::new("addressType"),
        address_type,
        &["FQDN", "IPv4", "IPv6"],
    );
    ports(&mut errors, &Path::new("ports"), slice.items("ports"));
    // Unchanged endpoints are not validated again: an older version may have accepted them.
    if old.is_object() && slice.at("endpoints") == old.at("endpoints") {
        return errors;
    }
    let (endpoints, path) = (slice.items("endpoints"), Path::new("endpoints"));
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(Error::too_many(&path, endpoints.len(), MAX_ENDPOINTS));
        return errors;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        self::endpoint(&mut errors, &path.index(i), endpoint, address_type);
    }
    errors
}

fn ports(errors: &mut Errors, path: &Path, ports: &[Value]) {
    if ports.len() > MAX_PORTS {
        errors.push(Error::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let (name, name_path) = (port.text("name"), path.child("name"));
        if !name.is_empty() {
            check::faults(errors, &name_path, name, names::dns1123_label(name));
        }
        if seen.contains(&name) {
            errors.push(Error::duplicate(&name_path, name));
        } else {
            seen.push(name);
        }
        check::optional_one_of(
            errors,
            &path.child("protocol"),
            port.at("protocol"),
            &PROTOCOLS,
        );
        if let Some(protocol) = port.at("appProtocol").as_str() {
            check::label_name(errors, &path.child("appProtocol"), protocol);
        }
    }
}

fn endpoint(errors: &mut Errors, path: &Path, endpoint: &Value, address_type: &str) {
    let addresses_path = path.child("addresses");
    match endpoint.items("addresses").len() {
        0 => errors.push(Error::required(
            &addresses_path,
            "must contain at least 1 address",
        )),
        count if count > MAX_ADDRESSES => {
            errors.push(Error::too_many(&addresses_path, count, MAX_ADDRESSES));
        }
        _ => {}
    }
    for (i, address) in check::texts(endpoint, "addresses").enumerate() {
        let path = addresses_path.index(i);
        let form = match address_type {
            "IPv4" => Form::Strict,
            "IPv6" => Form::Canonical,
            "FQDN" => {
                errors.extend(names::fully_qualified_domain_name(&path, address));
                continue;
            }
            _ => continue,
        };
        let faults = validate_ip(&path, address, form);
        if !faults.is_empty() {
            errors.extend(faults);
            continue;
        }
        let is_four = parse_ip(address).is_some_and(|ip| ip.is_ipv4());
        if is_four != (address_type == "IPv4") {
            let fault = format!("must be an {address_type} address");
            errors.push(Error::invalid(&addresses_path, address, fault));
        }
        usable_ip(errors, &path, address);
    }
    let checked: [(&str, names::Check); 2] = [
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
    ];
    for (key, check) in checked {
        if let Some(name) = endpoint.at(key).as_str() {
            check::faults(errors, &path.child(key), name, check(name));
        }
    }
    hints(errors, &path.child("hints"), endpoint.at("hints"));
}

/// Validates the topology hints of an endpoint.
fn hints(errors: &mut Errors, path: &Path, hints: &Value) {
    let checked: [(&str, names::Check); 2] = [
        ("forZones", names::label_value),
        ("forNodes", names::dns1123_subdomain),
    ];
    for (key, check) in checked {
        let (path, places) = (path.child(key), hints.items(key));
        if places.len() > MAX_HINTS {
            errors.push(Error::too_many(&path, places.len(), MAX_HINTS));
            return;
        }
        let mut seen: Vec<&str> = Vec::new();
        for (i, place) in places.iter().enumerate() {
            let (name, path) = (place.text("name"), path.index(i).child("name"));
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path, name));
            }
            seen.push(name);
            check::faults(errors, &path, name, check(name));
        }
    }
}

/// Warnings for non-canonical addresses. Slices of Kubernetes' own controllers are skipped, since
/// they write canonical ones.
fn address_warnings(slice: &Value) -> Vec<String> {
    let labels = slice.at("metadata").at("labels");
    let manager = labels.text("endpointslice.kubernetes.io/managed-by");
    let controllers = [
        "endpointslice-controller.k8s.io",
        "endpointslicemirroring-controller.k8s.io",
    ];
    if controllers.contains(&manager) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (i, endpoint) in slice.items("endpoints").iter().enumerate() {
        let path = Path::new("endpoints").index(i).child("addresses");
        for (i, address) in check::texts(endpoint, "addresses").enumerate() {
            warnings.extend(ip_warnings(&path.index(i), address));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(address_type: &str, endpoint: Value) -> Vec<String> {
        let slice = json!({
            "metadata": {"name": "s", "namespace": "n"},
            "addressType": address_type,
            "endpoints": [endpoint],
        });
        let errors = validate(&slice, &Value::Null);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_of_the_type_of_the_slice() {
        for (address_type, address, expected) in [
            ("IPv4", "192.0.2.1", None),
            (
                "IPv4",
                "2001:db8::1",
                Some(
                    "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
                ),
            ),
            ("IPv6", "2001:db8::1", None),
            (
                "IPv6",
                "2001:DB8::1",
                Some(
                    "endpoints[0].addresses[0]: Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")",
                ),
            ),
            ("FQDN", "a.example.com", None),
        ] {
            let found = errors(address_type, json!({"addresses": [address]}));
            assert_eq!(found, Vec::from_iter(expected), "{address}");
        }
    }

    #[test]
    fn an_endpoint_has_an_address_and_distinct_hints() {
        let endpoint = json!({"hints": {"forZones": [{"name": "z"}, {"name": "z"}]}});
        assert_eq!(
            errors("IPv4", endpoint),
            [
                "endpoints[0].addresses: Required value: must contain at least 1 address",
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\"",
            ]
        );
    }
}
