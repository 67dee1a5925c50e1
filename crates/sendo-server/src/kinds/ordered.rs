//! JSON whose members keep their order, as Go writes structs.

use sendo_apimachinery::field::BadValue;
use sendo_apimachinery::{go_json, go_quote};
use serde_json::Value;

use super::value::Read;

/// The text of a JSON object in the making.
///
/// Kubernetes shows Go structs in annotations and messages, member by member
/// in the order of their declaration, which a [`Value`] does not keep.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    members: Vec<String>,
}

impl Ordered {
    pub(super) fn new() -> Self {
        Ordered::default()
    }

    /// A member whose text is JSON already.
    pub(super) fn raw(mut self, key: &str, json: impl AsRef<str>) -> Self {
        self.members
            .push(format!("{}:{}", go_quote(key), json.as_ref()));
        self
    }

    /// A member with this value.
    pub(super) fn with(self, key: &str, value: &Value) -> Self {
        self.raw(key, go_json(value))
    }

    /// A member with this value, left out if there is none.
    pub(super) fn optional(self, key: &str, value: &Value) -> Self {
        if value.is_null() {
            self
        } else {
            self.with(key, value)
        }
    }

    /// A member that is always there, `""` if it is not set.
    pub(super) fn text(self, key: &str, text: &str) -> Self {
        self.with(key, &text.into())
    }

    /// The whole object as an error shows it.
    pub(super) fn bad_value(self) -> BadValue {
        BadValue::Raw(self.finish())
    }

    /// The whole object.
    pub(super) fn finish(self) -> String {
        format!("{{{}}}", self.members.join(","))
    }
}

/// A list of JSON texts.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A label selector in the order of its declaration.
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
