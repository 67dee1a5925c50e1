//! What makes a schema structural.

use crate::field::{Error, Path};
use crate::structural::{Additional, Structural};

/// The faults of a schema that is not structural, sorted by their texts.
pub(super) fn check(schema: &Structural, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    check_schema(schema, Level::Root, path, &mut errors);
    check_complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(Error::to_string);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn check_schema(schema: &Structural, level: Level, path: &Path, errors: &mut Vec<Error>) {
    if schema.type_name == "array" && schema.items.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = &schema.items {
        check_schema(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        check_schema(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    let additional = path.child("additionalProperties");
    if schema.additional_properties.is_some() && level == Level::Root {
        errors.push(Error::forbidden(
            &additional,
            "must not be used at the root",
        ));
    }
    if let Some(Additional::Schema(schema)) = &schema.additional_properties {
        check_schema(schema, Level::Field, &additional, errors);
    }
    check_extensions(schema, path, errors);
    check_nested_parts(schema, path, errors);
    check_type(schema, level, path, errors);
    if schema.embedded_resource && schema.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&additional, detail));
    }
    check_metadata(schema, level, &path.child("properties"), errors);
    if schema.embedded_resource && !schema.preserve_unknown_fields && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

fn check_type(schema: &Structural, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let path = path.child("type");
    let name = schema.type_name.as_str();
    if schema.embedded_resource && name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match name {
            "" => Error::required(&path, detail),
            name => Error::invalid(&path, name, detail),
        });
    } else if name.is_empty() && !schema.int_or_string && !schema.preserve_unknown_fields {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&path, detail));
    }
    if level == Level::Root && !name.is_empty() && name != "object" {
        errors.push(Error::invalid(&path, name, "must be object at the root"));
    }
}

fn check_extensions(schema: &Structural, path: &Path, errors: &mut Vec<Error>) {
    if !schema.int_or_string {
        return;
    }
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.preserve_unknown_fields {
        errors.push(Error::invalid(
            &path.child("x-kubernetes-preserve-unknown-fields"),
            true,
            detail,
        ));
    }
    if schema.embedded_resource {
        errors.push(Error::invalid(
            &path.child("x-kubernetes-embedded-resource"),
            true,
            detail,
        ));
    }
}

