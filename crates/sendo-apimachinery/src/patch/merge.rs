//! JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

use crate::Status;

/// Applies a JSON merge patch (RFC 7386).
///
/// Members merge, null removes, everything else replaces. A patch that is no
/// object is a bad request.
pub fn merge_patch(object: &mut Value, patch: Value) -> Result<(), Status> {
    let Value::Object(patch) = patch else {
        // A null patch is found out by another reader than the other types.
        let message = if patch.is_null() {
            "Invalid JSON Patch".to_owned()
        } else {
            format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&patch)
            )
        };
        return Err(Status::bad_request(message));
    };
    merge(object, Value::Object(patch));
    Ok(())
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().expect("it was just made an object");
    for (name, patch) in patch {
        if patch.is_null() {
            members.remove(&name);
        } else {
            merge_member(members.entry(name).or_insert(Value::Null), patch);
        }
    }
}

fn merge_member(target: &mut Value, patch: Value) {
    if target.is_object() {
        merge(target, patch);
    } else {
        *target = patch;
        prune_nulls(target);
    }
}

/// Removes members that are null, at any depth; items of lists stay.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(prune_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

/// The name of a JSON type in Go's decoding errors.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_merge_and_null_removes() {
        let cases = [
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            (json!({"a": 1}), json!({"none": null}), json!({"a": 1})),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (
                json!({}),
                json!({"a": {"b": null, "c": 1}}),
                json!({"a": {"c": 1}}),
            ),
            (json!({}), json!({"a": {"b": null}}), json!({"a": {}})),
            (
                json!({"a": [1, 2]}),
                json!({"a": [3, null]}),
                json!({"a": [3, null]}),
            ),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
            (
                json!({"a": null}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
            (
                json!({"a": [1]}),
                json!({"a": [{"b": null}]}),
                json!({"a": [{}]}),
            ),
        ];
        for (mut object, patch, expected) in cases {
            merge_patch(&mut object, patch.clone()).unwrap();
            assert_eq!(object, expected, "{patch}");
        }
    }

    #[test]
    fn a_patch_is_an_object() {
        let refused = |patch: Value| merge_patch(&mut json!({}), patch).unwrap_err().message;
        assert_eq!(
            refused(json!([])),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
        assert_eq!(refused(Value::Null), "Invalid JSON Patch");
    }
}
