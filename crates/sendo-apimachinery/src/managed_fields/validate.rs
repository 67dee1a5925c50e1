//! Whether a value fits its type, as an apply demands of what is applied.

use serde_json::Value;

use super::place::{ListOf, MapOf, Place, Scalar, Shaped};
use crate::go_text::{go_quote, go_value};
use crate::schema::SchemaRef;

/// Whether an item of a set or keyed list may be there twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    Refused,
    Allowed,
}

/// Checks a value against a schema; the faults as one text.
pub(super) fn check(value: &Value, schema: SchemaRef<'_>, repeats: Repeats) -> Result<(), String> {
    let mut faults = Faults {
        repeats,
        path: String::new(),
        found: Vec::new(),
    };
    faults.check(value, Place::root(schema));
    match faults.found.as_slice() {
        [] => Ok(()),
        [fault] => Err(fault.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

struct Faults {
    repeats: Repeats,
    path: String,
    found: Vec<String>,
}

impl Faults {
    fn add(&mut self, fault: String) {
        self.found.push(match self.path.as_str() {
            "" => fault,
            path => format!("{path}: {fault}"),
        });
    }

    fn below(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let outer = self.path.len();
        self.path.push_str(step);
        check(self);
        self.path.truncate(outer);
    }

    fn check(&mut self, value: &Value, place: Place<'_>) {
        if value.is_null() {
            return;
        }
        match place.shaped(Some(value)) {
            Shaped::Scalar(scalar) => self.check_scalar(value, scalar),
            Shaped::List(list) => self.check_list(value, &list),
            Shaped::Map(map) => self.check_map(value, &map),
        }
    }

    fn check_scalar(&mut self, value: &Value, scalar: Scalar) {
        let fault = match scalar {
            Scalar::Number if !value.is_number() => {
                format!("expected numeric (int or float), got {}", go_type(value))
            }
            Scalar::Text if !value.is_string() => format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            ),
            Scalar::Boolean if !value.is_boolean() => {
                format!("expected boolean, got &{{{}}}", go_value(value))
            }
            Scalar::Any if value.is_array() || value.is_object() => {
                format!("expected any scalar, got &{{{}}}", go_value(value))
            }
            _ => return,
        };
        self.add(fault);
    }

    fn check_list(&mut self, value: &Value, list: &ListOf<'_>) {
        let Value::Array(items) = value else {
            return self.add(format!("expected list, got &{{{}}}", go_value(value)));
        };
        let mut seen = std::collections::BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if list.is_atomic() {
                self.below(&format!("[{i}]"), |faults| faults.check(item, list.items));
                continue;
            }
            let element = match list.element(item) {
                Ok(element) => element,
                Err(error) => return self.add(format!("element {i}: {error}")),
            };
            let step = element.to_string();
            if !seen.insert(element) && self.repeats == Repeats::Refused {
                self.add(format!("duplicate entries for key {step}"));
            }
            self.below(&step, |faults| faults.check(item, list.items));
        }
    }

    fn check_map(&mut self, value: &Value, map: &MapOf<'_>) {
        let Value::Object(members) = value else {
            return self.add(format!("expected map, got &{{{}}}", go_value(value)));
        };
        for (name, member) in members {
            let known = map.member(name);
            let stop = known.is_none();
            self.below(&format!(".{name}"), |faults| match known {
                Some(known) => faults.check(member, known.place),
                None => faults.add("field not declared in schema".to_owned()),
            });
            if stop {
                return;
            }
        }
    }
}

/// The name of the Go type that a JSON value is read into.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go's `%#v` writes it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(k, v)| format!("{}:{}", go_quote(k), go_syntax(v)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => go_value(other),
    }
}
