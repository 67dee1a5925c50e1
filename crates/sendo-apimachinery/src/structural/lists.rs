//! Uniqueness of list items: sets have no item twice, maps no key.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Additional, Structural};
use crate::field::{Error, Path};

impl Structural {
    /// Checks that sets have no item twice, and map lists no key.
    pub fn validate_lists(&self, value: &Value, path: &Path) -> Vec<Error> {
        let mut errors = Vec::new();
        self.check_lists(value, path, &mut errors);
        errors
    }

    fn check_lists(&self, value: &Value, path: &Path, errors: &mut Vec<Error>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let Some(Additional::Schema(schema)) = &self.additional_properties {
                        schema.check_lists(member, &path.key(name), errors);
                    }
                    if let Some(property) = self.properties.get(name) {
                        property.check_lists(member, &path.child(name), errors);
                    }
                }
            }
            Value::Array(items) => {
                match self.list_type.as_deref() {
                    Some("set") => {
                        errors.extend(
                            repeated(items)
                                .into_iter()
                                .map(|i| Error::duplicate(&path.index(i), items[i].clone())),
                        );
                    }
                    Some("map") => errors.extend(self.repeated_keys(items, path)),
                    _ => {}
                }
                if let Some(schema) = &self.items {
                    for (i, item) in items.iter().enumerate() {
                        schema.check_lists(item, &path.index(i), errors);
                    }
                }
            }
            _ => {}
        }
    }

    fn repeated_keys(&self, items: &[Value], path: &Path) -> Vec<Error> {
        for (i, item) in items.iter().enumerate() {
            if !item.is_null() && !item.is_object() {
                let detail = "must be an object for an array of list-type map";
                return vec![Error::invalid(&path.index(i), item.clone(), detail)];
            }
        }
        let keys: Vec<Value> = items.iter().map(|item| self.key_of(item)).collect();
        repeated(&keys)
            .into_iter()
            .map(|i| Error::duplicate(&path.index(i), keys[i].clone()))
            .collect()
    }

    /// The members of an item that identify it in a list of type `map`.
    pub fn key_of(&self, item: &Value) -> Value {
        let keys = self.list_map_keys.iter();
        let present: Map<String, Value> = keys
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
            .collect();
        Value::Object(present)
    }
}

/// The places where an item is seen for the second time.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            places.push(i);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(schema: Value, value: Value) -> Vec<String> {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {"a": schema}}));
        let errors = schema.validate_lists(&json!({ "a": value }), &Path::root());
        errors.iter().map(Error::to_string).collect()
    }

    #[test]
    fn a_key_is_there_once() {
        let schema = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "integer"}}},
        });
        assert_eq!(
            errors(
                schema.clone(),
                json!([{"k": "x", "p": 1}, {"k": "x", "p": 2}])
            ),
            [""; 0]
        );
        assert_eq!(
            errors(
                schema.clone(),
                json!([{"k": "x", "p": 80, "v": 1}, {"k": "x", "p": 80}, {"k": "x", "p": 80}])
            ),
            [r#"a[1]: Duplicate value: {"k":"x","p":80}"#]
        );
        assert_eq!(
            errors(schema.clone(), json!([{"p": 1}, {"p": 1}])),
            [r#"a[1]: Duplicate value: {"p":1}"#]
        );
        assert_eq!(
            errors(schema, json!([{"k": "x"}, 5])),
            ["a[1]: Invalid value: 5: must be an object for an array of list-type map"]
        );
    }

    #[test]
    fn an_item_of_a_set_is_there_once() {
        let schema =
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(
            errors(schema.clone(), json!(["a", "b", "a", "a"])),
            [r#"a[2]: Duplicate value: "a""#]
        );
        assert_eq!(errors(schema, json!(["a", "b"])), [""; 0]);
    }
}
