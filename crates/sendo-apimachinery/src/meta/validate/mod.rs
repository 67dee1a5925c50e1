//! Validation of metadata that all kinds have in common.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Meta, OwnerReference};
use crate::field::{BadValue, Error, Path};
use crate::go_text::go_quote;
use crate::{GroupVersion, names};

/// The most bytes that all annotations of an object may have together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// How the metadata of a kind is validated.
#[derive(Clone, Copy, Debug)]
pub struct MetaRules {
    /// Whether objects of the kind live in namespaces.
    pub scope: Scope,
    /// What their names may be.
    pub name: names::Check,
    /// What their finalizers may be called.
    pub finalizers: FinalizerNames,
}

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each in one namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// Which finalizer names a kind takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerNames {
    /// Any qualified name: custom resources, and built-in kinds outside core's own checks.
    Any,
    /// Qualified names with a domain, and the three standard ones without.
    DomainOrStandard,
}

/// The members that are validated, all found in one pass: every write has its
/// metadata validated several times, and most of it is not there.
#[derive(Default)]
struct Members<'a> {
    generate_name: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
    generation: i64,
    creation_timestamp: Option<&'a Value>,
    deletion_timestamp: Option<&'a Value>,
    deletion_grace_period_seconds: Option<&'a Value>,
    has_labels: bool,
    has_annotations: bool,
    has_owners: bool,
    has_finalizers: bool,
    managed_fields: &'a [Value],
}

impl<'a> Members<'a> {
    fn from_meta(meta: Meta<'a>) -> Self {
        let mut members = Members::default();
        for (name, value) in meta.members.into_iter().flatten() {
            let text = || value.as_str().unwrap_or_default();
            match name.as_str() {
                "generateName" => members.generate_name = text(),
                "name" => members.name = text(),
                "namespace" => members.namespace = text(),
                "uid" => members.uid = text(),
                "resourceVersion" => members.resource_version = text(),
                "generation" => members.generation = value.as_i64().unwrap_or_default(),
                "creationTimestamp" => members.creation_timestamp = Some(value),
                "deletionTimestamp" => members.deletion_timestamp = Some(value),
                "deletionGracePeriodSeconds" => members.deletion_grace_period_seconds = Some(value),
                "labels" => members.has_labels = true,
                "annotations" => members.has_annotations = true,
                "ownerReferences" => members.has_owners = true,
                "finalizers" => members.has_finalizers = true,
                "managedFields" => {
                    members.managed_fields = value.as_array().map_or(&[], Vec::as_slice);
                }
                _ => {}
            }
        }
        members
    }
}

/// Checks the metadata of a new object at `path` (most often `metadata`).
pub fn validate_create(meta: Meta<'_>, rules: &MetaRules, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let own = Members::from_meta(meta);
    if !own.generate_name.is_empty() {
        let faults = names::generate_name(own.generate_name, rules.name);
        let path = path.child("generateName");
        errors.extend(invalid_each(&path, own.generate_name, faults));
    }
    if own.name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(Error::required(&path.child("name"), detail));
    } else {
        let faults = (rules.name)(own.name);
        errors.extend(invalid_each(&path.child("name"), own.name, faults));
    }
    errors.extend(validate_namespace(
        own.namespace,
        rules.scope,
        &path.child("namespace"),
    ));
    if own.generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(
            &path.child("generation"),
            own.generation,
            detail,
        ));
    }
    validate_parts(&mut errors, meta, &own, path);
    if own.has_finalizers {
        errors.extend(validate_finalizers(meta, &path.child("finalizers")));
    }
    validate_managed_fields(&mut errors, own.managed_fields, path);
    if own.has_finalizers && rules.finalizers == FinalizerNames::DomainOrStandard {
        errors.extend(validate_domains_of_finalizers(
            meta,
            &path.child("finalizers"),
        ));
    }
    errors
}

