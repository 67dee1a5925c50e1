//! Defaulting by structural schemas.

use serde_json::Value;

use super::{Additional, Structural};

impl Structural {
    /// Fills in defaults: where a member is absent, and where it is null but may not be.
    ///
    /// Defaults reach into what other defaults put there, into items of lists
    /// and into values of maps.
    pub fn set_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, property) in &self.properties {
                    let Some(default) = &property.default else {
                        continue;
                    };
                    let absent = match members.get(name) {
                        None => true,
                        Some(member) => property.may_not_be(member),
                    };
                    if absent {
                        members.insert(name.clone(), default.clone());
                    }
                }
                for (name, member) in members.iter_mut() {
                    let schema = match (self.properties.get(name), &self.additional_properties) {
                        (Some(property), _) => property,
                        (None, Some(Additional::Schema(schema))) => {
                            schema.replace_null(member);
                            schema
                        }
                        _ => continue,
                    };
                    schema.set_defaults(member);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else {
                    return;
                };
                for item in items {
                    schema.replace_null(item);
                    schema.set_defaults(item);
                }
            }
            _ => {}
        }
    }

    /// Removes members that are null, may not be, and have no default.
    pub fn drop_nulls(&self, value: &mut Value) {
        drop_nulls(Some(self), value);
    }

    /// Whether a value is null though it may not be.
    fn may_not_be(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    fn replace_null(&self, value: &mut Value) {
        if self.may_not_be(value)
            && let Some(default) = &self.default
        {
            *value = default.clone();
        }
    }
}

fn drop_nulls(schema: Option<&Structural>, value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let schema = schema.and_then(|schema| schema.member(name));
            let dropped = schema.is_some_and(|s| s.may_not_be(member) && s.default.is_none());
            if !dropped {
                drop_nulls(schema, member);
            }
            !dropped
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(schema, item));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn completed(schema: Value, mut value: Value) -> Value {
        let schema = Structural::from_json(&schema);
        schema.set_defaults(&mut value);
        schema.drop_nulls(&mut value);
        value
    }

    #[test]
    fn null_becomes_the_default_where_it_may_not_be() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "d"},
            "b": {"type": "string", "default": "d", "nullable": true},
            "c": {"type": "string"},
            "o": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}, "default": {}},
            "on": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}, "nullable": true},
        }});
        let cases = [
            (
                json!({"a": null, "b": null, "o": null, "on": null}),
                json!({"a": "d", "b": null, "o": {"x": 1}, "on": null}),
            ),
            (
                json!({"c": null}),
                json!({"a": "d", "b": "d", "o": {"x": 1}}),
            ),
            (
                json!({"o": {"x": null}, "on": {"x": null}}),
                json!({"a": "d", "b": "d", "o": {"x": 1}, "on": {"x": 1}}),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(completed(schema.clone(), value), expected);
        }
    }

    #[test]
    fn defaults_reach_into_lists_and_maps() {
        let schema = json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
            "md": {"type": "object", "additionalProperties": {"type": "string", "default": "dd"}},
            "mn": {"type": "object", "additionalProperties": {"type": "string"}},
            "ln": {"type": "array", "items": {"type": "string"}},
        }});
        assert_eq!(
            completed(
                schema,
                json!({"l": [{}, {"p": "UDP"}], "m": {"a": {}}, "md": {"k": null}, "mn": {"k": null}, "ln": [null]})
            ),
            json!({"l": [{"p": "TCP"}, {"p": "UDP"}], "m": {"a": {"v": 7}}, "md": {"k": "dd"}, "mn": {}, "ln": [null]})
        );
    }
}
