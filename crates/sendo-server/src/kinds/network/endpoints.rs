//! Rules of Endpoints, the predecessor of EndpointSlices.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateEndpointsCreate`,
//!   `ValidateEndpointsUpdate`, `validateEndpointSubsets`, `ValidateEndpointIP`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Endpoints`
//! - `pkg/registry/core/endpoint/strategy.go`

use sendo_apimachinery::addresses::{Form, parse_ip, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::Rules;
use crate::kinds::check::{self, Errors, PROTOCOLS};
use crate::kinds::value::{Read, Write};

pub(super) const RULES: Rules = Rules {
    default: |endpoints| {
        for subset in endpoints.items_mut("subsets") {
            for port in subset.items_mut("ports") {
                port.default_if_zero("protocol", "TCP");
            }
        }
    },
    validate: |_, endpoints| validate(endpoints, &Value::Null),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        errors.extend(validate(new, old));
        errors
    },
    create_on_update: true,
    deprecation: Some(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    ..Rules::NEUTRAL
};

fn validate(endpoints: &Value, old: &Value) -> Errors {
    let mut errors = check::new_metadata(endpoints, Scope::Namespaced, names::dns1123_subdomain);
    // Unchanged subsets are not validated again: an older version may have accepted them.
    if old.is_object() && endpoints.at("subsets") == old.at("subsets") {
        return errors;
    }
    for (i, subset) in endpoints.items("subsets").iter().enumerate() {
        self::subset(&mut errors, &Path::new("subsets").index(i), subset);
    }
    errors
}

fn subset(errors: &mut Errors, path: &Path, subset: &Value) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| subset.items(list).is_empty()) {
        errors.push(Error::required(
            path,
            "must specify `addresses` or `notReadyAddresses`",
        ));
    }
    for list in lists {
        for (i, address) in subset.items(list).iter().enumerate() {
            self::address(errors, &path.child(list).index(i), address);
        }
    }
    let ports = subset.items("ports");
    for (i, port) in ports.iter().enumerate() {
        let path = path.child("ports").index(i);
        let name = port.text("name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !name.is_empty() {
            check::faults(
                errors,
                &path.child("name"),
                name,
                names::dns1123_label(name),
            );
        }
        let number = port.count("port");
        check::number_faults(
            errors,
            &path.child("port"),
            number,
            names::port_number(number),
        );
        check::required_one_of(
            errors,
            &path.child("protocol"),
            port.text("protocol"),
            &PROTOCOLS,
        );
        if let Some(protocol) = port.at("appProtocol").as_str() {
            check::label_name(errors, &path.child("appProtocol"), protocol);
        }
    }
}

fn address(errors: &mut Errors, path: &Path, address: &Value) {
    let ip = address.text("ip");
    errors.extend(validate_ip(&path.child("ip"), ip, Form::Strict));
    let name = address.text("hostname");
    if !name.is_empty() {
        check::faults(
            errors,
            &path.child("hostname"),
            name,
            names::dns1123_label(name),
        );
    }
    if let Some(node) = address.at("nodeName").as_str() {
        check::faults(
            errors,
            &path.child("nodeName"),
            node,
            names::dns1123_subdomain(node),
        );
    }
    usable_ip(errors, &path.child("ip"), ip);
}

/// Validates that an IP can be an endpoint: not unspecified, loopback, link-local or link-local
/// multicast.
pub(super) fn usable_ip(errors: &mut Errors, path: &Path, text: &str) {
    let Some(ip) = parse_ip(text) else {
        errors.push(Error::invalid(path, text, "must be a valid IP address"));
        return;
    };
    let ip = ip.to_canonical();
    let (link_local, link_local_multicast) = match ip {
        std::net::IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        std::net::IpAddr::V6(ip) => (
            ip.is_unicast_link_local(),
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    let mut refuse = |is_so: bool, fault: &str| {
        if is_so {
            errors.push(Error::invalid(path, text, fault));
        }
    };
    refuse(
        ip.is_unspecified(),
        &format!("may not be unspecified ({text})"),
    );
    refuse(
        ip.is_loopback(),
        "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    );
    refuse(
        link_local,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
    );
    refuse(
        link_local_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_must_lead_somewhere_else() {
        for (ip, faults) in [
            ("192.0.2.1", 0),
            ("127.0.0.1", 1),
            ("0.0.0.0", 1),
            ("169.254.0.1", 1),
            ("224.0.0.1", 1),
            ("ff02::1", 1),
            ("x", 1),
        ] {
            let mut errors = Vec::new();
            usable_ip(&mut errors, &Path::new("ip"), ip);
            assert_eq!(errors.len(), faults, "{ip}");
        }
    }

    #[test]
    fn several_ports_need_names() {
        let endpoints = json!({
            "metadata": {"name": "e", "namespace": "n"},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}],
                         "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "TCP"}]}],
        });
        let fields: Vec<String> = validate(&endpoints, &Value::Null)
            .into_iter()
            .map(|e| e.field)
            .collect();
        assert_eq!(
            fields,
            ["subsets[0].ports[0].name", "subsets[0].ports[1].name"]
        );
    }
}