/// Labels, annotations and owners.
fn validate_parts(errors: &mut Vec<Error>, meta: Meta<'_>, own: &Members<'_>, path: &Path) {
    if own.has_labels {
        errors.extend(validate_labels(meta.labels(), &path.child("labels")));
    }
    if own.has_annotations {
        errors.extend(validate_annotations(
            meta.annotations(),
            &path.child("annotations"),
        ));
    }
    if own.has_owners {
        errors.extend(validate_owners(meta, &path.child("ownerReferences")));
    }
}

/// Checks the metadata of a changed object against what it was.
pub fn validate_update(
    new: Meta<'_>,
    old: Meta<'_>,
    finalizers: FinalizerNames,
    path: &Path,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let (own, was) = (Members::from_meta(new), Members::from_meta(old));
    if old.deletion_timestamp().is_some() {
        errors.extend(validate_no_new_finalizers(
            new,
            old,
            &path.child("finalizers"),
        ));
    }
    if own.resource_version.is_empty() {
        let detail = "must be specified for an update";
        errors.push(Error::invalid(&path.child("resourceVersion"), "", detail));
    }
    if own.generation < was.generation {
        let detail = "must not be decremented";
        errors.push(Error::invalid(
            &path.child("generation"),
            own.generation,
            detail,
        ));
    }
    for (member, new, old) in [
        ("name", own.name, was.name),
        ("namespace", own.namespace, was.namespace),
        ("uid", own.uid, was.uid),
    ] {
        if new != old {
            errors.push(immutable(new, &path.child(member)));
        }
    }
    for (member, new, old) in [
        (
            "creationTimestamp",
            own.creation_timestamp,
            was.creation_timestamp,
        ),
        (
            "deletionTimestamp",
            own.deletion_timestamp,
            was.deletion_timestamp,
        ),
        (
            "deletionGracePeriodSeconds",
            own.deletion_grace_period_seconds,
            was.deletion_grace_period_seconds,
        ),
    ] {
        let [new, old] = [new, old].map(|value| value.unwrap_or(&Value::Null));
        if new != old {
            errors.push(immutable(new.clone(), &path.child(member)));
        }
    }
    validate_parts(&mut errors, new, &own, path);
    validate_managed_fields(&mut errors, own.managed_fields, path);
    if own.has_finalizers && finalizers == FinalizerNames::DomainOrStandard {
        errors.extend(validate_domains_of_finalizers(
            new,
            &path.child("finalizers"),
        ));
    }
    errors
}

/// `field is immutable`, if the two values differ.
pub fn validate_immutable(new: &Value, old: &Value, path: &Path) -> Option<Error> {
    (new != old).then(|| immutable(new.clone(), path))
}

fn immutable(value: impl Into<BadValue>, path: &Path) -> Error {
    Error::invalid(path, value, "field is immutable")
}

fn validate_namespace(namespace: &str, scope: Scope, path: &Path) -> Vec<Error> {
    match (scope, namespace) {
        (Scope::Namespaced, "") => vec![Error::required(path, "")],
        (Scope::Namespaced, name) => invalid_each(path, name, names::dns1123_label(name)).collect(),
        (Scope::Cluster, "") => Vec::new(),
        (Scope::Cluster, _) => vec![Error::forbidden(path, "not allowed on this type")],
    }
}

/// Checks the keys and values of labels.
pub fn validate_labels<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &Path,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(invalid_each(path, key, names::qualified_name(key)));
        errors.extend(invalid_each(path, value, names::label_value(value)));
    }
    errors
}

/// Checks the keys of annotations (in lower case) and their size taken together.
pub fn validate_annotations<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &Path,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        errors.extend(invalid_each(
            path,
            key,
            names::qualified_name(&key.to_lowercase()),
        ));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(Error::too_long(path, ANNOTATIONS_LIMIT));
    }
    errors
}

