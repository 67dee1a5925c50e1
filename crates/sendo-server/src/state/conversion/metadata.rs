//! What a conversion may do to metadata: change labels and annotations, and nothing else.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`:
//!   `validateConvertedObject`, `restoreObjectMeta`

use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::{validate_annotations, validate_labels};
use sendo_apimachinery::status::aggregate;
use serde_json::{Map, Value};

/// Refuses a converted object that is another one.
pub(super) fn check_identity(original: &Value, converted: &Value) -> Result<(), String> {
    for (member, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let text = |object: &Value| {
            let own = object["metadata"][member].as_str().unwrap_or_default();
            own.to_owned()
        };
        let (expected, found) = (text(original), text(converted));
        if expected != found {
            return Err(format!("must have the same {shown}: {expected} != {found}"));
        }
    }
    Ok(())
}

/// Puts the metadata of the original back, but for labels and annotations.
pub(super) fn restore(original: &Value, converted: &mut Value) -> Result<(), String> {
    let Some(sent) = converted.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Value::Object(sent) = sent.clone() else {
        let found = go_type(sent);
        return Err(format!(
            "invalid metadata of type {found} in converted object"
        ));
    };
    let mut metadata = match original.get("metadata") {
        Some(Value::Object(own)) => own.clone(),
        _ => Map::new(),
    };
    for name in ["labels", "annotations"] {
        let texts = match sent.get(name) {
            None | Some(Value::Null) => {
                metadata.remove(name);
                continue;
            }
            Some(Value::Object(texts)) => texts,
            Some(other) => {
                let found = go_type(other);
                return Err(format!(
                    "invalid metadata.{name} of type {found} in converted object"
                ));
            }
        };
        if let Some((key, value)) = texts.iter().find(|(_, value)| !value.is_string()) {
            let found = go_type(value);
            return Err(format!(
                "metadata.{name}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        if metadata.get(name).and_then(Value::as_object) != Some(texts) {
            check_texts(name, texts)?;
        }
        metadata.insert(name.to_owned(), Value::Object(texts.clone()));
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

/// Refuses labels or annotations that are none.
fn check_texts(name: &str, texts: &Map<String, Value>) -> Result<(), String> {
    let pairs = texts
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    let path = Path::new("metadata");
    let errors = match name {
        "labels" => validate_labels(pairs, &path.child("labels")),
        _ => validate_annotations(pairs, &path.child("annotation")),
    };
    match errors.is_empty() {
        true => Ok(()),
        false => Err(aggregate(errors.iter().map(ToString::to_string))),
    }
}

/// The type of a value that was read from JSON, as Go prints it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn restored(metadata: Value) -> Result<Value, String> {
        let original = json!({"metadata": {
            "name": "a", "generation": 2, "labels": {"l": "1"}, "annotations": {"k": "v"},
        }});
        let mut converted = json!({"metadata": metadata});
        restore(&original, &mut converted)?;
        Ok(converted["metadata"].take())
    }

    #[test]
    fn labels_and_annotations_are_those_of_the_conversion_all_else_is_restored() {
        let metadata =
            json!({"name": "a", "generation": 7, "finalizers": ["x"], "labels": {"m": "2"}});
        let expected = json!({"name": "a", "generation": 2, "labels": {"m": "2"}});
        assert_eq!(restored(metadata).unwrap(), expected);
    }

    #[test]
    fn bad_metadata_is_refused() {
        for (metadata, expected) in [
            (
                json!("x"),
                "invalid metadata of type string in converted object",
            ),
            (
                json!({"labels": []}),
                "invalid metadata.labels of type []interface {} in converted object",
            ),
            (
                json!({"annotations": {"a": 1.5}}),
                "metadata.annotations[a] must be a string, but is float64 in converted object",
            ),
        ] {
            assert_eq!(restored(metadata).unwrap_err(), expected);
        }
        let bad = restored(json!({"labels": {"a b": "c"}})).unwrap_err();
        assert!(
            bad.starts_with("metadata.labels: Invalid value: \"a b\": name part must"),
            "{bad}"
        );
    }
}
