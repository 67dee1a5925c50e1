//! Elements of paths to fields.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::go_text::{go_float, go_json, go_quote, write_json, write_json_string};

/// One step of a path to a field.
///
/// Displays as conflicts show it: `.spec`, `[name="a"]`, `[="x"]`, `[3]`.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A member of an object.
    Field(String),
    /// An item of a list, by the members that identify it, sorted by name.
    Key(Vec<(String, Value)>),
    /// An item of a set.
    Value(Value),
    /// An item by its place.
    Index(i64),
}

impl PathElement {
    /// A member of an object.
    pub fn field(name: impl Into<String>) -> Self {
        PathElement::Field(name.into())
    }

    /// An item of a list, by the members that identify it.
    pub fn key(mut members: Vec<(String, Value)>) -> Self {
        members.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(members)
    }

    /// Its text as a member's name in `fieldsV1`: `f:spec`, `k:{"name":"a"}`.
    pub fn to_name(&self) -> String {
        match self {
            PathElement::Field(name) => ["f:", name].concat(),
            PathElement::Key(members) => {
                let mut name = "k:{".to_owned();
                for (member, value) in members {
                    if name.len() > 3 {
                        name.push(',');
                    }
                    write_json_string(&mut name, member);
                    name.push(':');
                    write_json(&mut name, value);
                }
                name.push('}');
                name
            }
            PathElement::Value(value) => format!("v:{}", go_json(value)),
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads such a text. `Ok(None)` for a kind of step that is not known, which is passed over.
    pub(super) fn from_name(name: &str) -> Result<Option<Self>, String> {
        if name.len() < 2 {
            return Err("key must be 2 characters long:".to_owned());
        }
        let Some((kind, rest)) = name.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
            return Err(format!("missing colon: {name}"));
        };
        let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| e.to_string());
        Ok(Some(match kind {
            "f" => PathElement::Field(rest.to_owned()),
            "v" => PathElement::Value(json(rest)?),
            "k" => match json(rest)? {
                Value::Object(members) => PathElement::Key(members.into_iter().collect()),
                _ => return Err("a key must be an object".to_owned()),
            },
            "i" => PathElement::Index(rest.parse().map_err(|_| format!("invalid index: {rest}"))?),
            _ => return Ok(None),
        }))
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.cmp(b),
            (PathElement::Key(a), PathElement::Key(b)) => {
                let pairs = a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)));
                pairs
                    .fold(Ordering::Equal, Ordering::then)
                    .then(a.len().cmp(&b.len()))
            }
            (PathElement::Value(a), PathElement::Value(b)) => compare(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(members) => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("{name}={}", text(value)))
                    .collect();
                write!(f, "[{}]", members.join(","))
            }
            PathElement::Value(value) => write!(f, "[={}]", text(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect(),
    }
}

/// The order of values: numbers, texts, booleans, lists, objects, null.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => {
                let float = |n: &serde_json::Number| n.as_f64().unwrap_or(f64::MAX);
                float(a).total_cmp(&float(b))
            }
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
            pairs
                .fold(Ordering::Equal, Ordering::then)
                .then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)));
            pairs
                .fold(Ordering::Equal, Ordering::then)
                .then(a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Whether two values are the same; `1` and `1.0` are.
pub(super) fn equals(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equals(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((an, a), (bn, b))| an == bn && equals(a, b))
        }
        _ => a == b,
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
