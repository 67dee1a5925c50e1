//! Writes JSON objects with members in a fixed order, as Go marshals structs.

use sendo_apimachinery::field::BadValue;
use sendo_apimachinery::{go_json, go_quote};
use serde_json::Value;

use super::value::Read;

/// A JSON object that is being written.
///
/// Kubernetes prints Go structs in annotations and messages with fields in declaration order, which
/// a [`Value`] does not keep.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    members: Vec<String>,
}

impl Ordered {
    pub(super) fn new() -> Self {
        Ordered::default()
    }

    /// Adds a member whose value is JSON text.
    pub(super) fn raw(mut self, key: &str, json: impl AsRef<str>) -> Self {
        self.members
            .push(format!("{}:{}", go_quote(key), json.as_ref()));
        self
    }

    /// Adds a member.
    pub(super) fn with(self, key: &str, value: &Value) -> Self {
        self.raw(key, go_json(value))
    }

    /// Adds a member unless its value is null.
    pub(super) fn optional(self, key: &str, value: &Value) -> Self {
        if value.is_null() {
            self
        } else {
            self.with(key, value)
        }
    }

    /// Adds a string member, `""` if it is unset.
    pub(super) fn text(self, key: &str, text: &str) -> Self {
        self.with(key, &text.into())
    }

    /// The object as the bad value of an error.
    pub(super) fn bad_value(self) -> BadValue {
        BadValue::Raw(self.finish())
    }

    /// The text of the object.
    pub(super) fn finish(self) -> String {
        format!("{{{}}}", self.members.join(","))
    }
}

/// A JSON list of JSON texts.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A label selector with its fields in declaration order.
pub(super) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let mut text = Ordered::new().optional("matchLabels", selector.at("matchLabels"));
    let expressions = selector.items("matchExpressions");
    if !expressions.is_empty() {
        let expression = |expression: &Value| {
            Ordered::new()
                .text("key", expression.text("key"))
                .text("operator", expression.text("operator"))
                .optional("values", expression.at("values"))
                .finish()
        };
        text = text.raw("matchExpressions", list(expressions.iter().map(expression)));
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_keep_their_order() {
        let text = Ordered::new()
            .text("b", "x")
            .optional("c", &Value::Null)
            .with("a", &json!([1]))
            .finish();
        assert_eq!(text, r#"{"b":"x","a":[1]}"#);
    }

    #[test]
    fn selectors_show_labels_before_expressions() {
        let value = json!({"matchExpressions": [{"operator": "Exists", "key": "k"}], "matchLabels": {"a": "b"}});
        assert_eq!(
            selector(&value),
            r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}]}"#
        );
    }
}
