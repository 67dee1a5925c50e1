//! Keywords that schemas of custom resources may not have, or only in places.

use serde_json::Value;

use super::rules;
use crate::field::{BadValue, Error, Path};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Checks the keywords of a whole schema.
pub(super) fn check(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    check_part(
        schema,
        SchemaContext {
            is_root: true,
            ..SchemaContext::default()
        },
        path,
        errors,
    );
}

/// Calls `visit` for every schema right inside another.
pub(super) fn each_part(schema: &Value, path: &Path, visit: &mut dyn FnMut(&Value, &Path)) {
    for name in ["additionalProperties", "not", "items"] {
        if let Some(part) = schema.get(name).filter(|part| part.is_object()) {
            visit(part, &path.child(name));
        }
    }
    for name in ["properties", "definitions"] {
        for (key, part) in schema
            .get(name)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            visit(part, &path.child(name).key(key));
        }
    }
    for name in ["allOf", "oneOf", "anyOf", "items"] {
        for (i, part) in list(schema.get(name)).iter().enumerate() {
            visit(part, &path.child(name).index(i));
        }
    }
}

/// What the checks of a schema need to know of the schemas around it.
#[derive(Clone, Default)]
struct SchemaContext {
    is_root: bool,
    inside_metadata: bool,
    /// Why there may be no defaults; none if there may be.
    no_defaults: Option<String>,
}

fn check_part(schema: &Value, context: SchemaContext, path: &Path, errors: &mut Vec<Error>) {
    check_unsupported(schema, &context, path, errors);
    if flag(schema, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), detail));
    }
    let has_properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|p| !p.is_empty());
    let additional = schema.get("additionalProperties").filter(|a| !a.is_null());
    if has_properties && additional.is_some_and(|a| *a != Value::Bool(true)) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(Error::forbidden(
            &path.child("additionalProperties"),
            detail,
        ));
    }
    check_parts(schema, &context, path, errors);
    check_extensions(schema, path, errors);
    rules::check(schema, path, errors);
}

fn check_parts(schema: &Value, context: &SchemaContext, path: &Path, errors: &mut Vec<Error>) {
    let below = SchemaContext {
        is_root: false,
        ..context.clone()
    };
    if let Some(part) = schema
        .get("additionalProperties")
        .filter(|part| part.is_object())
    {
        let mut below = below.clone();
        if context.inside_metadata {
            below.no_defaults =
                Some("inside additionalProperties applying to object metadata".to_owned());
        }
        check_part(part, below, &path.child("additionalProperties"), errors);
    }
    let is_resource = context.is_root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, part) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let mut below = below.clone();
        if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.inside_metadata = true;
            if context.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check_part(part, below, &path.child("properties").key(name), errors);
    }
    each_part(schema, path, &mut |part, part_path| {
        let text = part_path.to_string();
        let own = [path.child("properties"), path.child("additionalProperties")];
        if !own.iter().any(|own| text.starts_with(&own.to_string())) {
            check_part(part, below.clone(), part_path, errors);
        }
    });
}

fn check_unsupported(
    schema: &Value,
    context: &SchemaContext,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let type_name = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !type_name.is_empty() && !TYPES.contains(&type_name) {
        errors.push(Error::not_supported(&path.child("type"), type_name, &TYPES));
    }
    let present = |name: &str| schema.get(name).is_some_and(|value| !value.is_null());
    if present("default")
        && let Some(reason) = &context.no_defaults
    {
        errors.push(Error::forbidden(
            &path.child("default"),
            format!("must not be set {reason}"),
        ));
    }
    let filled = |name: &str| match schema.get(name) {
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        _ => false,
    };
    let unsupported = [
        ("id", filled("id")),
        ("additionalItems", present("additionalItems")),
        ("patternProperties", filled("patternProperties")),
        ("definitions", filled("definitions")),
        ("dependencies", present("dependencies")),
        ("$ref", present("$ref")),
    ];
    for (name, present) in unsupported {
        if present {
            errors.push(Error::forbidden(
                &path.child(name),
                format!("{name} is not supported"),
            ));
        }
    }
    if type_name == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), detail));
    }
    if !list(schema.get("items")).is_empty() {
        let detail = "items must be a schema object and not an array";
        errors.push(Error::forbidden(&path.child("items"), detail));
    }
    if context.inside_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(
            &path,
            "must not be used inside of resource meta",
        ));
    }
}

