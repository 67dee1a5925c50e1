//! Whether a value fits its type, as an apply demands of what is applied.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::element::PathElement;
use super::type_ref::{ListOf, MapOf, Scalar, Shaped, TypeRef};
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
        path: Vec::new(),
        found: Vec::new(),
    };
    faults.check(value, TypeRef::root(schema));
    match faults.found.as_slice() {
        [] => Ok(()),
        [fault] => Err(fault.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

struct Faults<'v> {
    repeats: Repeats,
    path: Vec<Step<'v>>,
    found: Vec<String>,
}

/// From a value to one that it holds.
enum Step<'v> {
    Member(&'v str),
    Item(usize),
    Element(PathElement),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Member(name) => write!(f, ".{name}"),
            Step::Item(index) => write!(f, "[{index}]"),
            Step::Element(element) => element.fmt(f),
        }
    }
}

impl<'v> Faults<'v> {
    fn add(&mut self, fault: String) {
        let path: String = self.path.iter().map(Step::to_string).collect();
        self.found.push(match path.as_str() {
            "" => fault,
            path => format!("{path}: {fault}"),
        });
    }

    fn check_below(&mut self, step: Step<'v>, value: &'v Value, type_ref: TypeRef<'_>) {
        self.path.push(step);
        self.check(value, type_ref);
        self.path.pop();
    }

    fn check(&mut self, value: &'v Value, type_ref: TypeRef<'_>) {
        if value.is_null() {
            return;
        }
        match type_ref.shaped(Some(value)) {
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

    fn check_list(&mut self, value: &'v Value, list: &ListOf<'_>) {
        let Value::Array(items) = value else {
            return self.add(format!("expected list, got &{{{}}}", go_value(value)));
        };
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if list.is_atomic() {
                self.check_below(Step::Item(i), item, list.items);
                continue;
            }
            let element = match list.element(item) {
                Ok(element) => element,
                Err(error) => return self.add(format!("element {i}: {error}")),
            };
            if self.repeats == Repeats::Refused && !seen.insert(element.clone()) {
                self.add(format!("duplicate entries for key {element}"));
            }
            self.check_below(Step::Element(element), item, list.items);
        }
    }

    fn check_map(&mut self, value: &'v Value, map: &MapOf<'_>) {
        let Value::Object(members) = value else {
            return self.add(format!("expected map, got &{{{}}}", go_value(value)));
        };
        for (name, member) in members {
            let step = Step::Member(name);
            match map.member(name) {
                Some(known) => self.check_below(step, member, known.type_ref),
                None => {
                    self.path.push(step);
                    self.add("field not declared in schema".to_owned());
                    self.path.pop();
                    return;
                }
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
