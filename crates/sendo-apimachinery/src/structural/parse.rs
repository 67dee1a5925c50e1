//! Reads structural schemas from JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Additional, Constraints, Pattern, Structural};

impl Structural {
    /// Reads an `openAPIV3Schema`. What is no structural schema is passed over:
    /// [`definition_schema::check`](crate::definition_schema::check()) is for those not checked before.
    ///
    /// A pattern that does not compile is left out.
    pub fn from_json(schema: &Value) -> Self {
        let text = |name| {
            schema
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let flag = |name| {
            schema
                .get(name)
                .and_then(Value::as_bool)
                .unwrap_or_default()
        };
        let optional = |name| schema.get(name).and_then(Value::as_str).map(str::to_owned);
        Structural {
            type_name: text("type"),
            description: text("description"),
            title: text("title"),
            nullable: flag("nullable"),
            default: schema
                .get("default")
                .filter(|default| !default.is_null())
                .cloned(),
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(boxed),
            properties: schemas_by_name(schema.get("properties")),
            additional_properties: match schema.get("additionalProperties") {
                Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
                Some(schema @ Value::Object(_)) => Some(Additional::Schema(boxed(schema))),
                _ => None,
            },
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_type: optional("x-kubernetes-list-type"),
            list_map_keys: texts(schema.get("x-kubernetes-list-map-keys")),
            map_type: optional("x-kubernetes-map-type"),
            validations: list(schema.get("x-kubernetes-validations")).to_vec(),
            constraints: Constraints::from_json(schema),
        }
    }
}

impl Constraints {
    fn from_json(schema: &Value) -> Self {
        let number = |name| schema.get(name).and_then(Value::as_f64);
        let whole = |name| schema.get(name).and_then(Value::as_i64);
        let flag = |name| {
            schema
                .get(name)
                .and_then(Value::as_bool)
                .unwrap_or_default()
        };
        let schemas = |name| {
            list(schema.get(name))
                .iter()
                .map(Structural::from_json)
                .collect()
        };
        let text = |name| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        Constraints {
            format: text("format").to_owned(),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: whole("maxLength"),
            min_length: whole("minLength"),
            pattern: Some(text("pattern"))
                .filter(|p| !p.is_empty())
                .and_then(|p| Pattern::new(p).ok()),
            max_items: whole("maxItems"),
            min_items: whole("minItems"),
            max_properties: whole("maxProperties"),
            min_properties: whole("minProperties"),
            required: texts(schema.get("required")),
            allowed: list(schema.get("enum")).to_vec(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(boxed),
        }
    }
}

fn boxed(schema: &Value) -> Box<Structural> {
    Box::new(Structural::from_json(schema))
}

fn list(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    list(value)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn schemas_by_name(value: Option<&Value>) -> BTreeMap<String, Structural> {
    let schemas = value.and_then(Value::as_object).into_iter().flatten();
    schemas
        .map(|(name, schema)| (name.clone(), Structural::from_json(schema)))
        .collect()
}
