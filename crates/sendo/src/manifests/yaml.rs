//! Objects as YAML that people read: fields in a fixed order, comments where they help.
//!
//! The same object gives the same bytes always, whatever order its fields were added in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Comments of an object, by the JSON pointer of the field that they stand above; that of the
/// object itself is empty.
pub(super) type Comments = BTreeMap<String, String>;

/// A part of a text that a template engine fills in, in a string: `{{ expression }}`.
pub(super) fn expression(expression: &str) -> String {
    format!("{IN_TEXT}{expression}{END}")
}

/// A whole value that a template engine fills in, and that is no string.
pub(super) fn scalar(expression: &str) -> Value {
    Value::String(format!("{SCALAR}{expression}{END}"))
}

/// A whole object or list that a template engine fills in; as an element of a list, all the
/// elements of another list.
pub(super) fn block(expression: &str) -> Value {
    Value::String(format!("{BLOCK}{expression}{END}"))
}

// Of the private use area, so that no text of a program has them.
const IN_TEXT: char = '\u{e000}';
const SCALAR: char = '\u{e001}';
const BLOCK: char = '\u{e002}';
const END: char = '\u{e003}';

/// The text with the expressions of its templates as Helm writes them. What looks like a template
/// in the text itself is escaped.
pub(super) fn as_template(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
        .replace([IN_TEXT, SCALAR], "{{ ")
        .replace(BLOCK, "{{- ")
        .replace(END, " }}")
}

/// Fields that come first in an object; the others follow in the order of the alphabet.
const FIRST: [&str; 5] = ["apiVersion", "kind", "metadata", "name", "namespace"];

/// An object as a YAML document, without the line that separates documents.
pub(super) fn document(object: &Value, comments: &Comments) -> String {
    let mut writer = Writer {
        text: String::new(),
        comments,
    };
    writer.comment("", 0);
    match object {
        Value::Object(fields) if !fields.is_empty() => writer.fields(fields, 0, "", false),
        other => {
            writer.text.push_str(&inline(other));
            writer.text.push('\n');
        }
    }
    writer.text
}

struct Writer<'a> {
    text: String,
    comments: &'a Comments,
}

impl Writer<'_> {
    fn indent(&mut self, depth: usize) {
        self.text.extend(std::iter::repeat_n(' ', depth));
    }

    fn comment(&mut self, path: &str, depth: usize) {
        let Some(comment) = self.comments.get(path) else {
            return;
        };
        for line in comment.lines() {
            self.indent(depth);
            let _ = writeln!(self.text, "{}", format!("# {line}").trim_end());
        }
    }

    /// The fields of an object; the first is on the line that is begun if `goes_on`.
    fn fields(&mut self, fields: &Map<String, Value>, depth: usize, path: &str, mut goes_on: bool) {
        let mut keys: Vec<&String> = fields.keys().collect();
        keys.sort_by_key(|key| {
            let first = FIRST.iter().position(|known| *known == key.as_str());
            (first.unwrap_or(FIRST.len()), key.as_str())
        });
        for key in keys {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            if !goes_on {
                self.comment(&path, depth);
                self.indent(depth);
            }
            goes_on = false;
            let _ = write!(self.text, "{}:", quoted(key));
            self.value(&fields[key], depth, &path);
        }
    }

    /// The value after a key or a dash.
    fn value(&mut self, value: &Value, depth: usize, path: &str) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                self.text.push('\n');
                self.fields(fields, depth + 2, path, false);
            }
            Value::Array(elements) if !elements.is_empty() => {
                self.text.push('\n');
                self.elements(elements, depth, path);
            }
            Value::String(text) if text.starts_with(BLOCK) => {
                let expression = text.trim_matches([BLOCK, END]);
                self.text.push('\n');
                self.indent(depth + 2);
                let below = depth + 2;
                let _ = writeln!(
                    self.text,
                    "{BLOCK}toYaml {expression} | nindent {below}{END}"
                );
            }
            Value::String(text) if is_literal(text) => {
                let chomping = if text.ends_with('\n') { "" } else { "-" };
                let _ = writeln!(self.text, " |{chomping}");
                for line in text.lines() {
                    if !line.is_empty() {
                        self.indent(depth + 2);
                    }
                    self.text.push_str(line);
                    self.text.push('\n');
                }
            }
            other => {
                let _ = writeln!(self.text, " {}", inline(other));
            }
        }
    }

    /// Their dashes are as far in as the key of the list.
    fn elements(&mut self, elements: &[Value], depth: usize, path: &str) {
        for (at, element) in elements.iter().enumerate() {
            let path = format!("{path}/{at}");
            self.comment(&path, depth);
            self.indent(depth);
            match element {
                Value::String(text) if text.starts_with(BLOCK) => {
                    let list = text.trim_matches([BLOCK, END]);
                    let _ = writeln!(
                        self.text,
                        "{BLOCK}with {list}{END}{BLOCK}toYaml . | nindent {depth}{END}{BLOCK}end{END}"
                    );
                }
                Value::Object(fields) if !fields.is_empty() => {
                    self.text.push_str("- ");
                    self.fields(fields, depth + 2, &path, true);
                }
                Value::Array(elements) if !elements.is_empty() => {
                    self.text.push_str("-\n");
                    self.elements(elements, depth + 2, &path);
                }
                other => {
                    self.text.push('-');
                    self.value(other, depth, &path);
                }
            }
        }
    }
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

