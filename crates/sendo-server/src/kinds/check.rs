//! Validation functions that several kinds share. Each appends its errors to a list.
//!
//! The messages are Kubernetes' own, since programs compare them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateObjectMeta`, `ValidateObjectMetaUpdate`,
//!   `ValidatePortNumOrName`, `validateLocalDescendingPath`, `validatePathNoBacksteps`,
//!   `ValidateLocalNonReservedPath`
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`:
//!   `ValidateConditions`, `ValidateLabelName`
//! - `staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::{self, FinalizerNames, Meta, MetaRules, Scope};
use sendo_apimachinery::names::{self, Check};
use sendo_apimachinery::selector::{InvalidValues, validate_label_selector};
use serde_json::Value;

use super::value::Read;

pub(super) type Errors = Vec<Error>;

const NEGATIVE: &str = "must be greater than or equal to 0";
const NOT_POSITIVE: &str = "must be greater than zero";

/// The transport protocols of a port.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Validates the metadata of a new object. `name` checks its name.
pub(super) fn new_metadata(object: &Value, scope: Scope, name: Check) -> Errors {
    let rules = MetaRules {
        scope,
        name,
        finalizers: FinalizerNames::DomainOrStandard,
    };
    meta::validate_create(Meta::new(object), &rules, &Path::new("metadata"))
}

/// Validates a change of metadata.
pub(super) fn changed_metadata(new: &Value, old: &Value) -> Errors {
    let finalizers = FinalizerNames::DomainOrStandard;
    meta::validate_update(
        Meta::new(new),
        Meta::new(old),
        finalizers,
        &Path::new("metadata"),
    )
}

/// [`new_metadata`] for a kind whose finalizers need no domain.
pub(super) fn new_plain_metadata(object: &Value, scope: Scope, name: Check) -> Errors {
    let rules = MetaRules {
        scope,
        name,
        finalizers: FinalizerNames::Any,
    };
    meta::validate_create(Meta::new(object), &rules, &Path::new("metadata"))
}

/// [`changed_metadata`] for a kind whose finalizers need no domain.
pub(super) fn changed_plain_metadata(new: &Value, old: &Value) -> Errors {
    let finalizers = FinalizerNames::Any;
    meta::validate_update(
        Meta::new(new),
        Meta::new(old),
        finalizers,
        &Path::new("metadata"),
    )
}

/// Validates conditions of type `metav1.Condition`.
pub(super) fn conditions(errors: &mut Errors, path: &Path, conditions: &[Value]) {
    const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
                          alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let (kind, reason) = (condition.text("type"), condition.text("reason"));
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        seen.push(kind);
        label_name(errors, &path.child("type"), kind);
        one_of(
            errors,
            &path.child("status"),
            condition.text("status"),
            &["False", "True", "Unknown"],
        );
        let generation = condition.count("observedGeneration");
        if generation < 0 {
            let fault = "must be greater than or equal to zero";
            errors.push(Error::invalid(
                &path.child("observedGeneration"),
                generation,
                fault,
            ));
        }
        if !condition.has("lastTransitionTime") {
            errors.push(Error::required(&path.child("lastTransitionTime"), ""));
        }
        let reason_path = path.child("reason");
        if reason.is_empty() {
            errors.push(Error::required(&reason_path, ""));
        } else if !is_reason(reason) {
            let form = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
            let fault = names::pattern(
                REASON,
                form,
                &[
                    "my_name",
                    "MY_NAME",
                    "MyName",
                    "ReasonA,ReasonB",
                    "ReasonA:ReasonB",
                ],
            );
            errors.push(Error::invalid(&reason_path, reason, fault));
        }
        if reason.len() > 1024 {
            errors.push(Error::too_long(&reason_path, 1024));
        }
        if condition.text("message").len() > 32 * 1024 {
            errors.push(Error::too_long(&path.child("message"), 32 * 1024));
        }
    }
}

fn is_reason(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(word)
        && text.chars().all(|c| word(c) || c == ',' || c == ':')
}

