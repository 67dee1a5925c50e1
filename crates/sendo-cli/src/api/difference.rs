//! How two forms of an object differ, field by field.

use serde_json::Value;

/// Fields that the server counts or notes with every change.
const BOOKKEEPING: [&str; 5] = [
    ".metadata.creationTimestamp",
    ".metadata.generation",
    ".metadata.managedFields",
    ".metadata.resourceVersion",
    ".metadata.uid",
];

/// A line for each field that differs: `~ spec.replicas: 1 → 2`.
pub(crate) fn field_differences(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare(String::new(), before, after, &mut lines);
    lines
}

fn compare(path: String, before: &Value, after: &Value, lines: &mut Vec<String>) {
    if before == after || BOOKKEEPING.contains(&&*path) || path == ".status" {
        return;
    }
    let name = path.trim_start_matches('.');
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, old) in old {
                let new = new.get(key).unwrap_or(&Value::Null);
                compare(format!("{path}.{}", quoted(key)), old, new, lines);
            }
            for (key, new) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                compare(format!("{path}.{}", quoted(key)), &Value::Null, new, lines);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (at, old_element) in old.iter().enumerate() {
                let new_element = new.get(at).unwrap_or(&Value::Null);
                compare(format!("{path}[{at}]"), old_element, new_element, lines);
            }
            for (at, element) in new.iter().enumerate().skip(old.len()) {
                compare(format!("{path}[{at}]"), &Value::Null, element, lines);
            }
        }
        (Value::Null, new) => lines.push(format!("+ {name}: {}", short(new))),
        (old, Value::Null) => lines.push(format!("- {name}: {}", short(old))),
        (old, new) => lines.push(format!("~ {name}: {} → {}", short(old), short(new))),
    }
}

/// A key that has dots itself is in quotes.
fn quoted(key: &str) -> String {
    match key.contains(['.', '[', '/']) {
        true => format!("\"{key}\""),
        false => key.to_owned(),
    }
}

/// A value on one line.
fn short(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_differ_are_named_with_both_values() {
        let before = json!({
            "metadata": {"resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"replicas": 1, "list": [1, 2]},
            "status": {"x": 1},
        });
        let after = json!({
            "metadata": {"resourceVersion": "2", "labels": {"example.dev/c": "d"}},
            "spec": {"replicas": 2, "list": [1], "new": {"y": true}},
        });
        assert_eq!(
            field_differences(&before, &after),
            [
                "- metadata.labels.a: \"b\"",
                "+ metadata.labels.\"example.dev/c\": \"d\"",
                "- spec.list[1]: 2",
                "~ spec.replicas: 1 → 2",
                "+ spec.new: {\"y\":true}",
            ]
        );
    }
}
