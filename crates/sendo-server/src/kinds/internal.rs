//! Prints objects as Kubernetes' error messages do: by its internal Go types, not by its API types.
//!
//! Internal types have Go field names in their own order, and all fields are printed, set or not.
//! `internal.txt` has one line for each type: its name, then its fields as `Name:kind`.
//! `Name=member` names the API field where it is not `Name` in lower camel case, and `=^member` one
//! that is a level higher in the API. Kinds are `s`tring, `b`oolean, `i`nteger, `q`uantity, `p`ort,
//! `?` for a field that is null unless set, a type, `*`type that may be null, and `[`type for
//! lists.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/types.go`
//! - `pkg/apis/batch/types.go`
//! - `pkg/apis/certificates/types.go`
//! - `pkg/apis/resource/types.go`
//! - `staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go`: `ErrorBody`

use std::collections::BTreeMap;

use sendo_apimachinery::field::BadValue;
use sendo_apimachinery::meta;
use sendo_apimachinery::{go_json, go_quote};
use serde_json::Value;

use super::diff;
use super::value::Read;

/// The kind of embedded object metadata, whose fields are printed among those of the embedding
/// type.
const METADATA: &str = "meta";

const TYPES: &str = include_str!("internal.txt");

/// An object of the internal type `name` as the bad value of an error, on one line.
pub(super) fn bad_value(name: &str, value: &Value) -> BadValue {
    BadValue::Raw(text(name, value))
}

/// Prints an object of the internal type `name` on one line. `*name` is a type that may be null.
pub(super) fn text(name: &str, value: &Value) -> String {
    let mut text = String::new();
    Types::read().shape(name, value).write(&mut text);
    text
}

/// Prints an object of the internal type `name`, one field per line, indented by one space. `[name`
/// is a list.
fn lines(name: &str, value: &Value) -> Vec<String> {
    let mut lines = Lines::default();
    Types::read().shape(name, value).write_lines(&mut lines, "");
    lines.0
}

/// The diff between two objects of the internal type `name`.
pub(super) fn difference(name: &str, old: &Value, new: &Value) -> String {
    diff::unified(&lines(name, old), &lines(name, new))
}

/// A value with ordered members.
enum Shape<'a> {
    Plain(&'a Value),
    Text(&'static str),
    List(Vec<Shape<'a>>),
    Members(Vec<(&'a str, Shape<'a>)>),
}

struct Types<'a>(BTreeMap<&'a str, Vec<Member<'a>>>);

#[derive(Clone, Copy)]
struct Member<'a> {
    name: &'a str,
    source: Source<'a>,
    kind: &'a str,
}

/// Where a field is found in the API object.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Under its own name with a lowercase first character.
    SameName,
    Named(&'a str),
    OfParent(&'a str),
}

impl Types<'static> {
    fn read() -> Self {
        let types = TYPES.lines().filter_map(|line| {
            let (name, members) = line.split_once(' ')?;
            Some((name, members.split(' ').filter_map(member).collect()))
        });
        Types(types.collect())
    }

    fn shape<'a>(&self, name: &str, value: &'a Value) -> Shape<'a> {
        self.of_kind(name, value, &Value::Null)
    }

    fn of_type<'a>(&self, name: &str, value: &'a Value, parent: &'a Value) -> Shape<'a> {
        let Some(members) = self.0.get(name) else {
            return tagged(value);
        };
        let mut shown = Vec::new();
        for member in members {
            let found = match member.source {
                Source::SameName => value.at(&lower_first_char(member.name)),
                Source::Named(name) => value.at(name),
                Source::OfParent(name) => parent.at(name),
            };
            if member.kind == METADATA {
                let members = meta::MEMBERS.into_iter().chain(["managedFields"]);
                let members = members.filter(|name| found.has(name));
                shown.extend(members.map(|name| (name, Shape::Plain(found.at(name)))));
            } else {
                shown.push((member.name, self.of_kind(member.kind, found, value)));
            }
        }
        Shape::Members(shown)
    }

    fn of_kind<'a>(&self, kind: &str, value: &'a Value, parent: &'a Value) -> Shape<'a> {
        let zero = |text: &'static str| match value {
            Value::Null => Shape::Text(text),
            value => Shape::Plain(value),
        };
        match kind {
            "s" => zero("\"\""),
            "b" => zero("false"),
            "i" | "p" => zero("0"),
            "q" => zero("\"0\""),
            "?" | "[" => zero("null"),
            kind => match (kind.strip_prefix('['), kind.strip_prefix('*'), value) {
                (Some(_), _, Value::Null) | (_, Some(_), Value::Null) => Shape::Text("null"),
                (Some(item), _, Value::Array(items)) => {
                    let items = items.iter().map(|value| self.of_type(item, value, parent));
                    Shape::List(items.collect())
                }
                (_, Some(name), value) => self.of_type(name, value, parent),
                (_, _, value) => self.of_type(kind, value, parent),
            },
        }
    }
}

