//! Rules of PersistentVolumeClaims.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePersistentVolumeClaim`,
//!   `ValidatePersistentVolumeClaimUpdate`, `ValidatePersistentVolumeClaimStatusUpdate`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_PersistentVolumeClaim`
//! - `pkg/api/persistentvolumeclaim/util.go`: `NormalizeDataSources`,
//!   `GetWarningsForPersistentVolumeClaim`
//! - `pkg/registry/core/persistentvolumeclaim/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, internal, resources, writes};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, claim| {
        claim.set("status", json!({"phase": "Pending"}));
        data_sources(claim.object("spec"), &Value::Null);
    },
    prepare_for_update: |_, new, old| {
        new.copy_from("status", old);
        data_sources(new.object("spec"), old.at("spec"));
    },
    validate: |_, claim| validate(claim),
    validate_update: |_, new, old| validate_update(new, old),
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| validate_status_update(new, old),
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    ..Rules::NEUTRAL
};

/// Sets the defaults of a claim or of a claim template.
pub(crate) fn default(claim: &mut Value) {
    let status = claim.object("status");
    status.default_if_zero("phase", "Pending");
    resources::round_up_lists(status, &["capacity", "allocatedResources"]);
    let spec = claim.object("spec");
    spec.default_to("volumeMode", "Filesystem");
    if let Some(resources) = spec.existing("resources") {
        resources::round_up_requirements(resources);
    }
}

