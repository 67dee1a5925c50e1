//! Rules of StorageVersionMigrations.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/storagemigration/validation/validation.go`
//! - `pkg/registry/storagemigration/storagemigration/strategy.go`
//! - `staging/src/k8s.io/apimachinery/pkg/util/resourceversion/resourceversion.go`: `isWellFormed`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::check::{self, Errors};
use super::value::{Read, Write};
use super::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |_, migration| migration.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    validate: |_, migration| validate(migration),
    validate_update: |_, new, old| {
        let mut errors = validate(new);
        errors.extend(check::changed_metadata(new, old));
        let path = Path::new("spec");
        check::immutable(&mut errors, &path, new.at("spec"), old.at("spec"));
        errors
    },
    validate_status_update: |_, new, old| validate_status(new, old),
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

fn validate(migration: &Value) -> Errors {
    let mut errors = check::new_metadata(migration, Scope::Cluster, names::dns1123_subdomain);
    let resource = migration.at("spec").at("resource");
    let path = Path::new("spec").child("resource");
    let (name, group) = (resource.text("resource"), resource.text("group"));
    let mut refuse = |member: &str, text: &str, faults: Vec<String>| {
        if !faults.is_empty() {
            errors.push(Error::invalid(&path.child(member), text, faults.join(",")));
        }
    };
    if !name.is_empty() {
        refuse("resource", name, names::dns1035_label(name));
    }
    if !group.is_empty() {
        refuse("group", group, names::dns1123_subdomain(group));
    }
    if name.is_empty() {
        let why = "resource is required to be set";
        errors.push(Error::required(&path.child("resource"), why));
    }
    errors
}

fn validate_status(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let path = Path::new("status");
    let (status, was) = (new.at("status"), old.at("status"));
    let version = status.text("resourceVersion");
    let version_path = path.child("resourceVersion");
    if !version.is_empty() && !is_well_formed(version) {
        let fault = format!("resource version is not well formed: {version}");
        errors.push(Error::invalid(&version_path, version, fault));
    }
    let conditions_path = path.child("conditions");
    check::conditions(&mut errors, &conditions_path, status.items("conditions"));
    let before = was.text("resourceVersion");
    if !before.is_empty() && before != version {
        let fault = "field is immutable";
        errors.push(Error::invalid(&version_path, version, fault));
    }
    let mut refuse = |fault: &str| {
        let shown = status.at("conditions").clone();
        errors.push(Error::invalid(&conditions_path, shown, fault));
    };
    let is_true = |status: &Value, kind: &str| {
        let mut conditions = status.items("conditions").iter();
        conditions.any(|own| own.text("type") == kind && own.text("status") == "True")
    };
    if is_true(status, "Succeeded") && is_true(status, "Failed") {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    if is_true(was, "Succeeded") && !is_true(status, "Succeeded") {
        refuse("Success condition cannot be set to false once it is true");
    }
    if is_true(was, "Failed") && !is_true(status, "Failed") {
        refuse("Failed condition cannot be set to false once it is true");
    }
    errors
}

/// Whether a text is a positive number without leading zeros.
fn is_well_formed(version: &str) -> bool {
    !version.is_empty()
        && !version.starts_with('0')
        && version.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_goes_on_and_not_back() {
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let migration = |version: &str, conditions: Value| json!({"metadata": {"name": "a", "resourceVersion": "1"}, "status": {"resourceVersion": version, "conditions": conditions}});
        let texts = |new: &Value, old: &Value| -> Vec<String> {
            let errors = validate_status(new, old);
            let short = errors
                .iter()
                .map(|error| format!("{}: {}", error.field, error.detail));
            short.collect()
        };
        let old = migration("7", json!([condition("Succeeded")]));
        let none: [&str; 0] = [];
        assert_eq!(texts(&old, &old), none);
        assert_eq!(
            texts(&migration("07", json!([condition("Failed")])), &old),
            [
                "status.resourceVersion: resource version is not well formed: 07",
                "status.resourceVersion: field is immutable",
                "status.conditions: Success condition cannot be set to false once it is true",
            ]
        );
    }

    #[test]
    fn a_migration_names_a_resource() {
        let texts = |resource: Value| -> Vec<String> {
            let migration = json!({"metadata": {"name": "a"}, "spec": {"resource": resource}});
            validate(&migration)
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(
            texts(json!({"group": "example.dev"})),
            ["spec.resource.resource: Required value: resource is required to be set"]
        );
        assert!(texts(json!({"resource": "widgets", "group": "example.dev"})).is_empty());
        assert_eq!(
            texts(json!({"resource": "Widgets", "group": "a/b"})).len(),
            2
        );
    }
}