/// Kind, version and metadata, where a schema describes a whole object.
fn check_metadata(schema: &Structural, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let whole = level == Level::Root || schema.embedded_resource;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(name)
            && whole
            && property.type_name != "string"
        {
            let path = path.key(name).child("type");
            errors.push(Error::invalid(
                &path,
                property.type_name.as_str(),
                "must be string",
            ));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else {
        return;
    };
    let path = path.key("metadata");
    if whole && metadata.type_name != "object" {
        let path = path.child("type");
        errors.push(Error::invalid(
            &path,
            metadata.type_name.as_str(),
            "must be object",
        ));
    }
    if level == Level::Root {
        let mut rest = Structural {
            type_name: String::new(),
            default: None,
            ..metadata.clone()
        };
        if rest
            .properties
            .keys()
            .all(|name| name == "name" || name == "generateName")
        {
            rest.properties.clear();
        }
        if rest != Structural::default() {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(Error::forbidden(&path, detail));
        }
    }
}

/// The parts under `allOf` and its like, which may only constrain.
fn check_nested_parts(schema: &Structural, path: &Path, errors: &mut Vec<Error>) {
    let constraints = &schema.constraints;
    if !is_int_or_string(&constraints.any_of) {
        for (i, part) in constraints.any_of.iter().enumerate() {
            check_nested(part, &path.child("anyOf").index(i), errors);
        }
    }
    for (i, part) in constraints.all_of.iter().enumerate() {
        let path = path.child("allOf").index(i);
        if i == 0 && is_int_or_string(&part.constraints.any_of) {
            let mut part = part.clone();
            part.constraints.any_of.clear();
            check_nested(&part, &path, errors);
        } else {
            check_nested(part, &path, errors);
        }
    }
    for (i, part) in constraints.one_of.iter().enumerate() {
        check_nested(part, &path.child("oneOf").index(i), errors);
    }
    if let Some(part) = &constraints.not {
        check_nested(part, &path.child("not"), errors);
    }
}

/// Whether alternatives are just `integer` and `string`, in that order.
fn is_int_or_string(parts: &[Structural]) -> bool {
    let of_type = |name: &str| Structural {
        type_name: name.to_owned(),
        ..Structural::default()
    };
    parts == [of_type("integer"), of_type("string")]
}

fn check_nested(part: &Structural, path: &Path, errors: &mut Vec<Error>) {
    check_all_nested(part, path, errors);
    if let Some(items) = &part.items {
        check_nested(items, &path.child("items"), errors);
    }
    for (name, property) in &part.properties {
        check_nested(property, &path.child("properties").key(name), errors);
    }
    let empty = "must be empty to be structural";
    let undefined = "must be undefined to be structural";
    let not_set = "must be false to be structural";
    let additional = !matches!(
        part.additional_properties,
        None | Some(Additional::Allowed(false))
    );
    let forbidden = [
        ("type", !part.type_name.is_empty(), empty),
        ("additionalProperties", additional, undefined),
        ("default", part.default.is_some(), undefined),
        ("title", !part.title.is_empty(), empty),
        ("description", !part.description.is_empty(), empty),
        ("nullable", part.nullable, not_set),
        (
            "x-kubernetes-preserve-unknown-fields",
            part.preserve_unknown_fields,
            not_set,
        ),
        (
            "x-kubernetes-embedded-resource",
            part.embedded_resource,
            not_set,
        ),
        ("x-kubernetes-int-or-string", part.int_or_string, not_set),
        (
            "x-kubernetes-list-map-keys",
            !part.list_map_keys.is_empty(),
            empty,
        ),
        (
            "x-kubernetes-list-type",
            part.list_type.is_some(),
            undefined,
        ),
        ("x-kubernetes-map-type", part.map_type.is_some(), undefined),
        (
            "x-kubernetes-validations",
            !part.validations.is_empty(),
            empty,
        ),
    ];
    for (name, present, detail) in forbidden {
        if present {
            errors.push(Error::forbidden(&path.child(name), detail));
        }
    }
    if part.properties.contains_key("metadata") {
        let path = path.child("properties").key("metadata");
        errors.push(Error::forbidden(
            &path,
            "must not be specified in a nested context",
        ));
    }
}

/// The parts of a part; the shortcut for numbers or texts is for schemas only.
fn check_all_nested(part: &Structural, path: &Path, errors: &mut Vec<Error>) {
    let constraints = &part.constraints;
    let lists = [
        ("anyOf", &constraints.any_of),
        ("allOf", &constraints.all_of),
        ("oneOf", &constraints.one_of),
    ];
    for (name, parts) in lists {
        for (i, part) in parts.iter().enumerate() {
            check_nested(part, &path.child(name).index(i), errors);
        }
    }
    if let Some(part) = &constraints.not {
        check_nested(part, &path.child("not"), errors);
    }
}

/// What parts at the root constrain must be described outside of them.
///
/// `part` is the schema whose parts are looked at, at `part_path`; `schema` is
/// what the schema itself says of the same place, at `path`.
fn check_complete(
    part: &Structural,
    schema: Option<&Structural>,
    path: &Path,
    part_path: &Path,
    errors: &mut Vec<Error>,
) {
    let constraints = &part.constraints;
    let mut visit = |nested: &Structural, nested_path: Path| {
        check_part_complete(nested, schema, path, &nested_path, errors);
    };
    if let Some(nested) = &constraints.not {
        visit(nested, part_path.child("not"));
    }
    let lists = [
        ("allOf", &constraints.all_of),
        ("anyOf", &constraints.any_of),
        ("oneOf", &constraints.one_of),
    ];
    for (name, parts) in lists {
        for (i, nested) in parts.iter().enumerate() {
            visit(nested, part_path.child(name).index(i));
        }
    }
}

fn check_part_complete(
    part: &Structural,
    schema: Option<&Structural>,
    path: &Path,
    part_path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(schema) = schema else {
        errors.push(Error::required(
            path,
            format!("because it is defined in {part_path}"),
        ));
        return;
    };
    check_complete(part, Some(schema), path, part_path, errors);
    if let Some(items) = &part.items {
        let below = schema.items.as_deref();
        check_part_complete(
            items,
            below,
            &path.child("items"),
            &part_path.child("items"),
            errors,
        );
    }
    for (name, property) in &part.properties {
        let below = schema.properties.get(name);
        let path = path.child("properties").key(name);
        let part_path = part_path.child("properties").key(name);
        check_part_complete(property, below, &path, &part_path, errors);
    }
}
