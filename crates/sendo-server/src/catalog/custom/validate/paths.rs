//! Validation of the JSON paths of a definition: of its scale subresource, columns and selectable
//! fields.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`:
//!   `ValidateCustomResourceDefinitionSubresources`, `ValidateCustomResourceColumnDefinition`,
//!   `ValidateCustomResourceSelectableFields`, `validateSimpleJSONPath`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`:
//!   `ValidFieldPath`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::structural::Structural;
use serde_json::Value;

use crate::catalog::custom::text;

/// The maximum number of selectable fields of a version.
const SELECTABLE_LIMIT: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// Validates a simple JSON path that starts at the root of the object.
fn simple(path: &Path, text: &str) -> Option<Error> {
    (!text.starts_with('.'))
        .then(|| Error::invalid(path, text, "must be a simple json path starting with ."))
}

pub(super) fn validate_subresources(version: &Value, path: &Path) -> Vec<Error> {
    let Some(scale) = version["subresources"]
        .get("scale")
        .filter(|scale| !scale.is_null())
    else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for (member, root) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let path = path.child(&format!("scale.{member}"));
        let own = text(&scale[member]);
        if own.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if let Some(error) = simple(&path, own) {
            errors.push(error);
        } else if !own.starts_with(&format!("{root}.")) {
            errors.push(Error::invalid(
                &path,
                own,
                format!("should be a json path under {root}"),
            ));
        }
    }
    let selector = text(&scale["labelSelectorPath"]);
    if !selector.is_empty() {
        let path = path.child("scale.labelSelectorPath");
        if let Some(error) = simple(&path, selector) {
            errors.push(error);
        } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
            let why = "should be a json path under either .spec or .status";
            errors.push(Error::invalid(&path, selector, why));
        }
    }
    errors
}

pub(super) fn validate_columns(version: &Value, path: &Path) -> Vec<Error> {
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut errors = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let path = path.index(i);
        if text(&column["name"]).is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let kind = text(&column["type"]);
        let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
        if kind.is_empty() {
            errors.push(Error::required(&path.child("type"), one_of(&COLUMN_TYPES)));
        } else if !COLUMN_TYPES.contains(&kind) {
            errors.push(Error::invalid(
                &path.child("type"),
                kind,
                one_of(&COLUMN_TYPES),
            ));
        }
        let format = text(&column["format"]);
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            errors.push(Error::invalid(
                &path.child("format"),
                format,
                one_of(&COLUMN_FORMATS),
            ));
        }
        let json_path = text(&column["jsonPath"]);
        let json_path_path = path.child("JSONPath");
        if json_path.is_empty() {
            errors.push(Error::required(&json_path_path, ""));
        } else {
            errors.extend(simple(&json_path_path, json_path));
        }
    }
    errors
}

pub(super) fn validate_selectable(version: &Value, path: &Path) -> Vec<Error> {
    let fields = version["selectableFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let schema = Structural::from_json(&version["schema"]["openAPIV3Schema"]);
    let mut errors = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let json_path_path = path.index(i).child("jsonPath");
        let own = text(&field["jsonPath"]);
        if own.is_empty() {
            errors.push(Error::required(&json_path_path, ""));
            continue;
        }
        match resolve(&schema, own) {
            Err(why) => errors.push(Error::invalid(
                &json_path_path,
                own,
                format!("is an invalid path: {why}"),
            )),
            Ok(found) if !["string", "boolean", "integer"].contains(&found.type_name.as_str()) => {
                let why = "must point to a field of type string, boolean or integer. \
                           Enum string fields and strings with formats are allowed.";
                errors.push(Error::invalid(&json_path_path, own, why));
            }
            Ok(_) if fields[..i].iter().any(|other| other["jsonPath"] == own) => {
                errors.push(Error::duplicate(&json_path_path, own));
            }
            Ok(_) => {}
        }
    }
    if fields.len() > SELECTABLE_LIMIT {
        errors.push(Error::too_many(path, fields.len(), SELECTABLE_LIMIT));
    }
    errors
}

/// The schema of the field at a path of members.
fn resolve<'s>(schema: &'s Structural, path: &str) -> Result<&'s Structural, String> {
    let Some(members) = path.strip_prefix('.') else {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {first}"));
    };
    if members.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    let unknown = || "does not refer to a valid field".to_owned();
    if members.split('.').next() == Some("metadata") {
        return Err(unknown());
    }
    members.split('.').try_fold(schema, |schema, name| {
        schema.member(name).ok_or_else(unknown)
    })
}
