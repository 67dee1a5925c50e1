//! Rules of ServiceCIDRs and IPAddresses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/networking/validation/validation.go`: `ValidateServiceCIDR`,
//!   `ValidateServiceCIDRUpdate`, `ValidateIPAddress`, `ValidateIPAddressUpdate`
//! - `pkg/registry/networking/servicecidr/strategy.go`
//! - `pkg/registry/networking/ipaddress/strategy.go`

use sendo_apimachinery::addresses::{Cidr, Form, validate_cidr, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const SERVICE_CIDR: Rules = Rules {
    prepare_for_create: |_, cidr| cidr.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    validate: |_, cidr| {
        let mut errors = check::new_metadata(cidr, Scope::Cluster, names::dns1123_subdomain);
        cidrs(&mut errors, cidr.at("spec"));
        errors
    },
    validate_update: |_, new, old| update_cidrs(new, old),
    validate_status_update: |_, new, old| check::changed_metadata(new, old),
    ..Rules::NEUTRAL
};

pub(super) const IP_ADDRESS: Rules = Rules {
    validate: |_, address| validate_address(address),
    validate_update: |_, new, old| {
        let mut errors = validate_address(new);
        errors.extend(check::changed_metadata(new, old));
        let parent = new.at("spec").at("parentRef");
        if parent != old.at("spec").at("parentRef") {
            let mut shown = Ordered::new();
            for (name, key) in PARENT {
                shown = shown.text(name, parent.text(key));
            }
            let path = Path::new("spec").child("parentRef");
            errors.push(Error::invalid(&path, shown.bad_value(), IMMUTABLE));
        }
        errors
    },
    ..Rules::NEUTRAL
};

const IMMUTABLE: &str = "field is immutable";

/// The fields of a parent reference with their Go names, which messages show.
const PARENT: [(&str, &str); 4] = [
    ("Group", "group"),
    ("Resource", "resource"),
    ("Namespace", "namespace"),
    ("Name", "name"),
];

fn cidrs(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec").child("cidrs");
    let texts: Vec<&str> = check::texts(spec, "cidrs").collect();
    match texts.len() {
        0 => {
            errors.push(Error::required(&path, "at least one CIDR required"));
            return;
        }
        1 | 2 => {}
        _ => {
            let shown = Ordered::new().with("CIDRs", spec.at("cidrs"));
            let fault = "may only hold up to 2 values";
            errors.push(Error::invalid(&path, shown.bad_value(), fault));
            return;
        }
    }
    for (i, text) in texts.iter().enumerate() {
        errors.extend(validate_cidr(&path.index(i), text, Form::Canonical));
    }
    let families: Vec<bool> = texts
        .iter()
        .filter_map(|text| Some(Cidr::parse(text)?.address.is_ipv4()))
        .collect();
    if matches!(families[..], [first, second] if first == second) {
        let fault = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(Error::invalid(&path, spec.at("cidrs").clone(), fault));
    }
}

/// Validates an update of the CIDRs: only a second one, of the other family, may be added.
fn update_cidrs(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (new, old) = (new.at("spec"), old.at("spec"));
    let path = Path::new("spec").child("cidrs");
    let (count, old_count) = (new.items("cidrs").len(), old.items("cidrs").len());
    let is_grown = (old_count, count) == (1, 2);
    if count != old_count && !is_grown {
        errors.push(Error::invalid(&path, new.at("cidrs").clone(), IMMUTABLE));
        return errors;
    }
    let pairs = new.items("cidrs").iter().zip(old.items("cidrs"));
    for (i, (cidr, _)) in pairs.enumerate().filter(|(_, (new, old))| new != old) {
        errors.push(Error::invalid(&path.index(i), cidr.clone(), IMMUTABLE));
    }
    if is_grown {
        cidrs(&mut errors, new);
    }
    errors
}

fn validate_address(address: &Value) -> Errors {
    let name = |name: &str| {
        let errors = validate_ip(&Path::root(), name, Form::Canonical);
        errors.into_iter().map(|error| error.detail).collect()
    };
    let mut errors = check::new_metadata(address, Scope::Cluster, name);
    let path = Path::new("spec").child("parentRef");
    let parent = address.at("spec").at("parentRef");
    if parent.is_null() {
        errors.push(Error::required(&path, ""));
        return errors;
    }
    let group = parent.text("group");
    if !group.is_empty() {
        let faults = names::dns1123_subdomain(group);
        check::faults(&mut errors, &path.child("group"), group, faults);
    }
    for key in ["resource", "name"] {
        let path = path.child(key);
        check::required_name(&mut errors, &path, parent.text(key), names::path_segment);
    }
    let namespace = parent.text("namespace");
    if !namespace.is_empty() {
        let faults = names::path_segment(namespace);
        check::faults(&mut errors, &path.child("namespace"), namespace, faults);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_parent() {
        let address = |name: &str| {
            json!({"metadata": {"name": "192.0.2.1", "resourceVersion": "1"},
                   "spec": {"parentRef": {"resource": "services", "name": name}}})
        };
        let random = sendo_world::Random::from_seed(1);
        let cx = crate::kinds::Cx {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &random,
            api_version: "networking.k8s.io/v1",
            user: &crate::request::user::User::admin(),
        };
        let errors = (IP_ADDRESS.validate_update)(&cx, &address("b"), &address("a"));
        assert_eq!(
            errors.last().map(ToString::to_string).as_deref(),
            Some(concat!(
                "spec.parentRef: Invalid value: ",
                r#"{"Group":"","Resource":"services","Namespace":"","Name":"b"}: field is immutable"#
            ))
        );
    }

    fn ranges(cidrs: Value) -> Value {
        json!({"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"cidrs": cidrs}})
    }

    #[test]
    fn a_range_for_each_family_can_be_added_but_none_changed() {
        let four = json!(["192.0.2.0/24"]);
        let cases = [
            (four.clone(), four.clone(), vec![]),
            (
                four.clone(),
                json!(["192.0.2.0/24", "2001:db8::/64"]),
                vec![],
            ),
            (
                four.clone(),
                json!(["198.51.100.0/24"]),
                vec!["spec.cidrs[0]: Invalid value: \"198.51.100.0/24\": field is immutable"],
            ),
            (
                four.clone(),
                json!([]),
                vec!["spec.cidrs: Invalid value: []: field is immutable"],
            ),
        ];
        for (old, new, expected) in cases {
            let errors = update_cidrs(&ranges(new), &ranges(old));
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected);
        }
    }

    #[test]
    fn an_address_is_named_by_its_one_form() {
        let parent = json!({"resource": "services", "name": "s"});
        for (name, count) in [
            ("192.0.2.1", 0),
            ("192.0.2.01", 1),
            ("2001:db8:0::1", 1),
            ("x", 1),
        ] {
            let address = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
            assert_eq!(validate_address(&address).len(), count, "{name}");
        }
    }
}