fn validate_owners(meta: Meta<'_>, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in meta.owner_references() {
        errors.extend(validate_owner(&owner, path));
        if owner.controller != Some(true) {
            continue;
        }
        let this = format!("{}/{}", owner.kind, owner.name);
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let all: Vec<String> = meta.owner_references().map(|o| o.go_text()).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.push(Error::invalid(
                    path,
                    BadValue::Raw(format!("[{}]", all.join(","))),
                    detail,
                ));
            }
        }
    }
    errors
}

fn validate_owner(owner: &OwnerReference<'_>, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    // An unreadable version counts as none.
    let version = GroupVersion::parse(owner.api_version);
    if version.as_ref().is_none_or(|v| v.version.is_empty()) {
        let detail = "version must not be empty";
        errors.push(Error::invalid(
            &path.child("apiVersion"),
            owner.api_version,
            detail,
        ));
    }
    for (member, value) in [
        ("kind", owner.kind),
        ("name", owner.name),
        ("uid", owner.uid),
    ] {
        if value.is_empty() {
            errors.push(Error::invalid(
                &path.child(member),
                value,
                "must not be empty",
            ));
        }
    }
    if owner.api_version == "v1" && owner.kind == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid(path, BadValue::Raw(owner.go_text()), detail));
    }
    errors
}

fn validate_finalizers(meta: Meta<'_>, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    for finalizer in meta.finalizers() {
        errors.extend(invalid_each(
            path,
            finalizer,
            names::qualified_name(finalizer),
        ));
    }
    let has = |name| meta.finalizers().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let all: Vec<&str> = meta.finalizers().collect();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(path, all, detail));
    }
    errors
}

fn validate_domains_of_finalizers(meta: Meta<'_>, path: &Path) -> Vec<Error> {
    meta.finalizers()
        .enumerate()
        .filter(|(_, name)| {
            !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(name)
        })
        .map(|(i, name)| {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            Error::invalid(&path.index(i), name, detail)
        })
        .collect()
}

fn validate_no_new_finalizers(new: Meta<'_>, old: Meta<'_>, path: &Path) -> Option<Error> {
    let old: BTreeSet<&str> = old.finalizers().collect();
    let new: BTreeSet<&str> = new.finalizers().collect();
    let added: Vec<String> = new.difference(&old).map(|name| go_quote(name)).collect();
    if added.is_empty() {
        return None;
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    Some(Error::forbidden(path, detail))
}

fn validate_managed_fields(errors: &mut Vec<Error>, entries: &[Value], metadata: &Path) {
    for (i, entry) in entries.iter().enumerate() {
        let path = || metadata.child("managedFields").index(i);
        let text = |member| {
            entry
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (operation, form) = (text("operation"), text("fieldsType"));
        if !["Apply", "Update"].contains(&operation) {
            let detail = "must be `Apply` or `Update`";
            errors.push(Error::invalid(
                &path().child("operation"),
                operation,
                detail,
            ));
        }
        if !["", "FieldsV1"].contains(&form) {
            let detail = "must be `FieldsV1`";
            errors.push(Error::invalid(&path().child("fieldsType"), form, detail));
        }
        errors.extend(validate_field_manager(
            text("manager"),
            &path().child("manager"),
        ));
        if text("subresource").len() > 256 {
            errors.push(Error::too_long(&path().child("subresource"), 256));
        }
    }
}

/// Checks the name of a field manager: at most 128 bytes, all printable.
pub fn validate_field_manager(manager: &str, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    if manager.len() > 128 {
        errors.push(Error::too_long(path, 128));
    }
    for (i, c) in manager.char_indices() {
        if !crate::go_text::is_printable(c) {
            let detail = format!("invalid character U+{:04X} (at position {i})", c as u32);
            errors.push(Error::invalid(path, manager, detail));
        }
    }
    errors
}

fn invalid_each<'a>(
    path: &'a Path,
    value: &'a str,
    faults: Vec<String>,
) -> impl Iterator<Item = Error> + 'a {
    faults
        .into_iter()
        .map(move |fault| Error::invalid(path, value, fault))
}

#[cfg(test)]
mod tests;
