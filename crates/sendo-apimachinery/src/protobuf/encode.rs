//! From a JSON object to a message, byte for byte as Go's encoder writes it:
//! fields by number, and of what is no pointer the zero value too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::wire::Writer;
use crate::schema::{Field, Raw, SchemaRef, Shape};

/// Writes an object as the message of its type. Members that the type does not
/// have, or that protobuf does not carry, are left out.
pub(super) fn message(out: &mut Writer, schema: SchemaRef<'_>, object: &Value) {
    let empty = Map::new();
    let members = object.as_object().unwrap_or(&empty);
    let mut fields: Vec<&Field> = schema
        .fields()
        .iter()
        .filter(|field| !field.number.is_empty())
        .collect();
    fields.sort_by(|a, b| a.number.cmp(&b.number));
    write_fields(out, schema, &fields, 0, members);
}

/// Writes fields whose numbers begin alike up to `depth`: those of one message,
/// and of the messages in it whose fields JSON shows beside them.
fn write_fields(
    out: &mut Writer,
    schema: SchemaRef<'_>,
    fields: &[&Field],
    depth: usize,
    members: &Map<String, Value>,
) {
    for group in fields.chunk_by(|a, b| a.number[depth] == b.number[depth]) {
        let number = group[0].number[depth];
        match group {
            [field] if field.number.len() == depth + 1 => {
                let value = members
                    .get(field.name.as_ref())
                    .filter(|value| !value.is_null());
                write_field(out, number, schema.at(&field.schema), field, value);
            }
            inlined => out.message(number, |out| {
                write_fields(out, schema, inlined, depth + 1, members);
            }),
        }
    }
}

fn write_field(
    out: &mut Writer,
    number: u32,
    schema: SchemaRef<'_>,
    field: &Field,
    value: Option<&Value>,
) {
    match (schema.shape(), value) {
        (Shape::List(list), value) => {
            let items = value.and_then(Value::as_array).map(Vec::as_slice);
            for item in items.unwrap_or_default() {
                write_value(out, number, schema.at(&list.items), item);
            }
        }
        (Shape::Map(values), value) => {
            let entries = value.and_then(Value::as_object);
            for (key, value) in entries.into_iter().flatten() {
                out.message(number, |out| {
                    out.bytes(1, key.as_bytes());
                    if !(matches!(schema.at(values).shape(), Shape::Bytes) && value.is_null()) {
                        write_value(out, 2, schema.at(values), value);
                    }
                });
            }
        }
        (_, Some(value)) => write_value(out, number, schema, value),
        // No bytes are as good as none that were set.
        (Shape::Bytes, None) => {}
        (_, None) if field.pointer => {}
        (_, None) => write_value(out, number, schema, &Value::Null),
    }
}

/// Writes a single value: a field's, a list item's or a map entry's. Null is the zero value.
fn write_value(out: &mut Writer, number: u32, schema: SchemaRef<'_>, value: &Value) {
    match schema.shape() {
        Shape::Boolean => out.varint(number, u64::from(value.as_bool().unwrap_or(false))),
        Shape::Int32 | Shape::Int64 => out.varint(number, integer(value) as u64),
        Shape::Double => out.fixed64(number, value.as_f64().unwrap_or(0.0).to_bits()),
        Shape::Bytes => {
            let bytes = BASE64.decode(value.as_str().unwrap_or_default());
            out.bytes(number, &bytes.unwrap_or_default());
        }
        Shape::Quantity => {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => "0".to_owned(),
            };
            out.message(number, |out| out.bytes(1, text.as_bytes()));
        }
        Shape::IntOrString => out.message(number, |out| {
            let text = value.as_str();
            out.varint(1, u64::from(text.is_some()));
            out.varint(2, integer(value) as u64);
            out.bytes(3, text.unwrap_or_default().as_bytes());
        }),
        Shape::Time | Shape::MicroTime => out.message(number, |out| write_time(out, value)),
        Shape::Raw(raw) => match schema.nested_schema() {
            Some(schema) => out.message(number, |out| write_schema_or(out, *raw, schema, value)),
            None => out.message(number, |out| {
                if !value.is_null() {
                    out.bytes(1, value.to_string().as_bytes());
                }
            }),
        },
        Shape::Object(_) => out.message(number, |out| message(out, schema, value)),
        Shape::List(list) => out.message(number, |out| {
            for item in value.as_array().map(Vec::as_slice).unwrap_or_default() {
                write_value(out, 1, schema.at(&list.items), item);
            }
        }),
        Shape::String | Shape::Any | Shape::Map(_) | Shape::Reference(_) => {
            out.bytes(number, value.as_str().unwrap_or_default().as_bytes());
        }
    }
}

/// A whole number, as Go reads one that JSON shows with a point.
fn integer(value: &Value) -> i64 {
    let float = || value.as_f64().map(|number| number as i64);
    value.as_i64().or_else(float).unwrap_or(0)
}

/// Seconds and nanoseconds since 1970; nothing for a time that was never set.
fn write_time(out: &mut Writer, value: &Value) {
    let moment = value
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(moment) = moment {
        // Nanoseconds count forward, before 1970 too.
        let nanoseconds = moment.as_nanosecond().rem_euclid(1_000_000_000);
        let seconds = moment.as_nanosecond().div_euclid(1_000_000_000);
        out.varint(1, seconds as i64 as u64);
        out.varint(2, nanoseconds as u64);
    }
}

/// A schema, or what may stand in its place.
fn write_schema_or(out: &mut Writer, raw: Raw, schema: SchemaRef<'_>, value: &Value) {
    let nested = |out: &mut Writer, number| {
        if value.is_object() {
            out.message(number, |out| message(out, schema, value));
        }
    };
    if raw == Raw::SchemaOrBool {
        // A schema allows the fields that it has.
        let allows = value.as_bool().unwrap_or(value.is_object());
        out.varint(1, u64::from(allows));
        return nested(out, 2);
    }
    nested(out, 1);
    for item in value.as_array().map(Vec::as_slice).unwrap_or_default() {
        match item {
            Value::String(name) => out.bytes(2, name.as_bytes()),
            schema_item => out.message(2, |out| message(out, schema, schema_item)),
        }
    }
}
