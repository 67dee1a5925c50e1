//! Checks that many kinds share, each adding what it finds to a list.
//!
//! The texts are Kubernetes' own: people and programs compare them.

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::{self, FinalizerNames, Meta, MetaRules, Scope};
use sendo_apimachinery::names::{self, Check};
use sendo_apimachinery::selector::{InvalidValues, validate_label_selector};
use serde_json::Value;

use super::value::Read;

pub(super) type Errors = Vec<Error>;

const NEGATIVE: &str = "must be greater than or equal to 0";
const NOT_POSITIVE: &str = "must be greater than zero";

/// The ports of the Internet.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Metadata of a new object whose name passes `name`.
pub(super) fn new_metadata(object: &Value, scope: Scope, name: Check) -> Errors {
    let rules = MetaRules {
        scope,
        name,
        finalizers: FinalizerNames::DomainOrStandard,
    };
    meta::validate_create(Meta::of(object), &rules, &Path::new("metadata"))
}

/// Metadata of a changed object.
pub(super) fn changed_metadata(new: &Value, old: &Value) -> Errors {
    let finalizers = FinalizerNames::DomainOrStandard;
    meta::validate_update(
        Meta::of(new),
        Meta::of(old),
        finalizers,
        &Path::new("metadata"),
    )
}

/// One `Invalid value` for each fault of a text.
pub(super) fn faults(errors: &mut Errors, path: &Path, value: &str, faults: Vec<String>) {
    errors.extend(
        faults
            .into_iter()
            .map(|fault| Error::invalid(path, value, fault)),
    );
}

/// One `Invalid value` for each fault of a number.
pub(super) fn number_faults(errors: &mut Errors, path: &Path, value: i64, faults: Vec<String>) {
    errors.extend(
        faults
            .into_iter()
            .map(|fault| Error::invalid(path, value, fault)),
    );
}

/// A text that must be there.
pub(super) fn required(errors: &mut Errors, path: &Path, value: &str) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    }
}

/// A text that must be there and pass `check`.
pub(super) fn required_name(errors: &mut Errors, path: &Path, value: &str, check: Check) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else {
        faults(errors, path, value, check(value));
    }
}

/// One of a few texts.
pub(super) fn one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(Error::not_supported(path, value, supported));
    }
}

/// One of a few texts, which must be there.
pub(super) fn required_one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else {
        one_of(errors, path, value, supported);
    }
}

/// One of a few texts, if it is there.
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

/// A member that must stay what it was.
pub(super) fn immutable(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    errors.extend(meta::validate_immutable(new, old, path));
}

/// A label selector.
pub(super) fn selector(errors: &mut Errors, path: &Path, selector: &Value) {
    let selector = Some(selector).filter(|selector| !selector.is_null());
    errors.extend(validate_label_selector(
        selector,
        InvalidValues::Refused,
        path,
    ));
}

/// Keys and values of labels.
pub(super) fn labels(errors: &mut Errors, path: &Path, labels: &Value) {
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(meta::validate_labels(labels, path));
}

/// Keys and size of annotations.
pub(super) fn annotations(errors: &mut Errors, path: &Path, annotations: &Value) {
    let annotations = annotations.as_object().into_iter().flatten();
    let annotations =
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(meta::validate_annotations(annotations, path));
}

/// The key of a label.
pub(super) fn label_name(errors: &mut Errors, path: &Path, name: &str) {
    faults(errors, path, name, names::qualified_name(name));
}

/// A port given by number or name.
pub(super) fn port_number_or_name(errors: &mut Errors, path: &Path, port: &Value) {
    match port.as_str() {
        Some(name) => faults(errors, path, name, names::port_name(name)),
        None => {
            let number = port.as_i64().unwrap_or_default();
            number_faults(errors, path, number, names::port_number(number));
        }
    }
}

/// A path below the directory it is read in.
pub(super) fn descending_path(errors: &mut Errors, path: &Path, value: &str) {
    if value.starts_with('/') {
        errors.push(Error::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(errors, path, value);
}

/// A path that never leads upwards.
pub(super) fn no_backsteps(errors: &mut Errors, path: &Path, value: &str) {
    if value.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(path, value, "must not contain '..'"));
    }
}

/// A [`descending_path`] whose first part does not start with `..`, which writers of volumes keep for themselves.
pub(super) fn unreserved_path(errors: &mut Errors, path: &Path, value: &str) {
    descending_path(errors, path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(Error::invalid(path, value, "must not start with '..'"));
    }
}

/// Reading a list of texts.
pub(super) fn texts<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object
        .items(key)
        .iter()
        .map(|item| item.as_str().unwrap_or_default())
}