fn member(text: &'static str) -> Option<Member<'static>> {
    let (name, kind) = text.split_once(':')?;
    let (name, source) = match name.split_once('=') {
        None => (name, Source::SameName),
        Some((name, source)) => match source.strip_prefix('^') {
            Some(source) => (name, Source::OfParent(source)),
            None => (name, Source::Named(source)),
        },
    };
    Some(Member { name, source, kind })
}

fn lower_first_char(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

/// A type of `metav1`, which is internal and external at once, such as a label selector: it is
/// printed as in the API, with its members in declaration order.
fn tagged(value: &Value) -> Shape<'_> {
    const ORDER: [&str; 5] = [
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
    ];
    match value {
        Value::Object(members) => {
            let known = ORDER.iter().filter_map(|key| members.get_key_value(*key));
            let rest = members
                .iter()
                .filter(|(key, _)| !ORDER.contains(&key.as_str()));
            let is_selector =
                members.contains_key("matchLabels") || members.contains_key("matchExpressions");
            let is_requirement = members.contains_key("operator");
            if is_selector || is_requirement {
                let all = known.chain(rest);
                Shape::Members(
                    all.map(|(key, value)| (key.as_str(), tagged(value)))
                        .collect(),
                )
            } else {
                Shape::Plain(value)
            }
        }
        Value::Array(items) => Shape::List(items.iter().map(tagged).collect()),
        value => Shape::Plain(value),
    }
}

impl Shape<'_> {
    fn write(&self, text: &mut String) {
        match self {
            Shape::Plain(value) => text.push_str(&go_json(value)),
            Shape::Text(json) => text.push_str(json),
            Shape::List(items) => {
                text.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        text.push(',');
                    }
                    item.write(text);
                }
                text.push(']');
            }
            Shape::Members(members) => {
                text.push('{');
                for (i, (name, member)) in members.iter().enumerate() {
                    if i > 0 {
                        text.push(',');
                    }
                    text.push_str(&go_quote(name));
                    text.push(':');
                    member.write(text);
                }
                text.push('}');
            }
        }
    }

    fn write_lines(&self, lines: &mut Lines, indent: &str) {
        let inner = format!("{indent} ");
        match self {
            Shape::Text(json) => lines.add(json),
            Shape::Plain(Value::Object(members)) if !members.is_empty() => {
                let members = members.iter();
                let members = members.map(|(key, value)| (key.as_str(), Shape::Plain(value)));
                Shape::Members(members.collect()).write_lines(lines, indent);
            }
            Shape::Plain(Value::Array(items)) if !items.is_empty() => {
                Shape::List(items.iter().map(Shape::Plain).collect()).write_lines(lines, indent);
            }
            Shape::Plain(value) => lines.add(&go_json(value)),
            Shape::List(items) if items.is_empty() => lines.add("[]"),
            Shape::List(items) => {
                lines.add("[");
                for (i, item) in items.iter().enumerate() {
                    lines.start(&inner);
                    item.write_lines(lines, &inner);
                    lines.add(if i + 1 < items.len() { "," } else { "" });
                }
                lines.start(indent);
                lines.add("]");
            }
            Shape::Members(members) if members.is_empty() => lines.add("{}"),
            Shape::Members(members) => {
                lines.add("{");
                for (i, (name, member)) in members.iter().enumerate() {
                    lines.start(&inner);
                    lines.add(&format!("{}: ", go_quote(name)));
                    member.write_lines(lines, &inner);
                    lines.add(if i + 1 < members.len() { "," } else { "" });
                }
                lines.start(indent);
                lines.add("}");
            }
        }
    }
}

/// Lines that are being written.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn start(&mut self, indent: &str) {
        self.0.push(indent.to_owned());
    }

    fn add(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(last) => last.push_str(text),
            None => self.0.push(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_that_is_used_is_there_or_shared() {
        let types = Types::read();
        let shared = ["LabelSelector", METADATA];
        for (name, members) in &types.0 {
            for member in members {
                let kind = member.kind.trim_start_matches(['*', '[']);
                let is_plain = kind.len() < 2;
                assert!(
                    is_plain || shared.contains(&kind) || types.0.contains_key(kind),
                    "{name}.{}: {kind}",
                    member.name
                );
            }
        }
    }

    #[test]
    fn metadata_is_shown_in_its_order_too() {
        let metadata =
            json!({"labels": {"a": "b"}, "managedFields": [], "namespace": "n", "name": "t"});
        let shown = text("PodTemplateSpec", &json!({ "metadata": metadata }));
        let begin = r#"{"name":"t","namespace":"n","labels":{"a":"b"},"managedFields":[],"Spec":"#;
        assert!(shown.starts_with(begin), "{shown}");
    }

    #[test]
    fn all_members_are_shown_in_their_order() {
        let variable = json!({"name": "A", "value": "b"});
        assert_eq!(
            bad_value("EnvVar", &variable),
            BadValue::Raw(r#"{"Name":"A","Value":"b","ValueFrom":null}"#.to_owned())
        );
        assert_eq!(
            lines("NFSVolumeSource", &json!({"server": "s", "path": "/p"})),
            [
                "{",
                " \"Server\": \"s\",",
                " \"Path\": \"/p\",",
                " \"ReadOnly\": false",
                "}",
            ]
        );
    }

    #[test]
    fn what_stands_beside_the_security_context_is_shown_in_it() {
        let spec = json!({"hostNetwork": true, "securityContext": {}});
        let lines = lines("PodSpec", &spec);
        let at = lines
            .iter()
            .position(|line| line == " \"SecurityContext\": {");
        assert_eq!(lines[at.unwrap() + 1], "  \"HostNetwork\": true,");
    }
}
