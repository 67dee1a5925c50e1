//! Validates the `openAPIV3Schema` of a custom resource definition.
//!
//! Follows Kubernetes 1.36: `k8s.io/apiextensions-apiserver`,
//! `pkg/apis/apiextensions/validation/validation.go`.

mod expressions;
mod keywords;
mod rules;
mod structural_form;

use serde_json::Value;

use crate::field::{Error, Path};
use crate::schema::Types;
use crate::structural::{Part, Pattern, Structural};

/// What the validation of a schema depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether the version has a status subresource, which limits what the root may say.
    pub status_subresource: bool,
}

/// Checks an `openAPIV3Schema` at `path` and reads it.
///
/// Rules in CEL are compiled and priced once everything around them is sound.
pub fn check(
    schema: &Value,
    options: CheckOptions,
    types: &Types,
    path: &Path,
) -> Result<Structural, Vec<Error>> {
    let structural = Structural::from_json(schema);
    let mut errors = Vec::new();
    if options.status_subresource {
        errors.extend(check_root_with_status(schema, path));
    }
    if structural.nullable {
        // Kubernetes reports the path as one name here.
        errors.push(Error::forbidden(
            &path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unreadable = unreadable(schema);
    let mut sound = false;
    if unreadable.is_none() {
        let mut faults = structural_form::check(&structural, path);
        check_patterns(schema, path, &mut faults);
        if faults.is_empty() {
            check_defaults(&structural, Part::Resource, false, types, path, &mut faults);
        } else {
            faults.sort_by_key(Error::to_string);
        }
        sound = faults.is_empty();
        errors.extend(faults);
    }
    let before = errors.len();
    keywords::check(schema, path, &mut errors);
    if sound {
        let rules = expressions::check(&structural, path, &errors[before..]);
        errors.extend(rules);
    }
    if errors.is_empty() {
        errors.extend(unreadable.map(|detail| Error::invalid(path, "", detail)));
    }
    if errors.is_empty() {
        Ok(structural)
    } else {
        Err(errors)
    }
}

/// The keywords that may stand at the root beside a status subresource, as Kubernetes lists them.
const ROOT_KEYWORDS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
    ),
    ("x-kubernetes-validations", "XValidations"),
];

fn check_root_with_status(schema: &Value, path: &Path) -> Option<Error> {
    let members = schema.as_object()?;
    if let Some(name) = members.get("type").and_then(Value::as_str)
        && name != "object"
    {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(Error::invalid(&path.child("type"), name, detail));
    }
    let known = |name: &String| ROOT_KEYWORDS.iter().any(|(keyword, _)| keyword == name);
    if members.keys().all(known) {
        return None;
    }
    let names: Vec<&str> = ROOT_KEYWORDS.iter().map(|(_, name)| *name).collect();
    let detail = format!(
        "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
        names.join(" ")
    );
    Some(Error::invalid(path, schema.clone(), detail))
}

/// Why a schema cannot be read as a structural one, if it has keywords that those never have.
///
/// Most of them are reported elsewhere, with their path.
fn unreadable(schema: &Value) -> Option<String> {
    let filled = |name: &str| match schema.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(members)) => !members.is_empty() || name == "additionalItems",
        Some(_) => true,
    };
    let keywords = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = keywords.into_iter().find(|(keyword, _)| filled(keyword)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema
        .get("items")
        .and_then(Value::as_array)
        .is_some_and(|items| !items.is_empty())
    {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let detail =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(detail.to_owned());
    }
    let mut found = None;
    keywords::each_part(schema, &Path::root(), &mut |part, _| {
        found = found.take().or_else(|| unreadable(part));
    });
    found
}

/// Patterns that do not compile, anywhere in a schema.
fn check_patterns(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = Pattern::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, detail));
    }
    keywords::each_part(schema, path, &mut |part, path| {
        check_patterns(part, path, errors)
    });
}

/// Defaults that the schema itself would refuse.
fn check_defaults(
    schema: &Structural,
    part: Part,
    inside_metadata: bool,
    types: &Types,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let is_resource = schema.holds_metadata(part);
    let inside_metadata = inside_metadata && !schema.embedded_resource;
    if let Some(default) = &schema.default {
        errors.extend(check_default(
            schema,
            default,
            part,
            inside_metadata,
            types,
            path,
        ));
    }
    if let Some(items) = &schema.items {
        let path = path.child("items");
        check_defaults(items, Part::Value, inside_metadata, types, &path, errors);
    }
    for (name, property) in &schema.properties {
        let is_metadata =
            is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let path = path.child("properties").key(name);
        let inside_metadata = inside_metadata || is_metadata;
        check_defaults(property, Part::Value, inside_metadata, types, &path, errors);
    }
}

fn check_default(
    schema: &Structural,
    default: &Value,
    part: Part,
    inside_metadata: bool,
    types: &Types,
    path: &Path,
) -> Vec<Error> {
    let path = path.child("default");
    let mut errors = Vec::new();
    if !inside_metadata {
        let mut pruned = default.clone();
        schema.prune(&mut pruned, part);
        if pruned != *default {
            errors.push(Error::invalid(
                &path,
                default.clone(),
                "must not have unknown fields",
            ));
        }
        let mut typed = default.clone();
        if let Err(error) = schema.type_metadata(&mut typed, part, types) {
            errors.push(error);
            return errors;
        }
        let faults = schema.validate_metadata(&typed, part, &path);
        if !faults.is_empty() {
            errors.extend(faults);
            return errors;
        }
    }
    errors.extend(schema.validate(default, None, &path));
    errors
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
