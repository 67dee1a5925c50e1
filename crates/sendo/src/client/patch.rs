//! Changes to a part of an object.

use crate::transport::{Error, to_json};
use serde::Serialize;
use serde_json::{Map, Value};

/// A change to a part of an object, in one of the ways the API knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// Members replace those of the object, `null` removes them, lists are replaced whole.
    Merge(Value),
    /// A list of operations, all of which must succeed.
    Json(Value),
    /// As `Merge`, but lists are merged by keys the API knows. Built-in kinds only.
    Strategic(Value),
    /// Server-side apply: what is said here belongs to this program, what it
    /// said before and no longer says is taken back.
    Apply {
        /// All that this program wants to say of the object.
        object: Value,
        /// Whether to take over fields that belong to others, rather than fail.
        force: bool,
    },
}

impl Patch {
    /// Server-side apply of `object`, taking over fields that belong to others.
    ///
    /// What the server keeps by itself (`managedFields`, `uid`, version, …) is left out.
    pub fn apply<T: Serialize>(object: &T) -> Result<Self, Error> {
        let mut object = to_json(object)?;
        if let Some(Value::Object(meta)) = object.get_mut("metadata") {
            for kept_by_server in [
                "managedFields",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
            ] {
                meta.remove(kept_by_server);
            }
        }
        let force = true;
        Ok(Patch::Apply { object, force })
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Json(_) => "application/json-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            // JSON is YAML.
            Patch::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(super) fn value(&self) -> &Value {
        match self {
            Patch::Merge(value) | Patch::Json(value) | Patch::Strategic(value) => value,
            Patch::Apply { object, .. } => object,
        }
    }

    pub(super) fn is_forced(&self) -> bool {
        matches!(self, Patch::Apply { force: true, .. })
    }
}

/// The merge patch that makes `after` out of `before`, `None` if they are equal.
pub(super) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let difference = match old.get(name) {
            Some(known) => merge_patch(known, value),
            None => Some(value.clone()),
        };
        patch.extend(difference.map(|difference| (name.clone(), difference)));
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_says_only_what_changed() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "l": [1, 2], "gone": true});
        let after = json!({"a": 1, "b": {"c": 2, "d": 4}, "l": [2], "new": {"x": 1}});
        let patch = merge_patch(&before, &after).unwrap();
        assert_eq!(
            patch,
            json!({"b": {"d": 4}, "l": [2], "gone": null, "new": {"x": 1}})
        );
        assert_eq!(merge_patch(&after, &after), None);
    }

    #[test]
    fn apply_leaves_out_what_the_server_keeps() {
        let object = json!({"metadata": {"name": "a", "uid": "u", "managedFields": []}, "spec": 1});
        let Patch::Apply { object, force } = Patch::apply(&object).unwrap() else {
            panic!("not an apply");
        };
        assert!(force);
        assert_eq!(object, json!({"metadata": {"name": "a"}, "spec": 1}));
    }
}
