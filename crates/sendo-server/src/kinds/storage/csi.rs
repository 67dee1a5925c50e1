//! Rules of CSIDrivers, CSINodes and CSIStorageCapacities.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/storage/validation/validation.go`: `ValidateCSIDriver`, `ValidateCSIDriverUpdate`,
//!   `ValidateCSINode`, `ValidateCSINodeUpdate`, `ValidateCSIStorageCapacity`,
//!   `ValidateCSIStorageCapacityUpdate`
//! - `pkg/apis/storage/v1/defaults.go`: `SetDefaults_CSIDriver`
//! - `pkg/api/storage/util.go`: `GetWarningsForCSIStorageCapacity`
//! - `pkg/registry/storage/csidriver/strategy.go`
//! - `pkg/registry/storage/csinode/strategy.go`
//! - `pkg/registry/storage/csistoragecapacity/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use crate::kinds::check::{self, Errors};
use crate::kinds::node::{self, Values};
use crate::kinds::ordered::{Ordered, selector};
use crate::kinds::pod::sources::driver_name;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, resources, writes};

pub(super) const DRIVER: Rules = Rules {
    default: |driver| {
        let spec = driver.object("spec");
        spec.default_to("attachRequired", true);
        spec.default_to("podInfoOnMount", false);
        spec.default_to("storageCapacity", false);
        spec.default_to("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.items("volumeLifecycleModes").is_empty() {
            spec.set("volumeLifecycleModes", json!(["Persistent"]));
        }
        spec.default_to("requiresRepublish", false);
        spec.default_to("seLinuxMount", false);
    },
    prepare_for_create: |_, driver| {
        driver
            .object("spec")
            .remove("preventPodSchedulingIfMissing")
    },
    prepare_for_update: |_, new, old| {
        if !old.at("spec").has("preventPodSchedulingIfMissing") {
            new.object("spec").remove("preventPodSchedulingIfMissing");
        }
        if new.at("spec") != old.at("spec") {
            writes::next_generation(new, old);
        }
    },
    validate: |_, driver| {
        let mut errors = check::new_metadata(driver, Scope::Cluster, names::dns1123_subdomain);
        driver_spec(&mut errors, driver.at("spec"));
        errors
    },
    validate_update: |_, new, old| update_driver(new, old),
    warnings_on_create: |driver| token_warning(driver, &Value::Null),
    warnings_on_update: token_warning,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

pub(super) const NODE: Rules = Rules {
    validate: |_, node| validate_node(node),
    validate_update: |_, new, old| update_node(new, old),
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

pub(super) const CAPACITY: Rules = Rules {
    validate: |_, capacity| validate_capacity(capacity),
    validate_update: |_, new, old| update_capacity(new, old),
    warnings_on_create: capacity_warnings,
    warnings_on_update: |new, _| capacity_warnings(new),
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

const IMMUTABLE: &str = "field is immutable";

fn driver_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    for (key, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.has(key) {
            errors.push(Error::required(&path.child(shown), ""));
        }
    }
    check::optional_one_of(
        errors,
        &path.child("fsGroupPolicy"),
        spec.at("fsGroupPolicy"),
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    token_requests(errors, &path.child("tokenRequests"), spec);
    for mode in check::texts(spec, "volumeLifecycleModes") {
        let path = path.child("volumeLifecycleModes");
        check::one_of(errors, &path, mode, &["Persistent", "Ephemeral"]);
    }
    if !spec.has("seLinuxMount") {
        errors.push(Error::required(&path.child("seLinuxMount"), ""));
    }
    let key = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(period) = spec.number(key).filter(|period| *period < 10) {
        let fault = "must be greater than or equal to 10 seconds";
        errors.push(Error::invalid(&path.child(key), period, fault));
    }
    let key = "serviceAccountTokenInSecrets";
    if spec.has(key) && spec.items("tokenRequests").is_empty() {
        let fault = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(Error::invalid(
            &path.child(key),
            spec.at(key).clone(),
            fault,
        ));
    }
}

/// Validates token requests: one per audience.
fn token_requests(errors: &mut Errors, path: &Path, spec: &Value) {
    let mut audiences: Vec<&str> = Vec::new();
    for (i, request) in spec.items("tokenRequests").iter().enumerate() {
        let path = path.index(i);
        let audience = request.text("audience");
        if audiences.contains(&audience) {
            errors.push(Error::duplicate(&path.child("audience"), audience));
            continue;
        }
        audiences.push(audience);
        let Some(seconds) = request.number("expirationSeconds") else {
            continue;
        };
        let path = path.child("expirationSeconds");
        if seconds < 600 {
            let fault = "may not specify a duration less than 10 minutes";
            errors.push(Error::invalid(&path, seconds, fault));
        }
        if seconds > 1 << 32 {
            let fault = "may not specify a duration larger than 2^32 seconds";
            errors.push(Error::invalid(&path, seconds, fault));
        }
    }
}

fn update_driver(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    driver_spec(&mut errors, new.at("spec"));
    for (key, shown) in [
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ] {
        check::immutable(
            &mut errors,
            &Path::new("spec").child(shown),
            new.at("spec").at(key),
            old.at("spec").at(key),
        );
    }
    errors
}

fn token_warning(new: &Value, old: &Value) -> Vec<String> {
    let (new, old) = (new.at("spec"), old.at("spec"));
    let warns = !new.items("tokenRequests").is_empty()
        && new.items("tokenRequests") != old.items("tokenRequests")
        && !new.has("serviceAccountTokenInSecrets");
    let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                possible logging of tokens in volume attributes";
    warns.then(|| text.to_owned()).into_iter().collect()
}

fn validate_node(node: &Value) -> Errors {
    let mut errors = check::new_metadata(node, Scope::Cluster, names::dns1123_subdomain);
    let mut seen: Vec<&str> = Vec::new();
    for (i, driver) in node.at("spec").items("drivers").iter().enumerate() {
        let path = Path::new("spec").child("drivers").index(i);
        let (name, id) = (driver.text("name"), driver.text("nodeID"));
        driver_name(&mut errors, &path.child("name"), name);
        check::required(&mut errors, &path.child("nodeID"), id);
        if id.len() > 256 {
            let fault = "must be 256 characters or less";
            errors.push(Error::invalid(&path.child("nodeID"), id, fault));
        }
        let count = driver.at("allocatable").count("count");
        let count_path = path.child("allocatable").child("count");
        check::non_negative(&mut errors, &count_path, count);
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        topology_keys(&mut errors, &path, driver);
    }
    errors
}

fn topology_keys(errors: &mut Errors, path: &Path, driver: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for key in check::texts(driver, "topologyKeys") {
        check::required(errors, path, key);
        if seen.contains(&key) {
            errors.push(Error::duplicate(path, key));
        }
        seen.push(key);
        check::label_name(errors, path, key);
    }
}

/// Validates an update of a CSINode: drivers may be added and removed, but of an existing one only
/// `allocatable` may change.
fn update_node(new: &Value, old: &Value) -> Errors {
    let mut errors = validate_node(new);
    let drivers = |node: &Value| {
        let mut drivers = node.at("spec").items("drivers").to_vec();
        for driver in &mut drivers {
            driver.remove("allocatable");
        }
        drivers
    };
    for old in &drivers(old) {
        for new in &drivers(new) {
            if old.text("name") == new.text("name") && old != new {
                let shown = Ordered::new()
                    .text("Name", new.text("name"))
                    .text("NodeID", new.text("nodeID"))
                    .with("TopologyKeys", new.at("topologyKeys"))
                    .with("Allocatable", &Value::Null);
                let path = Path::new("spec").child("drivers");
                errors.push(Error::invalid(&path, shown.bad_value(), IMMUTABLE));
            }
        }
    }
    errors
}

fn validate_capacity(capacity: &Value) -> Errors {
    let mut errors = check::new_metadata(capacity, Scope::Namespaced, names::dns1123_subdomain);
    let topology = capacity.at("nodeTopology");
    check::selector(&mut errors, &Path::new("nodeTopology"), topology);
    let class = capacity.text("storageClassName");
    let faults = names::dns1123_subdomain(class);
    check::faults(&mut errors, &Path::new("storageClassName"), class, faults);
    let amount = resources::amount(capacity.at("capacity"));
    if amount.is_negative() {
        let fault = "must be greater than or equal to 0";
        let path = Path::new("capacity");
        errors.push(Error::invalid(&path, amount.to_string(), fault));
    }
    errors
}

fn update_capacity(new: &Value, old: &Value) -> Errors {
    let mut errors = validate_capacity(new);
    errors.extend(check::changed_metadata(new, old));
    let topology = new.at("nodeTopology");
    if topology != old.at("nodeTopology") {
        let path = Path::new("nodeTopology");
        let shown = match topology {
            Value::Null => Value::Null.into(),
            topology => sendo_apimachinery::field::BadValue::Raw(selector(topology)),
        };
        errors.push(Error::invalid(&path, shown, IMMUTABLE));
    }
    let class = new.text("storageClassName");
    if class != old.text("storageClassName") {
        let path = Path::new("storageClassName");
        errors.push(Error::invalid(&path, class, IMMUTABLE));
    }
    errors
}

fn capacity_warnings(capacity: &Value) -> Vec<String> {
    let (topology, path) = (capacity.at("nodeTopology"), Path::new("nodeTopology"));
    let mut warnings = node::requirement_warnings(
        &path.child("matchExpressions"),
        topology.items("matchExpressions"),
        Values::Ignored,
    );
    for (label, _) in topology.entries("matchLabels") {
        if let Some(why) = node::deprecated_label(label) {
            warnings.push(format!("{}: {why}", path.child("matchLabels").child(label)));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: &Errors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_driver_names_each_audience_once() {
        let mut driver = json!({"spec": {"tokenRequests": [
            {"audience": "a", "expirationSeconds": 60}, {"audience": "a"},
        ]}});
        (DRIVER.default)(&mut driver);
        let mut errors = Vec::new();
        driver_spec(&mut errors, driver.at("spec"));
        assert_eq!(
            texts(&errors),
            [
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
            ]
        );
    }

    #[test]
    fn only_the_capacity_of_a_driver_on_a_node_changes() {
        let node = |id: &str, count: i64| {
            json!({"metadata": {"name": "n"},
                   "spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]}})
        };
        assert_eq!(update_node(&node("a", 1), &node("a", 2)), []);
        assert_eq!(
            texts(&update_node(&node("b", 1), &node("a", 1))),
            [concat!(
                "spec.drivers: Invalid value: ",
                r#"{"Name":"d","NodeID":"b","TopologyKeys":null,"Allocatable":null}: field is immutable"#
            )]
        );
    }
}
