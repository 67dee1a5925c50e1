//! Maps and objects as CEL values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Text, Value};
use crate::cel::escape::{escape, unescape};
use crate::cel::eval::Fault;
use crate::structural::{Additional, Structural};

/// A map, or an object of a schema.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Members of an object, as its schema sees them.
    Json(&'a serde_json::Map<String, Json>, &'a Structural),
    /// Members of an object without a schema.
    Untyped(&'a serde_json::Map<String, Json>),
    /// Entries that were made while an expression ran.
    Entries(Arc<BTreeMap<Key, Value<'a>>>),
}

/// A key of a map. Whole numbers are one key, whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// True or false.
    Bool(bool),
    /// A number; the flag says whether it was given as one that is never negative.
    Number(i128),
    /// A text.
    Text(Arc<str>),
}

impl Key {
    /// The key that a value is; none if no map can have it.
    pub(in crate::cel) fn from_value(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(number) => Key::Number(i128::from(*number)),
            Value::Uint(number) => Key::Number(i128::from(*number)),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e18 => {
                Key::Number(*number as i128)
            }
            Value::Text(text) => Key::Text(Arc::from(&**text)),
            _ => return None,
        })
    }

    fn value<'a>(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Number(number) => match i64::try_from(*number) {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Uint(*number as u64),
            },
            Key::Text(text) => Value::Text(Text::Owned(text.clone())),
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn object(
        members: &'a serde_json::Map<String, Json>,
        schema: &'a Structural,
    ) -> Self {
        Map::Json(members, schema)
    }

    /// How many entries it has, those without a schema included.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(members, _) | Map::Untyped(members) => members.len(),
            Map::Entries(entries) => entries.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field or key, by the name that expressions use.
    pub fn get(&self, name: &str) -> Option<Result<Value<'a>, Fault>> {
        match self {
            Map::Json(_, schema) if !schema.properties.is_empty() => self.member(&unescape(name)?),
            Map::Json(..) | Map::Untyped(_) => self.member(name),
            Map::Entries(entries) => entries.get(&Key::Text(Arc::from(name))).cloned().map(Ok),
        }
    }

    /// The value of a member, by the name it has in the object.
    pub(crate) fn member(&self, name: &str) -> Option<Result<Value<'a>, Fault>> {
        match self {
            Map::Json(members, schema) => {
                let value = members.get(name)?;
                if value.is_null() && !schema.properties.is_empty() {
                    return None;
                }
                Some(Value::from_json(value, member_schema(schema, name)?))
            }
            Map::Untyped(members) => members.get(name).map(|value| Ok(Value::untyped(value))),
            Map::Entries(_) => self.get(name),
        }
    }

    /// The value of any key.
    pub(in crate::cel) fn find(&self, key: &Value<'_>) -> Option<Result<Value<'a>, Fault>> {
        match (self, key) {
            (_, Value::Text(name)) => self.get(name),
            (Map::Json(..), _) => Some(Err(Fault::no_such_overload())),
            (Map::Untyped(_), _) => None,
            (Map::Entries(entries), key) => entries.get(&Key::from_value(key)?).cloned().map(Ok),
        }
    }

    /// All keys that expressions can name, in order.
    pub(in crate::cel) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json(members, schema) => members
                .iter()
                .filter(|(name, _)| member_schema(schema, name).is_some())
                .map(|(name, _)| match escape(name) {
                    Some(escaped) if !schema.properties.is_empty() => escaped.into(),
                    _ => name.as_str().into(),
                })
                .collect(),
            Map::Untyped(members) => members.keys().map(|name| name.as_str().into()).collect(),
            Map::Entries(entries) => entries.keys().map(Key::value).collect(),
        }
    }

    /// All entries that expressions can see, in the order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = Result<(Value<'a>, Value<'a>), Fault>> + '_ {
        self.keys().into_iter().filter_map(|key| {
            let value = self.find(&key)?;
            Some(value.map(|value| (key, value)))
        })
    }

    /// The members that the schema says nothing of.
    pub(super) fn unknown(&self, name: &str) -> Option<&'a Json> {
        match self {
            Map::Json(members, schema) if member_schema(schema, name).is_none() => {
                members.get(name)
            }
            _ => None,
        }
    }
}

fn member_schema<'a>(schema: &'a Structural, name: &str) -> Option<&'a Structural> {
    if !schema.properties.is_empty() {
        return schema.properties.get(name);
    }
    match &schema.additional_properties {
        Some(Additional::Schema(values)) => Some(values),
        _ => None,
    }
}
