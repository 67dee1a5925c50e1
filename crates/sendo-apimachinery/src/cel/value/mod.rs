//! The values that expressions work on.
//!
//! What comes from an object is looked at where it is: a rule over one field of
//! a large object touches no other.

mod authorization;
mod compare;
mod json;
mod list;
mod made;
mod map;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use base64::{DecodeError, Engine as _};
use jiff::Timestamp;
use serde_json::Value as Json;

pub use authorization::{Account, Authorization, Check, CheckTarget, Decision, ResourceCheck};
pub(super) use compare::Comparison;
pub use list::List;
pub use made::{JSON_PATCH, Made, OBJECT};
pub(super) use made::{field_type, is_made};
pub use map::{Key, Map};

use super::eval::Fault;
use super::library::convert;
use super::library::format::NamedFormat;
use super::library::semver::Version;
use super::library::url::Url;
use crate::addresses::Cidr;
use crate::quantity::Quantity;
use crate::structural::Structural;

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(List<'a>),
    /// A map, or an object.
    Map(Map<'a>),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A type, by its name.
    Kind(&'static str),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// An amount of a resource.
    Quantity(Arc<Quantity>),
    /// An address.
    Ip(IpAddr),
    /// A range of addresses.
    Cidr(Cidr),
    /// A URL.
    #[doc(hidden)]
    Url(Arc<Url>),
    /// A version.
    #[doc(hidden)]
    Semver(Arc<Version>),
    /// A named format.
    #[doc(hidden)]
    Format(NamedFormat),
    /// What a schema keeps without saying anything of it.
    #[doc(hidden)]
    Preserved(&'a Json),
    /// The authoriser, a question to it, or its answer.
    Authorization(Arc<Authorization>),
    /// An object that the expression has made.
    Made(Arc<Made<'a>>),
    /// The composed variables, each of which is evaluated where it is first used.
    #[doc(hidden)]
    Composed,
}

/// A text, borrowed if it can be.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Of an object or an expression.
    Borrowed(&'a str),
    /// Made while an expression ran.
    Owned(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Text::Owned(text.into()))
    }
}

impl<'a> Value<'a> {
    /// The value that a rule sees of JSON under a schema.
    pub fn from_json(json: &'a Json, schema: &'a Structural) -> Result<Value<'a>, Fault> {
        let wrong = |expected: &str| {
            let found = match json {
                Json::Bool(_) => "bool",
                Json::Number(number) if number.is_f64() => "float64",
                Json::Number(_) => "int64",
                Json::String(_) => "string",
                Json::Array(_) => "[]interface {}",
                Json::Object(_) => "map[string]interface {}",
                Json::Null => "<nil>",
            };
            Fault::new(format!("invalid data, expected {expected}, got {found}"))
        };
        if json.is_null() {
            if schema.nullable {
                return Ok(Value::Null);
            }
            let text = "invalid data, got null for schema with nullable=false";
            return Err(Fault::new(text));
        }
        if schema.int_or_string {
            return match json {
                Json::String(text) => Ok(text.as_str().into()),
                Json::Number(number) if number.is_i64() => {
                    Ok(Value::Int(number.as_i64().unwrap_or(0)))
                }
                _ => Err(Fault::new(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            };
        }
        match (schema.type_name.as_str(), json) {
            ("object", Json::Object(members)) => Ok(Value::Map(Map::object(members, schema))),
            ("object", _) => Err(Fault::new(
                "invalid data, expected a map for the provided schema with type=object",
            )),
            ("array", Json::Array(items)) => Ok(Value::List(List::of_json(items, schema))),
            ("array", _) => Err(Fault::new(
                "invalid data, expected an array for the provided schema with type=array",
            )),
            ("string", Json::String(text)) => formatted(text, &schema.constraints.format),
            ("string", _) => Err(wrong("string")),
            ("number", Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or(0.0))),
            ("number", _) => Err(wrong("float")),
            ("integer", Json::Number(number)) => {
                number.as_i64().map(Value::Int).ok_or_else(|| wrong("int"))
            }
            ("integer", _) => Err(wrong("int")),
            ("boolean", Json::Bool(value)) => Ok(Value::Bool(*value)),
            ("boolean", _) => Err(wrong("bool")),
            (_, json) if schema.preserve_unknown_fields => Ok(Value::Preserved(json)),
            (other, _) => Err(Fault::new(format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {other}"
            ))),
        }
    }

    /// A list of values.
    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::of_values(items))
    }

    /// An optional that holds a value.
    pub(crate) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The name of its type, without what it holds.
    pub fn type_name(&self) -> &'static str {
        self.kind()
    }

    /// The name of its type.
    pub(super) fn kind(&self) -> &'static str {
        use super::functions::{CIDR, FORMAT, IP, QUANTITY, SEMVER, URL};
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Kind(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => QUANTITY,
            Value::Ip(_) => IP,
            Value::Cidr(_) => CIDR,
            Value::Url(_) => URL,
            Value::Semver(_) => SEMVER,
            Value::Format(_) => FORMAT,
            Value::Preserved(_) => "unknown",
            Value::Authorization(value) => value.kind(),
            Value::Made(made) if *made.name == *JSON_PATCH => JSON_PATCH,
            Value::Made(_) => OBJECT,
            Value::Composed => super::COMPOSED,
        }
    }
}

/// A text as its format means it.
fn formatted<'a>(text: &'a str, format: &str) -> Result<Value<'a>, Fault> {
    let invalid = |what: &str| Fault::new(format!("Invalid {what} {text}: parsing error"));
    match format {
        "duration" => convert::parse_schema_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| invalid("duration")),
        "date" => format!("{text}T00:00:00Z")
            .parse()
            .map(Value::Timestamp)
            .map_err(|_| invalid("date formatted string")),
        "date-time" => convert::parse_schema_time(text)
            .map(Value::Timestamp)
            .ok_or_else(|| invalid("date-time formatted string")),
        // Validation wants the standard alphabet, and this the other: `+` and `/` pass neither.
        "byte" => match base64::engine::general_purpose::URL_SAFE.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(error) => {
                let at = match error {
                    DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => text.len(),
                };
                Err(Fault::new(format!(
                    "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
                )))
            }
        },
        _ => Ok(text.into()),
    }
}
