//! Rules of StorageClasses and VolumeAttributesClasses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/storage/validation/validation.go`: `ValidateStorageClass`,
//!   `ValidateStorageClassUpdate`, `ValidateVolumeAttributesClass`,
//!   `ValidateVolumeAttributesClassUpdate`
//! - `pkg/apis/core/validation/validation.go`: `ValidateTopologySelectorTerm`
//! - `pkg/apis/storage/v1/defaults.go`: `SetDefaults_StorageClass`
//! - `pkg/api/storage/util.go`: `GetWarningsForStorageClass`
//! - `pkg/registry/storage/storageclass/strategy.go`
//! - `pkg/registry/storage/volumeattributesclass/strategy.go`

use std::collections::{BTreeMap, BTreeSet};

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, node};

pub(super) const STORAGE: Rules = Rules {
    default: |class| {
        class.default_to("reclaimPolicy", "Delete");
        class.default_to("volumeBindingMode", "Immediate");
    },
    validate: |_, class| validate_storage(class),
    validate_update: |_, new, old| {
        let mut errors = validate_storage(new);
        errors.extend(check::changed_metadata(new, old));
        for key in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            check::immutable(&mut errors, &Path::new(key), new.at(key), old.at(key));
        }
        errors
    },
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    ..Rules::NEUTRAL
};

pub(super) const ATTRIBUTES: Rules = Rules {
    validate: |_, class| validate_attributes(class),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        for key in ["driverName", "parameters"] {
            if new.at(key) != old.at(key) {
                let fault = format!("updates to {key} are forbidden.");
                errors.push(Error::forbidden(&Path::new(key), fault));
            }
        }
        errors.extend(validate_attributes(new));
        errors
    },
    ..Rules::NEUTRAL
};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 * 1024;

fn validate_storage(class: &Value) -> Errors {
    let mut errors = check::new_metadata(class, Scope::Cluster, names::dns1123_subdomain);
    provisioner(&mut errors, class, "provisioner");
    parameters(&mut errors, class);
    let policy = class.text("reclaimPolicy");
    if !policy.is_empty() {
        let path = Path::new("reclaimPolicy");
        check::one_of(&mut errors, &path, policy, &["Delete", "Retain"]);
    }
    let path = Path::new("volumeBindingMode");
    match class.at("volumeBindingMode").as_str() {
        None => errors.push(Error::required(&path, "")),
        Some(mode) => {
            let modes = ["Immediate", "WaitForFirstConsumer"];
            check::one_of(&mut errors, &path, mode, &modes);
        }
    }
    topologies(&mut errors, class.items("allowedTopologies"));
    errors
}

fn validate_attributes(class: &Value) -> Errors {
    let mut errors = check::new_metadata(class, Scope::Cluster, names::dns1123_subdomain);
    provisioner(&mut errors, class, "driverName");
    parameters(&mut errors, class);
    if class.entries("parameters").next().is_none() {
        let fault = "must contain at least one key/value pair";
        errors.push(Error::required(&Path::new("parameters"), fault));
    }
    errors
}

/// Validates the name of a provisioner or driver, in any case.
fn provisioner(errors: &mut Errors, class: &Value, key: &str) {
    let name = class.text(key).to_lowercase();
    check::required_name(errors, &Path::new(key), &name, names::qualified_name);
}

fn parameters(errors: &mut Errors, class: &Value) {
    let path = Path::new("parameters");
    if class.entries("parameters").count() > MAX_PARAMETERS {
        errors.push(Error::too_long(&path, MAX_PARAMETERS));
        return;
    }
    let mut size = 0;
    for (key, value) in class.entries("parameters") {
        if key.is_empty() {
            errors.push(Error::invalid(&path, key, "field can not be empty."));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX_PARAMETERS_SIZE {
        errors.push(Error::too_long(&path, MAX_PARAMETERS_SIZE));
    }
}

/// Validates allowed topologies: no duplicate terms, no empty term.
fn topologies(errors: &mut Errors, terms: &[Value]) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (i, term) in terms.iter().enumerate() {
        let path = Path::new("allowedTopologies").index(i);
        let path = path.child("matchLabelExpressions");
        let term = topology(errors, &path, term);
        // Kubernetes compares an empty term with every term, itself included.
        let before = match term.is_empty() {
            true => terms.len(),
            false => 0,
        };
        let same = seen.iter().filter(|seen| **seen == term).count();
        for _ in 0..before + same {
            errors.push(Error::duplicate(&path, ""));
        }
        seen.push(term);
    }
}

fn topology<'a>(
    errors: &mut Errors,
    path: &Path,
    term: &'a Value,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut all = BTreeMap::new();
    for (i, expression) in term.items("matchLabelExpressions").iter().enumerate() {
        let path = path.index(i);
        let (key, key_path) = (expression.text("key"), path.child("key"));
        let mut values = BTreeSet::new();
        if expression.items("values").is_empty() {
            errors.push(Error::required(&path.child("values"), ""));
        }
        for (i, value) in check::texts(expression, "values").enumerate() {
            if !values.insert(value) {
                errors.push(Error::duplicate(&path.child("values").index(i), value));
            }
        }
        check::label_name(errors, &key_path, key);
        if all.insert(key, values).is_some() {
            errors.push(Error::duplicate(&key_path, key));
        }
    }
    all
}

fn warnings(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, term) in class.items("allowedTopologies").iter().enumerate() {
        let path = Path::new("allowedTopologies").index(i);
        let path = path.child("matchLabelExpressions");
        for (i, expression) in term.items("matchLabelExpressions").iter().enumerate() {
            if let Some(why) = node::deprecated_label(expression.text("key")) {
                warnings.push(format!("{}: {why}", path.index(i).child("key")));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(class: &Value) -> Vec<String> {
        validate_storage(class)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_class_names_who_provides_the_storage() {
        let class = json!({"metadata": {"name": "c"}, "volumeBindingMode": "Immediate"});
        assert_eq!(errors(&class), ["provisioner: Required value"]);
        let class = json!({"metadata": {"name": "c"}, "provisioner": "Example.com/Disks",
                           "volumeBindingMode": "Later", "parameters": {"": "x"}});
        assert_eq!(
            errors(&class),
            [
                "parameters: Invalid value: \"\": field can not be empty.",
                "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
            ]
        );
    }

    #[test]
    fn duplicate_topologies_are_refused() {
        let zone = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]});
        let same = json!({"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]});
        let mut found = Vec::new();
        topologies(&mut found, &[zone, same]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""]
        );
    }
}
