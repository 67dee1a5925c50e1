//! How two schemas of a kind differ, field by field.

use serde_json::Value;

/// A line for each difference: what the installed schema has, and what the program's has.
pub(super) fn differences(installed: &Value, own: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", installed, own, &mut lines);
    lines
}

fn compare(field: &str, installed: &Value, own: &Value, lines: &mut Vec<String>) {
    if installed == own {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (installed, own) else {
        lines.push(format!("{} is another schema", named(field)));
        return;
    };
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (old.get(key), new.get(key));
        if a == b || key == "description" {
            continue;
        }
        match (&**key, a, b) {
            ("properties", a, b) => properties(field, a, b, lines),
            ("items" | "additionalProperties", Some(a), Some(b)) => {
                compare(&format!("{field}[]"), a, b, lines);
            }
            (key, None, Some(own)) => {
                lines.push(format!("{} lacks {key} {}", named(field), short(own)));
            }
            (key, Some(known), None) => {
                lines.push(format!("{} has {key} {} too", named(field), short(known)));
            }
            (key, a, b) => {
                let value = |one: Option<&Value>| one.map(short).unwrap_or_default();
                let (a, b) = (value(a), value(b));
                lines.push(format!("{} has {key} {a} in place of {b}", named(field)));
            }
        }
    }
}

fn properties(
    field: &str,
    installed: Option<&Value>,
    own: Option<&Value>,
    lines: &mut Vec<String>,
) {
    let fields = |value: Option<&Value>| {
        let fields = value.and_then(Value::as_object);
        fields.cloned().unwrap_or_default()
    };
    let (old, new) = (fields(installed), fields(own));
    let path = |name: &str| format!("{field}.{name}");
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        match (old.get(name), new.get(name)) {
            (None, _) => lines.push(format!("{} is missing", named(&path(name)))),
            (_, None) => lines.push(format!(
                "{} is there, and not in the program",
                named(&path(name))
            )),
            (Some(a), Some(b)) => compare(&path(name), a, b, lines),
        }
    }
}

fn named(field: &str) -> &str {
    match field.trim_start_matches('.') {
        "" => "the object",
        name => name,
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_named_by_its_field() {
        let installed = json!({"properties": {"spec": {
            "required": ["a"],
            "properties": {"a": {"type": "string", "description": "old"}, "old": {"type": "string"}},
        }}});
        let own = json!({"properties": {"spec": {
            "properties": {
                "a": {"type": "string", "maxLength": 3, "description": "new"},
                "b": {"type": "integer"},
            },
        }}});
        let expected = [
            "spec.a lacks maxLength 3",
            "spec.b is missing",
            "spec.old is there, and not in the program",
            "spec has required [\"a\"] too",
        ];
        assert_eq!(differences(&installed, &own), expected);
        assert_eq!(differences(&own, &own), [""; 0]);
    }
}