/// Adds an `Invalid value` error for each fault of a text.
pub(super) fn faults(errors: &mut Errors, path: &Path, value: &str, faults: Vec<String>) {
    errors.extend(
        faults
            .into_iter()
            .map(|fault| Error::invalid(path, value, fault)),
    );
}

/// Adds an `Invalid value` error for each fault of a number.
pub(super) fn number_faults(errors: &mut Errors, path: &Path, value: i64, faults: Vec<String>) {
    errors.extend(
        faults
            .into_iter()
            .map(|fault| Error::invalid(path, value, fault)),
    );
}

/// Validates that a text is not empty.
pub(super) fn required(errors: &mut Errors, path: &Path, value: &str) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    }
}

/// Validates that a text is not empty and passes `check`.
pub(super) fn required_name(errors: &mut Errors, path: &Path, value: &str, check: Check) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else {
        faults(errors, path, value, check(value));
    }
}

/// Validates an enum value.
pub(super) fn one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(Error::not_supported(path, value, supported));
    }
}

/// Validates an enum value that must not be empty.
pub(super) fn required_one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else {
        one_of(errors, path, value, supported);
    }
}

/// Validates an enum value, if it is set.
pub(super) fn optional_one_of(errors: &mut Errors, path: &Path, value: &Value, supported: &[&str]) {
    if let Some(value) = value.as_str() {
        one_of(errors, path, value, supported);
    }
}

pub(super) fn non_negative(errors: &mut Errors, path: &Path, value: i64) {
    if value < 0 {
        errors.push(Error::invalid(path, value, NEGATIVE));
    }
}

pub(super) fn positive(errors: &mut Errors, path: &Path, value: i64) {
    if value <= 0 {
        errors.push(Error::invalid(path, value, NOT_POSITIVE));
    }
}

/// Validates that a field did not change.
pub(super) fn immutable(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    errors.extend(meta::validate_immutable(new, old, path));
}

/// Validates a label selector.
pub(super) fn selector(errors: &mut Errors, path: &Path, selector: &Value) {
    let selector = Some(selector).filter(|selector| !selector.is_null());
    errors.extend(validate_label_selector(
        selector,
        InvalidValues::Refused,
        path,
    ));
}

/// Validates the keys and values of labels.
pub(super) fn labels(errors: &mut Errors, path: &Path, labels: &Value) {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(meta::validate_labels(labels, path));
}

/// Validates the keys and the total size of annotations.
pub(super) fn annotations(errors: &mut Errors, path: &Path, annotations: &Value) {
    let annotations = annotations.as_object().into_iter().flatten();
    let annotations =
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(meta::validate_annotations(annotations, path));
}

/// Validates a label key.
pub(super) fn label_name(errors: &mut Errors, path: &Path, name: &str) {
    faults(errors, path, name, names::qualified_name(name));
}

/// Validates a port number or a port name.
pub(super) fn port_number_or_name(errors: &mut Errors, path: &Path, port: &Value) {
    match port.as_str() {
        Some(name) => faults(errors, path, name, names::port_name(name)),
        None => {
            let number = port.as_i64().unwrap_or_default();
            number_faults(errors, path, number, names::port_number(number));
        }
    }
}

/// Validates a relative path that stays below its directory.
pub(super) fn descending_path(errors: &mut Errors, path: &Path, value: &str) {
    if value.starts_with('/') {
        errors.push(Error::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(errors, path, value);
}

/// Validates that a path has no `..` element.
pub(super) fn no_backsteps(errors: &mut Errors, path: &Path, value: &str) {
    if value.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(path, value, "must not contain '..'"));
    }
}

/// Validates a [`descending_path`] whose first element does not start with `..`: the kubelet's
/// atomic writer uses such names itself.
pub(super) fn unreserved_path(errors: &mut Errors, path: &Path, value: &str) {
    descending_path(errors, path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(Error::invalid(path, value, "must not start with '..'"));
    }
}

/// The items of a list of strings.
pub(super) fn texts<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object
        .items(key)
        .iter()
        .map(|item| item.as_str().unwrap_or_default())
}
