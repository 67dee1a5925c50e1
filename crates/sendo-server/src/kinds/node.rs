//! Rules of Nodes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateNode`, `ValidateNodeUpdate`,
//!   `validateNodeTaints`, `validateNodeDeclaredFeatures`, `ValidateNodeResources`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_NodeStatus`
//! - `pkg/apis/core/v1/conversion.go`: `Convert_v1_NodeSpec_To_core_NodeSpec`
//! - `pkg/registry/core/node/strategy.go`
//! - `pkg/api/node/util.go`

use std::cmp::Ordering;

use sendo_apimachinery::addresses::{Cidr, Form, validate_cidr};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::{go_quote, names};
use serde_json::{Value, json};

use super::check::{self, Errors};
use super::network::forms::cidr_warnings;
use super::ordered::Ordered;
use super::pod::affinity;
use super::value::{Read, Write};
use super::{Rules, UnknownFields, resources};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, node| {
        node.object("spec").remove("configSource");
        node.object("status").remove("config");
    },
    prepare_for_update: |_, new, old| {
        new.copy_from("status", old);
        if !old.at("spec").has("configSource") {
            new.object("spec").remove("configSource");
        }
    },
    prepare_for_status_update: |_, new, old| {
        new.copy_from("spec", old);
        if !old.at("status").has("config") {
            new.object("status").remove("config");
        }
    },
    validate: |_, node| validate(node),
    validate_update: |_, new, old| {
        let mut errors = validate(new);
        errors.extend(validate_update(new, old));
        errors
    },
    validate_status_update: |_, new, old| validate_update(new, old),
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    selectable_fields: &[("spec.unschedulable", |node| {
        node.at("spec").is_set("unschedulable").to_string()
    })],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

fn default(node: &mut Value) {
    sync_pod_cidrs(node.object("spec"));
    if let Some(status) = node.existing("status")
        && status.has("capacity")
    {
        let capacity = status.at("capacity").clone();
        status.default_to("allocatable", capacity);
        resources::round_up_lists(status, &["capacity", "allocatable"]);
    }
}

/// Makes `podCIDR` and the first of `podCIDRs` equal. If they differ, `podCIDR` takes precedence.
fn sync_pod_cidrs(spec: &mut Value) {
    let single = spec.text("podCIDR").to_owned();
    let first = spec
        .items("podCIDRs")
        .first()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !single.is_empty() && single != first {
        spec.set("podCIDRs", json!([single]));
    } else if single.is_empty() && !first.is_empty() {
        spec.set("podCIDR", first);
    }
}

fn validate(node: &Value) -> Errors {
    let mut errors = check::new_metadata(node, Scope::Cluster, names::dns1123_subdomain);
    taints(&mut errors, node);
    amounts(&mut errors, node.at("status"));
    let swap = node.at("status").at("nodeInfo").at("swap");
    if let Some(capacity) = swap.number("capacity") {
        let path = Path::new("metadata").child("nodeSwapStatus");
        check::positive(&mut errors, &path.child("capacity"), capacity);
    }
    declared_features(&mut errors, node.at("status"));
    let path = Path::new("spec").child("podCIDRs");
    let ranges: Vec<&str> = check::texts(node.at("spec"), "podCIDRs").collect();
    for (i, range) in ranges.iter().enumerate() {
        errors.extend(validate_cidr(&path.index(i), range, Form::Strict));
    }
    let versions: Vec<Option<bool>> = ranges
        .iter()
        .map(|range| Cidr::parse(range).map(|range| range.network().is_ipv4()))
        .collect();
    let unreadable = versions.iter().position(Option::is_none);
    if let Some(i) = unreadable.filter(|_| ranges.len() > 1) {
        let fault = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {})",
            ranges[i]
        );
        errors.push(Error::internal(&path, fault));
    }
    let is_dual =
        unreadable.is_none() && versions.contains(&Some(true)) && versions.contains(&Some(false));
    if ranges.len() > 1 && (!is_dual || ranges.len() > 2) {
        let fault = "may specify no more than one CIDR for each IP family";
        errors.push(Error::invalid(&path, ranges, fault));
    }
    errors
}