/// Copies `dataSource` to an unset `dataSourceRef` and the reverse. A new `dataSource` that is
/// neither a claim nor a snapshot is dropped.
fn data_sources(spec: &mut Value, old: &Value) {
    let has_namespace = !spec.at("dataSourceRef").text("namespace").is_empty();
    if has_namespace && !old.has("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let was_in_use = old.has("dataSource") || old.has("dataSourceRef");
    if !was_in_use && !spec.has("dataSourceRef") && !is_claim_or_snapshot(spec.at("dataSource")) {
        spec.remove("dataSource");
    }
    match (spec.has("dataSource"), spec.has("dataSourceRef")) {
        (true, false) => {
            let source = spec.at("dataSource").clone();
            spec.set("dataSourceRef", source);
        }
        (false, true) if spec.at("dataSourceRef").text("namespace").is_empty() => {
            let mut source = spec.at("dataSourceRef").clone();
            source.remove("namespace");
            spec.set("dataSource", source);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let known = [
        ("", "PersistentVolumeClaim"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    ];
    known.contains(&(source.text("apiGroup"), source.text("kind")))
}

fn validate(claim: &Value) -> Errors {
    let mut errors = check::new_metadata(claim, Scope::Namespaced, names::dns1123_subdomain);
    validate_spec(&mut errors, &Path::new("spec"), claim.at("spec"));
    errors
}

/// Validates the spec of a claim or of a claim template.
pub(crate) fn validate_spec(errors: &mut Errors, path: &Path, spec: &Value) {
    let modes_path = path.child("accessModes");
    if spec.items("accessModes").is_empty() {
        errors.push(Error::required(
            &modes_path,
            "at least 1 access mode is required",
        ));
    }
    check::selector(errors, &path.child("selector"), spec.at("selector"));
    access_modes(errors, &modes_path, spec);
    let size_path = path.child("resources").key("storage");
    let size = spec.at("resources").at("requests").at("storage");
    if size.is_null() {
        errors.push(Error::required(&size_path, ""));
    } else {
        positive_amount(errors, &size_path, size);
    }
    optional_class(
        errors,
        &path.child("storageClassName"),
        spec.at("storageClassName"),
    );
    let modes = ["Block", "Filesystem"];
    check::optional_one_of(
        errors,
        &path.child("volumeMode"),
        spec.at("volumeMode"),
        &modes,
    );
    for key in ["dataSource", "dataSourceRef"] {
        if spec.has(key) {
            data_source(errors, &path.child(key), spec.at(key));
        }
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    if !source.is_null() && !reference.is_null() {
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|key| source.at(key) == reference.at(key));
        let fault = match reference.text("namespace") {
            "" if same => None,
            "" => Some("must match dataSourceRef"),
            _ => Some("may not be specified when dataSourceRef.namespace is specified"),
        };
        if let Some(fault) = fault {
            // Kubernetes passes its path as the bad value here, which prints as an empty struct.
            errors.push(Error::invalid(path, json!({}), fault));
        }
    }
    optional_class(
        errors,
        &path.child("volumeAttributesClassName"),
        spec.at("volumeAttributesClassName"),
    );
}

/// Validates a quantity greater than zero.
pub(super) fn positive_amount(errors: &mut Errors, path: &Path, value: &Value) {
    let amount = resources::amount(value);
    if amount.is_negative() || amount.is_zero() {
        errors.push(Error::invalid(
            path,
            amount.to_string(),
            "must be greater than zero",
        ));
    }
}

pub(super) fn access_modes(errors: &mut Errors, path: &Path, spec: &Value) {
    for mode in check::texts(spec, "accessModes") {
        check::one_of(errors, path, mode, &ACCESS_MODES);
    }
    let known = || check::texts(spec, "accessModes").filter(|mode| ACCESS_MODES.contains(mode));
    let is_of_one_pod = |mode: &str| mode == "ReadWriteOncePod";
    if known().any(is_of_one_pod) && !known().all(is_of_one_pod) {
        errors.push(Error::forbidden(
            path,
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
}

/// Validates the name of a class, if it is set.
pub(super) fn optional_class(errors: &mut Errors, path: &Path, class: &Value) {
    if let Some(class) = class.as_str().filter(|class| !class.is_empty()) {
        check::faults(errors, path, class, names::dns1123_subdomain(class));
    }
}

fn data_source(errors: &mut Errors, path: &Path, source: &Value) {
    check::required(errors, &path.child("name"), source.text("name"));
    check::required(errors, &path.child("kind"), source.text("kind"));
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    if !group.is_empty() {
        check::faults(
            errors,
            &path.child("apiGroup"),
            group,
            names::dns1123_subdomain(group),
        );
    } else if kind != "PersistentVolumeClaim" {
        let fault = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(path, kind, fault));
    }
    let namespace = source.text("namespace");
    if !namespace.is_empty() {
        check::faults(
            errors,
            &path.child("namespace"),
            namespace,
            names::dns1123_label(namespace),
        );
    }
}

fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    errors.extend(validate(new));
    let spec_path = Path::new("spec");
    let (mut spec, mut old_spec) = (new.at("spec").clone(), old.at("spec").clone());
    if old_spec.text("volumeName").is_empty() {
        old_spec.copy_from("volumeName", &spec);
    }
    storage_class(&mut errors, new, old, &mut spec);
    if new.at("status").text("phase") == "Bound" {
        if spec.at("resources").has("requests") {
            let requests = old_spec.at("resources").at("requests").clone();
            spec["resources"]["requests"].copy_from("storage", &requests);
        }
        spec.copy_from("volumeAttributesClassName", &old_spec);
    }
    if spec != old_spec {
        let fault = "spec is immutable after creation except resources.requests and \
                     volumeAttributesClassName for bound claims";
        let difference = internal::difference("PersistentVolumeClaimSpec", &old_spec, &spec);
        errors.push(Error::forbidden(
            &spec_path,
            format!("{fault}\n{difference}"),
        ));
    }
    let size = |claim: &Value| {
        resources::amount(
            claim
                .at("spec")
                .at("resources")
                .at("requests")
                .at("storage"),
        )
    };
    let capacity = resources::amount(old.at("status").at("capacity").at("storage"));
    if size(new) < size(old) && size(new) <= capacity {
        let path = spec_path
            .child("resources")
            .child("requests")
            .child("storage");
        errors.push(Error::forbidden(
            &path,
            "field can not be less than status.capacity",
        ));
    }
    let mode = |claim: &Value| claim.at("spec").at("volumeMode").clone();
    check::immutable(
        &mut errors,
        &Path::new("volumeMode"),
        &mode(new),
        &mode(old),
    );
    attributes_class(
        &mut errors,
        &spec_path.child("volumeAttributesClassName"),
        new,
        old,
    );
    errors
}

/// Validates a change of the storage class, which may move from the legacy annotation to the field,
/// or be set if it was unset.
fn storage_class(errors: &mut Errors, new: &Value, old: &Value, spec: &mut Value) {
    let annotation = |claim: &Value| {
        claim
            .at("metadata")
            .at("annotations")
            .at(CLASS_ANNOTATION)
            .clone()
    };
    let class = |claim: &Value| claim.at("spec").at("storageClassName").clone();
    let (annotated, was_annotated) = (annotation(new), annotation(old));
    let was_unnamed = class(old).is_null();
    let moved = !was_annotated.is_null()
        && was_unnamed
        && class(new) == was_annotated
        && (annotated.is_null() || annotated == was_annotated);
    if moved {
        spec.remove("storageClassName");
        return;
    }
    if annotated != was_annotated {
        let path = Path::new("metadata")
            .child("annotations")
            .child(CLASS_ANNOTATION);
        let shown = annotated.as_str().unwrap_or_default();
        errors.push(Error::invalid(&path, shown, "field is immutable"));
    }
    let named = !class(new).is_null() && was_unnamed;
    if named && (was_annotated.is_null() || class(new) == was_annotated) {
        spec.remove("storageClassName");
    }
}

fn attributes_class(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    let class = |claim: &Value| claim.at("spec").at("volumeAttributesClassName").clone();
    if class(new) == class(old) || !old.at("status").has("currentVolumeAttributesClassName") {
        return;
    }
    let what = match class(new).as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let fault = format!(
        "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    errors.push(Error::forbidden(path, fault));
}

fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (status, path) = (new.at("status"), Path::new("status"));
    if new.at("spec").items("accessModes").is_empty() {
        errors.push(Error::required(&Path::new("Spec").child("accessModes"), ""));
    }
    for (name, value) in status.entries("capacity") {
        basic_amount(&mut errors, &path.child("capacity").key(name), value);
    }
    for (name, state) in status.entries("allocatedResourceStatuses") {
        let path = path.child("allocatedResourceStatuses");
        resource_key(&mut errors, &path, name);
        if !RESIZE_STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.push(Error::not_supported(&path, name, &RESIZE_STATES));
        }
    }
    for (name, value) in status.entries("allocatedResources") {
        let path = path.child("allocatedResources");
        let before = errors.len();
        resource_key(&mut errors, &path, name);
        if errors.len() == before {
            basic_amount(&mut errors, &path.key(name), value);
        }
    }
    errors
}

/// Validates a quantity that is not negative.
pub(super) fn basic_amount(errors: &mut Errors, path: &Path, value: &Value) {
    let amount = resources::amount(value);
    if amount.is_negative() {
        errors.push(Error::invalid(
            path,
            amount.units(),
            "must be a valid resource quantity",
        ));
    }
}

fn resource_key(errors: &mut Errors, path: &Path, name: &str) {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        check::faults(errors, path, name, faults);
    } else if resources::is_native(name) && name != "storage" {
        errors.push(Error::not_supported(path, name, &["storage"]));
    }
}

fn warnings(claim: &Value) -> Vec<String> {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    let mut warnings = Vec::new();
    if claim.at("metadata").at("annotations").has(CLASS) {
        warnings.push(format!(
            "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    warnings.extend(spec_warnings(&Path::new("spec"), claim.at("spec")));
    warnings
}

/// Warnings for the spec of a claim or of a claim template.
pub(crate) fn spec_warnings(path: &Path, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["requests", "limits"] {
        let amount = spec.at("resources").at(list).at("storage");
        if let Some(text) = resources::fractional(amount) {
            let path = path.child("resources").child(list).key("storage");
            warnings.push(format!(
                "{path}: fractional byte value {text:?} is invalid, must be an integer"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_name_of_the_source_agree() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let pod = json!({"kind": "Pod", "name": "p"});
        let cases = [
            (
                json!({"dataSource": &claim}),
                json!({"dataSource": &claim, "dataSourceRef": &claim}),
            ),
            (
                json!({"dataSourceRef": &pod}),
                json!({"dataSource": &pod, "dataSourceRef": &pod}),
            ),
            (json!({"dataSource": &pod}), json!({})),
        ];
        for (mut spec, expected) in cases {
            data_sources(&mut spec, &Value::Null);
            assert_eq!(spec, expected);
        }
    }

    fn claim(phase: &str, size: &str) -> Value {
        json!({
            "metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        })
    }

    #[test]
    fn a_bound_claim_may_grow_and_a_pending_one_may_not() {
        assert_eq!(
            validate_update(&claim("Bound", "2Gi"), &claim("Bound", "1Gi")),
            []
        );
        let errors = validate_update(&claim("Pending", "2Gi"), &claim("Pending", "1Gi"));
        let text = errors[0].to_string();
        assert!(
            text.starts_with("spec: Forbidden: spec is immutable after creation"),
            "{text}"
        );
        assert!(text.contains("+   \"storage\": \"2Gi\""), "{text}");
    }

    #[test]
    fn a_claim_never_shrinks_below_what_it_has() {
        let errors = validate_update(&claim("Bound", "1Gi"), &claim("Bound", "2Gi"));
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].to_string(),
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
        );
    }
}