/// A string, in quotes unless it is taken for nothing else without.
fn quoted(text: &str) -> String {
    if text.starts_with(SCALAR) || is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            IN_TEXT | SCALAR | BLOCK | END => quoted.push(c),
            _ if is_printable(c) => quoted.push(c),
            _ if (c as u32) <= 0xffff => {
                let _ = write!(quoted, "\\u{:04X}", c as u32);
            }
            _ => {
                let _ = write!(quoted, "\\U{:08X}", c as u32);
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether every parser takes it for a string, without quotes.
fn is_plain(text: &str) -> bool {
    const TAKEN: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let first = text.strip_prefix("--").unwrap_or(text).chars().next();
    // Numbers and dates begin with a digit, a sign or a dot.
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '/')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " _./:-,()'=".contains(c))
        && !text.contains(": ")
        && !text.ends_with([' ', ':'])
        && !TAKEN.contains(&&*text.to_ascii_lowercase())
}

/// Whether it is best read as lines of its own, and they give the same text again.
fn is_literal(text: &str) -> bool {
    let lines = text.strip_suffix('\n').unwrap_or(text);
    lines.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with("\n\n")
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && text.lines().all(|line| !line.ends_with(' '))
}

/// Whether it stands for itself in every version of YAML.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{10000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,12}",
            "[a-z0-9:.#'\"{}~ \\n\\t-]{0,12}",
            Just("null".to_owned()),
            Just("Yes".to_owned()),
            Just("1e3".to_owned()),
            Just("0x1f".to_owned()),
            Just("2026-11-19".to_owned()),
            Just("line\nline\n".to_owned()),
        ];
        let text = text.prop_filter("no markers", |text| {
            !text.contains(['\u{e000}', '\u{e001}', '\u{e002}', '\u{e003}'])
        });
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in any_value()) {
            let text = document(&json!({"value": value}), &Comments::new());
            let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            prop_assert_eq!(&read["value"], &value, "{}", text);
        }
    }

    #[test]
    fn fields_have_an_order_and_comments() {
        let object = json!({
            "spec": {"b": ["x", {"y": 1, "name": "n"}], "a": "1"},
            "kind": "K",
            "apiVersion": "v1",
            "empty": {},
        });
        let comments = Comments::from([
            (String::new(), "Of all.".to_owned()),
            ("/spec/b".to_owned(), "Of b.\nTwo lines.".to_owned()),
        ]);
        let text = document(&object, &comments);
        let expected = "# Of all.\napiVersion: v1\nkind: K\nempty: {}\nspec:\n  a: \"1\"\n  # Of b.\n  # Two lines.\n  b:\n  - x\n  - name: \"n\"\n    \"y\": 1\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn templates_are_filled_in_and_what_looks_like_one_is_escaped() {
        let object = json!({
            "args": ["--x", block(".Values.args")],
            "count": scalar(".Values.count"),
            "name": format!("{}-metrics", expression(".Values.name")),
            "resources": block(".Values.resources"),
            "text": "{{ code }}",
        });
        let text = as_template(&document(&object, &Comments::new()));
        let expected = "name: \"{{ .Values.name }}-metrics\"\nargs:\n- --x\n{{- with .Values.args }}{{- toYaml . | nindent 0 }}{{- end }}\ncount: {{ .Values.count }}\nresources:\n  {{- toYaml .Values.resources | nindent 2 }}\ntext: \"{{ \"{{\" }} code }}\"\n";
        assert_eq!(text, expected);
    }
}