/// Validates declared features: their names are valid, sorted and unique.
fn declared_features(errors: &mut Errors, status: &Value) {
    const MAX: usize = 253;
    let path = Path::new("status").child("declaredFeatures");
    let names: Vec<&str> = check::texts(status, "declaredFeatures").collect();
    for (i, name) in names.iter().enumerate() {
        let fault = match name.len() > MAX {
            true => Some(format!("must be no more than {MAX} characters")),
            false => (!is_feature(name)).then(|| FEATURE_FORM.to_owned()),
        };
        if let Some(fault) = fault {
            let fault = format!("invalid feature name {}: {fault}", go_quote(name));
            errors.push(Error::invalid(&path.index(i), *name, fault));
        }
        match names.get(i + 1).map(|next| (next, name.cmp(next))) {
            Some((next, Ordering::Equal)) => {
                errors.push(Error::duplicate(&path.index(i + 1), *next));
            }
            Some((next, Ordering::Greater)) => {
                let fault = "list must be sorted alphabetically";
                errors.push(Error::invalid(&path.index(i + 1), *next, fault));
            }
            _ => {}
        }
    }
}

const FEATURE_FORM: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
                            (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters \
                            and slashes";

/// Whether a name has the form `MyFeature` or `MyFeature/mySubFeature`.
fn is_feature(name: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric())
    };
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(word)
}

/// Validates taints. Kubernetes reports them below `metadata`.
fn taints(errors: &mut Errors, node: &Value) {
    let path = Path::new("metadata").child("taints");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in node.at("spec").items("taints").iter().enumerate() {
        let path = path.index(i);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        check::label_name(errors, &path.child("key"), key);
        let faults = names::label_value(value);
        if !faults.is_empty() {
            errors.push(Error::invalid(
                &path.child("value"),
                value,
                faults.join(";"),
            ));
        }
        match effect {
            "" => errors.push(Error::required(&path.child("effect"), "")),
            effect => affinity::taint_effect(errors, &path.child("effect"), effect),
        }
        if seen.contains(&(key, effect)) {
            let shown = Ordered::new()
                .text("Key", key)
                .text("Value", value)
                .text("Effect", effect)
                .with("TimeAdded", taint.at("timeAdded"));
            let mut error = Error::duplicate(&path, shown.bad_value());
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
            continue;
        }
        seen.push((key, effect));
    }
}

fn amounts(errors: &mut Errors, status: &Value) {
    for list in ["capacity", "allocatable"] {
        for (name, value) in status.entries(list) {
            let path = Path::new("status").child(list).child(name);
            resources::value(errors, &path, name, value);
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    amounts(&mut errors, new.at("status"));
    declared_features(&mut errors, new.at("status"));
    let addresses = new.at("status").items("addresses");
    for (i, address) in addresses.iter().enumerate() {
        if addresses[..i].contains(address) {
            let path = Path::new("status").child("addresses").index(i);
            let shown = Ordered::new()
                .text("Type", address.text("type"))
                .text("Address", address.text("address"));
            errors.push(Error::duplicate(&path, shown.bad_value()));
        }
    }
    let (spec, old_spec, path) = (new.at("spec"), old.at("spec"), Path::new("spec"));
    let (ranges, old_ranges) = (spec.items("podCIDRs"), old_spec.items("podCIDRs"));
    let changes = match (old_ranges.len(), ranges.len()) {
        (0, _) => 0,
        (before, now) if before != now => 1,
        _ => ranges
            .iter()
            .zip(old_ranges)
            .filter(|(new, old)| new != old)
            .count(),
    };
    for _ in 0..changes {
        let fault = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("podCIDRs"), fault));
    }
    let provider = old_spec.text("providerID");
    if !provider.is_empty() && provider != spec.text("providerID") {
        let fault = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("providerID"), fault));
    }
    taints(&mut errors, new);
    if spec.text("externalID") != old_spec.text("externalID") {
        errors.push(Error::forbidden(
            &path.child("externalID"),
            "may not be updated",
        ));
    }
    errors
}

fn warnings(node: &Value) -> Vec<String> {
    let spec = node.at("spec");
    let mut warnings = Vec::new();
    if spec.has("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.text("externalID").is_empty() {
        warnings.push(
            "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
        );
    }
    let path = Path::new("spec").child("podCIDRs");
    for (i, range) in check::texts(spec, "podCIDRs").enumerate() {
        warnings.extend(cidr_warnings(&path.index(i), range));
    }
    warnings
}

