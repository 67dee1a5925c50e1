//! Label selectors as text, for table cells.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`: `FormatLabelSelector`,
//!   `LabelSelectorAsSelector`

use sendo_apimachinery::selector::LabelSelector;
use serde_json::Value;

/// A selector as `app=x,!old,tier in (a,b)`, `<none>` if it is empty, `<error>` if it is invalid.
pub(super) fn or_none(selector: &Value) -> String {
    match parse(selector) {
        Ok(text) if text.is_empty() => "<none>".to_owned(),
        Ok(text) => text,
        Err(()) => "<error>".to_owned(),
    }
}

/// A selector as `app=x,!old,tier in (a,b)`, empty if it is empty, `<invalid>` if it is invalid.
pub(super) fn plain(selector: &Value) -> String {
    parse(selector).unwrap_or_else(|()| "<invalid>".to_owned())
}

fn parse(selector: &Value) -> Result<String, ()> {
    let present = Some(selector).filter(|selector| !selector.is_null());
    let selector = LabelSelector::from_object(present).map_err(|_| ())?;
    Ok(selector.to_string())
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
