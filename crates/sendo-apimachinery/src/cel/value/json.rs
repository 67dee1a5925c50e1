//! Values of JSON that no schema describes, and values as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Members, Value as Json};

use super::{List, Map, Value};
use crate::cel::library::convert;

/// The largest whole number that a double holds exactly, and all below it.
const LARGEST_EXACT: i64 = 1 << 53;

impl<'a> Value<'a> {
    /// The value of JSON whose type is known only when an expression runs: fields are keys, with
    /// their own names.
    pub fn untyped(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Int(number),
                (None, Some(number)) => Value::Uint(number),
                (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => text.as_str().into(),
            Json::Array(items) => Value::List(List::untyped(items)),
            Json::Object(members) => Value::Map(Map::Untyped(members)),
        }
    }

    /// The value as JSON, or why it has no such form.
    pub fn to_json(&self) -> Result<Json, String> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(number) => Json::from(*number),
            Value::Uint(number) => Json::from(*number),
            Value::Double(number) => whole_or_double(*number)?,
            Value::Text(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
            Value::List(list) => {
                let items = list.values().map_err(|fault| fault.to_string())?;
                let items = items.iter().map(Value::to_json);
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let mut members = Members::new();
                for entry in map.entries() {
                    let (key, value) = entry.map_err(|fault| fault.to_string())?;
                    let Some(key) = convert::scalar_text(&key) else {
                        return Err(format!("unsupported key type: {}", key.kind()));
                    };
                    members.insert(key, value.to_json()?);
                }
                Json::Object(members)
            }
            Value::Made(made) => {
                let fields = made.fields.iter();
                let fields = fields.map(|(name, value)| Ok((name.clone(), value.to_json()?)));
                Json::Object(fields.collect::<Result<_, String>>()?)
            }
            Value::Optional(Some(inner)) => inner.to_json()?,
            Value::Optional(None) => Json::Null,
            Value::Preserved(json) => (*json).clone(),
            Value::Quantity(quantity) => Json::from(quantity.to_string()),
            Value::Duration(_) | Value::Timestamp(_) | Value::Ip(_) | Value::Cidr(_) => {
                Json::from(convert::scalar_text(self).unwrap_or_default())
            }
            other => return Err(format!("unsupported type: {}", other.kind())),
        })
    }
}

/// JSON knows no difference between a double that is whole and a whole number.
fn whole_or_double(number: f64) -> Result<Json, String> {
    if number.fract() == 0.0 && number.abs() <= LARGEST_EXACT as f64 {
        return Ok(Json::from(number as i64));
    }
    let number = serde_json::Number::from_f64(number);
    let number = number.ok_or("numbers that are not finite have no form in JSON")?;
    Ok(Json::Number(number))
}