/// The deprecation message of a node label, if it is deprecated.
pub(super) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        _ => return None,
    })
}

/// Whether the values of a selector are checked as label values.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Values {
    Validated,
    Ignored,
}

/// Warnings for the requirements of a node selector.
pub(super) fn requirement_warnings(
    path: &Path,
    requirements: &[Value],
    values: Values,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, requirement) in requirements.iter().enumerate() {
        let (key, path) = (requirement.text("key"), path.index(i));
        if let Some(why) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {why}", path.child("key")));
        }
        if values == Values::Ignored {
            continue;
        }
        for (i, value) in check::texts(requirement, "values").enumerate() {
            let path = path.child("values").index(i);
            for fault in names::label_value(value) {
                warnings.push(format!("{path}: {value} is invalid, {fault}"));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_features_are_names_in_order() {
        let texts_of = |features: Value| {
            let mut errors = Errors::new();
            declared_features(&mut errors, &json!({ "declaredFeatures": features }));
            let texts = errors.iter().map(ToString::to_string);
            texts.collect::<Vec<_>>()
        };
        assert!(texts_of(json!(["A", "B/c", "C"])).is_empty());
        assert_eq!(
            texts_of(json!(["B", "A", "A"])),
            [
                "status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically",
                "status.declaredFeatures[2]: Duplicate value: \"A\"",
            ]
        );
        for name in ["", "a", "A/", "A/1", "A b"] {
            let texts = texts_of(json!([name]));
            assert!(
                texts[0].contains("must start with an UpperCamelCase"),
                "{texts:?}"
            );
        }
        assert!(texts_of(json!(["A".repeat(254)]))[0].contains("no more than 253"));
    }

    #[test]
    fn the_single_pod_range_counts() {
        let cases = [
            (
                json!({"podCIDR": "a"}),
                json!({"podCIDR": "a", "podCIDRs": ["a"]}),
            ),
            (
                json!({"podCIDRs": ["a", "b"]}),
                json!({"podCIDR": "a", "podCIDRs": ["a", "b"]}),
            ),
            (
                json!({"podCIDR": "a", "podCIDRs": ["b"]}),
                json!({"podCIDR": "a", "podCIDRs": ["a"]}),
            ),
        ];
        for (mut spec, expected) in cases {
            sync_pod_cidrs(&mut spec);
            assert_eq!(spec, expected);
        }
    }

    #[test]
    fn all_capacity_can_be_used_unless_said_otherwise() {
        let mut node = json!({"status": {"capacity": {"cpu": "4"}}});
        default(&mut node);
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    }

    #[test]
    fn taints_are_unique_by_key_and_effect() {
        let taint = |value: &str| json!({"key": "a", "value": value, "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint("1"), taint("2")]}});
        assert_eq!(
            validate(&node)[0].to_string(),
            "metadata.taints[1]: Duplicate value: \
             {\"Key\":\"a\",\"Value\":\"2\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: \
             taints must be unique by key and effect pair"
        );
    }

    #[test]
    fn two_pod_ranges_are_of_two_families() {
        let texts_of = |ranges: Value| -> Vec<String> {
            let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ranges}});
            validate(&node).iter().map(ToString::to_string).collect()
        };
        assert!(texts_of(json!(["192.0.2.0/24", "2001:db8::/64"])).is_empty());
        let same = "spec.podCIDRs: Invalid value: [\"192.0.2.0/24\",\"192.0.3.0/24\"]: may specify no more than one CIDR for each IP family";
        assert_eq!(texts_of(json!(["192.0.2.0/24", "192.0.3.0/24"])), [same]);
        let unread = "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> (invalid CIDR address: x)";
        assert_eq!(texts_of(json!(["192.0.2.0/24", "x"]))[1], unread);
    }

    #[test]
    fn a_pod_range_once_given_stays() {
        let node = |range: &str| json!({"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {"podCIDRs": [range]}});
        let errors = validate_update(&node("192.0.3.0/24"), &node("192.0.2.0/24"));
        assert_eq!(errors[0].field, "spec.podCIDRs");
        let mut bare = node("");
        bare["spec"].remove("podCIDRs");
        assert_eq!(validate_update(&node("192.0.2.0/24"), &bare), []);
    }
}