fn check_extensions(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(Error::invalid(
            &path.child(PRESERVE),
            false,
            "must be true or undefined",
        ));
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let type_name = text("type").unwrap_or_default();
    for (extension, wanted) in [(MAP_TYPE, "object"), (LIST_TYPE, "array")] {
        if text(extension).is_some() && type_name != wanted {
            let detail = format!("must be {wanted} if {extension} is specified");
            errors.push(match type_name {
                "" => Error::required(&path.child("type"), detail),
                name => Error::invalid(&path.child("type"), name, detail),
            });
        } else if extension == LIST_TYPE && text(LIST_TYPE) == Some("set") {
            errors.extend(check_set_items(schema.get("items"), &path.child("items")));
        }
        let choices: &[&str] = match extension {
            MAP_TYPE => &["atomic", "granular"],
            _ => &["atomic", "set", "map"],
        };
        if let Some(value) = text(extension)
            && !choices.contains(&value)
        {
            errors.push(Error::not_supported(&path.child(extension), value, choices));
        }
    }
    check_map_list(schema, path, errors);
}

fn check_set_items(items: Option<&Value>, path: &Path) -> Option<Error> {
    let items = items?;
    let text = |name: &str| items.get(name).and_then(Value::as_str);
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    match text("type") {
        Some("array") => {
            let list_type = text("x-kubernetes-list-type").filter(|t| *t != "atomic")?;
            Some(Error::invalid(
                &path.child("x-kubernetes-list-type"),
                list_type,
                detail,
            ))
        }
        Some("object") if text("x-kubernetes-map-type") != Some("atomic") => {
            // The list type is shown, not the map type: an object has none.
            let shown = text("x-kubernetes-list-type").map_or(Value::Null, Value::from);
            Some(Error::invalid(
                &path.child("x-kubernetes-map-type"),
                shown,
                detail,
            ))
        }
        _ => None,
    }
}

/// Lists of type `map` and their keys.
fn check_map_list(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys: Vec<&str> = list(schema.get(KEYS))
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !keys.is_empty() && list_type != Some("map") {
        let path = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(&path, detail),
            Some(other) => Error::invalid(&path, other, detail),
        });
    }
    let items = schema.get("items").filter(|items| items.is_object());
    let items_path = path.child("items");
    if list_type == Some("map") {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(Error::required(&path.child(KEYS), detail));
        }
        match items {
            None if schema.get("items").is_none_or(Value::is_null) => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(Error::required(&items_path, detail));
            }
            None => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                let shown = BadValue::Value(schema.get("items").cloned().unwrap_or_default());
                errors.push(Error::invalid(&items_path, shown, detail));
            }
            Some(items) => check_keys(items, &keys, path, errors),
        }
    }
    if let (Some(items), Some(kind @ ("set" | "map"))) = (items, list_type) {
        if flag(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            errors.push(Error::forbidden(&items_path.child("nullable"), detail));
        }
        if kind == "map" {
            check_key_properties(items, &keys, &items_path, errors);
        }
    }
}

fn check_keys(items: &Value, keys: &[&str], path: &Path, errors: &mut Vec<Error>) {
    let type_name = items
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let items_path = path.child("items");
    if type_name != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_path.child("type"), type_name, detail));
        return;
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    for (i, key) in keys.iter().enumerate() {
        match items
            .get("properties")
            .and_then(|properties| properties.get(key))
        {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(Error::invalid(&keys_path, keys.to_vec(), detail));
            }
            Some(property) => {
                if let Some("array" | "object") = property.get("type").and_then(Value::as_str) {
                    let path = items_path.child("properties").key(key).child("type");
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(Error::invalid(&path, type_name, detail));
                }
            }
        }
        if keys[..i].contains(key) {
            errors.push(Error::invalid(
                &keys_path,
                keys.to_vec(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// A key is always there, and never null.
fn check_key_properties(items: &Value, keys: &[&str], path: &Path, errors: &mut Vec<Error>) {
    let required = list(items.get("required"));
    for key in keys {
        let Some(property) = items
            .get("properties")
            .and_then(|properties| properties.get(key))
        else {
            continue;
        };
        let path = path.child("properties").key(key);
        let has_default = property
            .get("default")
            .is_some_and(|default| !default.is_null());
        if !has_default && !required.iter().any(|name| name == key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&path.child("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&path.child("nullable"), detail));
        }
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema
        .get(name)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn list(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
