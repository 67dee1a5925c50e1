//! Validation that workload kinds share: selectors, templates, numbers or percentages of pods,
//! status counts.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidatePositiveIntOrPercent`,
//!   `IsNotMoreThan100Percent`, `ValidatePodTemplateSpecForReplicaSet`, `ValidateDeploymentSpec`,
//!   `ValidateDeploymentStatus`
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodTemplateSpecForRC`
//! - `pkg/registry/apps/deployment/strategy.go`: `WarningsOnCreate`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::names;
use sendo_apimachinery::selector::LabelSelector;
use serde_json::{Map, Value};

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;
use crate::kinds::{ordered, pod};

const NO_MATCH: &str = "`selector` does not match template `labels`";
const TOO_MANY: &str = "cannot be greater than status.replicas";

/// Validates a selector that is required and must not be empty.
pub(super) fn selector(errors: &mut Errors, path: &Path, selector: &Value, kind: &str) {
    if selector.is_null() {
        errors.push(Error::required(path, ""));
        return;
    }
    check::selector(errors, path, selector);
    not_empty(errors, path, selector, kind);
}

/// Refuses an empty selector, which would match all pods of the namespace.
pub(super) fn not_empty(errors: &mut Errors, path: &Path, selector: &Value, kind: &str) {
    let is_empty = selector.entries("matchLabels").next().is_none()
        && selector.items("matchExpressions").is_empty();
    if is_empty {
        let fault = format!("empty selector is invalid for {kind}");
        errors.push(Error::invalid(path, selector_text(selector), fault));
    }
}

/// A selector as the bad value of an error.
pub(super) fn selector_text(selector: &Value) -> BadValue {
    match selector {
        Value::Null => Value::Null.into(),
        selector => BadValue::Raw(ordered::selector(selector)),
    }
}

/// The parsed selector, or `None` if it is invalid.
pub(super) fn parsed(selector: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(Some(selector).filter(|selector| !selector.is_null())).ok()
}

/// Validates that the selector matches the labels of the template.
pub(super) fn matching_labels(
    errors: &mut Errors,
    path: &Path,
    template: &Value,
    selector: &LabelSelector,
) {
    let labels = template.at("metadata").at("labels");
    let none = Map::new();
    if !selector.matches(labels.as_object().unwrap_or(&none)) {
        let path = path.child("metadata").child("labels");
        errors.push(Error::invalid(&path, labels.clone(), NO_MATCH));
    }
}

/// Validates the template of a workload whose pods run until they are deleted.
pub(super) fn template(errors: &mut Errors, path: &Path, spec: &Value, kind: &str) {
    let template = spec.at("template");
    let Some(selector) = parsed(spec.at("selector")) else {
        let shown = selector_text(spec.at("selector"));
        let selector_path = Path::new("spec").child("selector");
        errors.push(Error::invalid(
            &selector_path,
            shown,
            "invalid label selector",
        ));
        return;
    };
    if !selector.is_everything() {
        matching_labels(errors, path, template, &selector);
    }
    pod::validate::template(errors, path, template);
    runs_forever(errors, path, template, kind);
}

/// Validates that the template has the restart policy `Always` and no deadline.
pub(super) fn runs_forever(errors: &mut Errors, path: &Path, template: &Value, kind: &str) {
    let (spec, path) = (template.at("spec"), path.child("spec"));
    check::one_of(
        errors,
        &path.child("restartPolicy"),
        spec.text("restartPolicy"),
        &["Always"],
    );
    if spec.has("activeDeadlineSeconds") {
        let fault = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Error::forbidden(
            &path.child("activeDeadlineSeconds"),
            fault,
        ));
    }
}

/// Validates an `IntOrString` that is a number of pods or a percentage.
pub(in crate::kinds) fn number_or_percent(errors: &mut Errors, path: &Path, value: &Value) {
    match value.as_str() {
        Some(text) => check::faults(errors, path, text, names::percent(text)),
        None => check::non_negative(errors, path, value.as_i64().unwrap_or_default()),
    }
}

/// Validates that a percentage is at most 100%.
pub(in crate::kinds) fn at_most_all(errors: &mut Errors, path: &Path, value: &Value) {
    if share(value).is_some_and(|percent| percent > 100) {
        errors.push(Error::invalid(
            path,
            value.clone(),
            "must not be greater than 100%",
        ));
    }
}

fn share(value: &Value) -> Option<i64> {
    let text = value
        .as_str()
        .filter(|text| names::percent(text).is_empty())?;
    text.strip_suffix('%')?.parse().ok()
}

/// Whether a number or percentage of pods is zero.
pub(super) fn is_none(value: &Value) -> bool {
    let number = || value.as_i64().or_else(|| value.as_str()?.parse().ok());
    share(value).or_else(number).unwrap_or_default() == 0
}

/// Validates that counts of a status are not negative.
pub(in crate::kinds) fn counts(errors: &mut Errors, path: &Path, status: &Value, keys: &[&str]) {
    for key in keys {
        check::non_negative(errors, &path.child(key), status.count(key));
    }
}

/// Validates that counts of a status are not greater than `status.replicas`.
pub(super) fn parts_of_replicas(errors: &mut Errors, path: &Path, status: &Value, keys: &[&str]) {
    for key in keys {
        if status.count(key) > status.count("replicas") {
            errors.push(Error::invalid(
                &path.child(key),
                status.count(key),
                TOO_MANY,
            ));
        }
    }
}

/// Validates that there are not more available than ready replicas.
pub(super) fn available_are_ready(errors: &mut Errors, path: &Path, status: &Value, ready: &str) {
    let available = status.count("availableReplicas");
    if available > status.count("readyReplicas") {
        let fault = format!("cannot be greater than {ready}");
        errors.push(Error::invalid(
            &path.child("availableReplicas"),
            available,
            fault,
        ));
    }
}

/// Validates that `collisionCount` is not decreased.
pub(super) fn collisions(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    let before = old.at("status").number("collisionCount");
    let now = new.at("status").count("collisionCount");
    if before.is_some_and(|before| now < before) {
        errors.push(Error::invalid(
            &path.child("collisionCount"),
            now,
            "cannot be decremented",
        ));
    }
}

/// The warning for a name that becomes part of pod host names and is not a DNS label.
pub(in crate::kinds) fn name_warning(name: &str, what: &str) -> Vec<String> {
    let faults = names::dns1123_label(name);
    if faults.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {what}, which can result in surprising behavior; \
         a DNS label is recommended: [{}]",
        faults.join(" ")
    )]
}
