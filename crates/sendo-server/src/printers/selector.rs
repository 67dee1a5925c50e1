//! Label selectors as text.

use serde_json::Value;

use crate::kinds::value::Read;

/// A selector as `app=x,!old,tier in (a,b)`, `<none>` if it names nothing.
pub(super) fn or_none(selector: &Value) -> String {
    let text = plain(selector);
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

/// A selector as `app=x,!old,tier in (a,b)`, requirements in the order of their keys.
pub(super) fn plain(selector: &Value) -> String {
    let labels = selector.entries("matchLabels");
    let labels =
        labels.map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressions = selector.items("matchExpressions").iter();
    let expressions =
        expressions.map(|expression| (expression.text("key"), requirement(expression)));
    let mut requirements: Vec<(&str, String)> = labels.chain(expressions).collect();
    requirements.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    texts.join(",")
}

fn requirement(expression: &Value) -> String {
    let key = expression.text("key");
    let mut values: Vec<&str> = expression
        .items("values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    values.sort_unstable();
    match expression.text("operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_come_in_the_order_of_their_keys() {
        let selector = json!({
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "Exists"},
            ],
        });
        assert_eq!(plain(&selector), "app=x,!old,tier in (a,b),zone");
        assert_eq!(or_none(&Value::Null), "<none>");
    }
}
