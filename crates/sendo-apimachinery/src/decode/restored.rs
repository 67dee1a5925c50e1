//! Values that Kubernetes puts into its structs without going through JSON text,
//! as it does with the outcome of a strategic merge patch, and why it could not.

use serde_json::Value;

use super::document::{Document, Numbers};
use super::scalars::{self, ScalarError};
use crate::schema::{GoName, SchemaRef, Shape};

const NUMBER_AS_TEXT: &str = "cannot convert int64 to string";

/// Why a value cannot become one of its type; the first reason in the order of declaration.
pub(super) fn fault(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    match (schema.shape(), value) {
        (_, Value::Null) | (Shape::Any | Shape::Raw(_), _) => None,
        (Shape::Object(object), Value::Object(members)) => object.declared().find_map(|field| {
            let member = members.get(field.name.as_ref())?;
            let inner = schema.at(&field.schema);
            let fault = fault(member, inner)?;
            let of_text = fault == NUMBER_AS_TEXT && matches!(inner.shape(), Shape::String);
            Some(match named_type(schema, &field.name).filter(|_| of_text) {
                Some(name) => format!("cannot convert int64 to {name}"),
                None => fault,
            })
        }),
        (Shape::Object(_), other) => Some(format!("cannot restore struct from: {}", kind(other))),
        (Shape::Map(values), Value::Object(members)) => members
            .values()
            .find_map(|member| fault(member, schema.at(values))),
        (Shape::Map(_), other) => Some(format!("cannot restore map from {}", kind(other))),
        (Shape::List(list), Value::Array(items)) => items
            .iter()
            .find_map(|item| fault(item, schema.at(&list.items))),
        (Shape::List(_), other) => Some(format!("cannot restore slice from {}", kind(other))),
        (shape, value) => scalar(shape, value),
    }
}

fn scalar(shape: &Shape, value: &Value) -> Option<String> {
    let go_type = match shape {
        Shape::Boolean => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Double => "float64",
        Shape::String => "string",
        _ => return read_by_itself(shape, value),
    };
    match (shape, value) {
        (Shape::Boolean, Value::Bool(_)) | (Shape::String, Value::String(_)) => None,
        (Shape::Int32 | Shape::Int64 | Shape::Double, Value::Number(number)) => {
            let fraction = number.as_f64().is_some_and(|number| number.fract() != 0.0);
            let whole = !matches!(shape, Shape::Double);
            (whole && fraction).then(|| format!("cannot convert float64 to {go_type}"))
        }
        // Go would turn the number into the character of that code, which this refuses.
        (Shape::String, Value::Number(number)) if !number.is_f64() => {
            Some(NUMBER_AS_TEXT.to_owned())
        }
        _ => Some(format!("unrecognized type: {go_type}")),
    }
}

/// Amounts, times, bytes and the like, which Go has read from JSON after all.
fn read_by_itself(shape: &Shape, value: &Value) -> Option<String> {
    let document = Document::from_value(value.clone(), Numbers::Plain);
    match scalars::read(shape, &document.root().look()) {
        Ok(_) => None,
        Err(ScalarError::Unreadable(error)) if matches!(shape, Shape::Bytes) => {
            Some(format!("error decoding from json: {error}"))
        }
        Err(ScalarError::Unreadable(error)) => Some(error),
        Err(ScalarError::UnreadableType { value, go_type }) => Some(format!(
            "json: cannot unmarshal {value} into Go value of type {go_type}"
        )),
        Err(ScalarError::WrongType { .. }) => {
            Some(format!("cannot restore slice from {}", kind(value)))
        }
    }
}

/// The name of a field's type, where it is text by another name.
fn named_type(schema: SchemaRef<'_>, field: &str) -> Option<&'static str> {
    let id = schema.type_id()?;
    GoName::for_field(&schema.types().name(id), field).go_type
}

/// What Go's reflection calls a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Types;

    #[test]
    fn the_first_value_of_a_wrong_type_is_reported() {
        let types = Types::builtin();
        let pod = types.kind("v1", "Pod").unwrap();
        let spec = |spec: Value| fault(&json!({ "spec": spec }), pod);
        let error = |text: &str| Some(text.to_owned());
        assert_eq!(
            spec(json!({"containers": [{"name": "c", "image": null}]})),
            None
        );
        assert_eq!(spec(json!(5)), error("cannot restore struct from: int64"));
        assert_eq!(
            spec(json!({"containers": {}})),
            error("cannot restore slice from map")
        );
        assert_eq!(
            spec(json!({"nodeSelector": "x"})),
            error("cannot restore map from string")
        );
        assert_eq!(
            spec(json!({"nodeName": 5})),
            error("cannot convert int64 to string")
        );
        assert_eq!(
            spec(json!({"nodeName": true})),
            error("unrecognized type: string")
        );
        assert_eq!(
            spec(json!({"hostNetwork": "yes"})),
            error("unrecognized type: bool")
        );
        assert_eq!(
            spec(json!({"priority": "1"})),
            error("unrecognized type: int32")
        );
        assert_eq!(
            spec(json!({"priority": 1.5})),
            error("cannot convert float64 to int32")
        );
        assert_eq!(
            spec(json!({"restartPolicy": 5, "nodeName": 5})),
            error("cannot convert int64 to v1.RestartPolicy")
        );
        let amount = fault(&json!({"spec": {"overhead": {"cpu": "x"}}}), pod).unwrap();
        assert!(amount.starts_with("quantities must match"), "{amount}");
        let secret = types.kind("v1", "Secret").unwrap();
        assert_eq!(
            fault(&json!({"data": {"k": "!"}}), secret),
            error("error decoding from json: illegal base64 data at input byte 0")
        );
    }
}
