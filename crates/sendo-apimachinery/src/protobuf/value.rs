//! Single values, and the types with an encoding of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::Error;
use super::wire::{Content, Reader};
use crate::schema::{Raw, SchemaRef, Shape};

/// The second at which Go's zero time lies: the first of the year 1.
const ZERO_TIME: i64 = -62_135_596_800;

/// Decodes values down to a depth.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    pub(super) depth: usize,
}

impl Decoder {
    /// One message deeper.
    pub(super) fn below(self) -> Result<Self, Error> {
        let depth = self.depth.checked_sub(1).ok_or(Error::Depth)?;
        Ok(Self { depth })
    }

    /// A single value: a field's, a list item's or a map entry's.
    pub(super) fn value(
        self,
        schema: SchemaRef<'_>,
        name: &str,
        content: Content<'_>,
    ) -> Result<Value, Error> {
        Ok(match (schema.shape(), content) {
            (Shape::Boolean, Content::Varint(number)) => json!(number != 0),
            // Narrower numbers are cut, as Go's decoder does.
            (Shape::Int32, Content::Varint(number)) => json!(number as i32),
            (Shape::Int64, Content::Varint(number)) => json!(number as i64),
            (Shape::Double, Content::Fixed64(bits)) => double(f64::from_bits(bits), name)?,
            (Shape::String, Content::Bytes(bytes)) => json!(String::from_utf8_lossy(bytes)),
            (Shape::Bytes, Content::Bytes(bytes)) => json!(BASE64.encode(bytes)),
            (Shape::Quantity, Content::Bytes(bytes)) => quantity(bytes, name)?,
            (Shape::IntOrString, Content::Bytes(bytes)) => int_or_string(bytes, name)?,
            (Shape::Time, Content::Bytes(bytes)) => time(bytes, name)?,
            (Shape::MicroTime, Content::Bytes(bytes)) => micro_time(bytes, name)?,
            (Shape::Raw(raw), Content::Bytes(bytes)) => match schema.nested_schema() {
                Some(schema) => self.schema_or(*raw, schema, bytes, name)?,
                None => raw_json(bytes, name)?,
            },
            (Shape::Object(_), Content::Bytes(bytes)) => {
                let mut object = Map::new();
                self.message(schema, &[], bytes, &mut object)?;
                Value::Object(object)
            }
            // Protobuf has no lists of lists: the inner one is a message's first field.
            (Shape::List(list), Content::Bytes(bytes)) => {
                let mut items = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((number, content)) = reader.field()? {
                    if number == 1 {
                        self.items(schema.at(&list.items), name, content, &mut items)?;
                    }
                }
                Value::Array(items)
            }
            _ => return Err(unexpected(name, content)),
        })
    }

    /// A map's value that the bytes leave out.
    pub(super) fn empty(self, schema: SchemaRef<'_>) -> Value {
        match schema.shape() {
            Shape::Bytes => json!(""),
            _ => Value::Null,
        }
    }

    /// A schema, or what may stand in its place; JSON shows whichever is set.
    fn schema_or(
        self,
        raw: Raw,
        schema_type: SchemaRef<'_>,
        bytes: &[u8],
        name: &str,
    ) -> Result<Value, Error> {
        let below = self.below()?;
        let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
        let mut reader = Reader::new(bytes);
        while let Some((number, content)) = reader.field()? {
            match (raw, number, content) {
                (Raw::SchemaOrBool, 1, Content::Varint(number)) => allows = number != 0,
                (Raw::SchemaOrBool, 2, content) | (_, 1, content) => {
                    schema = Some(below.value(schema_type, name, content)?);
                }
                (Raw::SchemaOrList, 2, content) => {
                    list.push(below.value(schema_type, name, content)?);
                }
                (_, 2, Content::Bytes(bytes)) => list.push(json!(String::from_utf8_lossy(bytes))),
                (_, 2, other) => return Err(unexpected(name, other)),
                _ => {}
            }
        }
        Ok(match (raw, schema) {
            (Raw::SchemaOrBool, None) => json!(allows),
            (_, schema) if list.is_empty() => schema.unwrap_or(Value::Null),
            _ => Value::Array(list),
        })
    }
}

/// A field whose wire type does not fit.
pub(super) fn unexpected(name: &str, content: Content<'_>) -> Error {
    Error::WireType {
        wire_type: content.wire_type(),
        field: name.to_owned(),
    }
}

fn invalid(name: &str, reason: impl ToString) -> Error {
    Error::Value {
        field: name.to_owned(),
        reason: reason.to_string(),
    }
}

/// Go shows a whole number without a point.
fn double(number: f64, name: &str) -> Result<Value, Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return Ok(json!(number as i64));
    }
    let number = Number::from_f64(number);
    number
        .map(Value::Number)
        .ok_or_else(|| invalid(name, "a number without a value"))
}

fn quantity(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let mut text = json!("0");
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.field()? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => text = json!(String::from_utf8_lossy(bytes)),
            (1, other) => return Err(unexpected(name, other)),
            _ => {}
        }
    }
    Ok(text)
}

fn int_or_string(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let (mut is_text, mut number_value, mut text) = (0, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.field()? {
        match (number, content) {
            (1, Content::Varint(number)) => is_text = number,
            (2, Content::Varint(number)) => number_value = number as i32,
            (3, Content::Bytes(bytes)) => text = String::from_utf8_lossy(bytes).into_owned(),
            (1..=3, other) => return Err(unexpected(name, other)),
            _ => {}
        }
    }
    match is_text {
        0 => Ok(json!(number_value)),
        1 => Ok(json!(text)),
        _ => Err(invalid(name, "impossible IntOrString.Type")),
    }
}

/// Seconds and nanoseconds since 1970; none for a time that was never set.
fn timestamp(bytes: &[u8], name: &str) -> Result<Option<(i64, i32)>, Error> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.field()? {
        match (number, content) {
            (1, Content::Varint(number)) => seconds = number as i64,
            (2, Content::Varint(number)) => nanoseconds = number as i32,
            (1 | 2, other) => return Err(unexpected(name, other)),
            _ => {}
        }
    }
    Ok((!bytes.is_empty() && seconds != ZERO_TIME).then_some((seconds, nanoseconds)))
}

fn time(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let Some((seconds, _)) = timestamp(bytes, name)? else {
        return Ok(Value::Null);
    };
    let moment = Timestamp::new(seconds, 0).map_err(|error| invalid(name, error))?;
    Ok(json!(moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

fn micro_time(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let Some((seconds, nanoseconds)) = timestamp(bytes, name)? else {
        return Ok(Value::Null);
    };
    let nanoseconds = nanoseconds - nanoseconds % 1000;
    let moment = Timestamp::new(seconds, nanoseconds).map_err(|error| invalid(name, error))?;
    Ok(json!(moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()))
}

/// JSON in a message's first field; none at all shows as null.
fn raw_json(bytes: &[u8], name: &str) -> Result<Value, Error> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, content)) = reader.field()? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => raw = bytes,
            (1, other) => return Err(unexpected(name, other)),
            _ => {}
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|error| invalid(name, error))
}
