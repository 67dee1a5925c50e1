//! Access to the members of decoded objects.
//!
//! Kubernetes' rules work on typed structs, in which an absent field has its zero value. [`Read`]
//! gives the same view of a [`Value`]: a member that is absent or has another type reads as null,
//! empty, zero or false.

use serde_json::{Map, Value};

/// Reads members of a decoded object. An absent member reads as its zero value.
pub(crate) trait Read {
    /// The member, or null.
    fn at(&self, key: &str) -> &Value;
    /// The text of the member, or an empty one.
    fn text(&self, key: &str) -> &str;
    /// The member as a whole number, if it is one.
    fn number(&self, key: &str) -> Option<i64>;
    /// The member as a whole number, or 0.
    fn count(&self, key: &str) -> i64;
    /// The member as a boolean, if it is one.
    fn switch(&self, key: &str) -> Option<bool>;
    /// Whether the member is true.
    fn is_set(&self, key: &str) -> bool;
    /// The items of the member, or none.
    fn items(&self, key: &str) -> &[Value];
    /// The entries of the member, or none.
    fn entries<'a>(&'a self, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)>;
    /// Whether the member is present and not null.
    fn has(&self, key: &str) -> bool;
    /// The names of the members that are present and not null, for a search for one of many fields.
    fn present(&self) -> Vec<&str>;
}

static NULL: Value = Value::Null;

impl Read for Value {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }

    fn text(&self, key: &str) -> &str {
        self.at(key).as_str().unwrap_or_default()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    fn count(&self, key: &str) -> i64 {
        self.number(key).unwrap_or_default()
    }

    fn switch(&self, key: &str) -> Option<bool> {
        self.at(key).as_bool()
    }

    fn is_set(&self, key: &str) -> bool {
        self.switch(key).unwrap_or_default()
    }

    fn items(&self, key: &str) -> &[Value] {
        self.at(key).as_array().map_or(&[], Vec::as_slice)
    }

    fn entries<'a>(&'a self, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let entries = self.at(key).as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), value))
    }

    fn has(&self, key: &str) -> bool {
        !self.at(key).is_null()
    }

    fn present(&self) -> Vec<&str> {
        let members = self.as_object().into_iter().flatten();
        let present = members.filter(|(_, value)| !value.is_null());
        present.map(|(key, _)| key.as_str()).collect()
    }
}

/// Writes members of a decoded object.
pub(crate) trait Write {
    /// Sets the member.
    fn set(&mut self, key: &str, value: impl Into<Value>);
    /// Removes the member.
    fn remove(&mut self, key: &str);
    /// Sets a member that is absent or null: the default of a pointer field.
    fn default_to(&mut self, key: &str, value: impl Into<Value>);
    /// Sets a member that is absent, null, `""`, `0` or `false`: the default of a plain field.
    fn default_if_zero(&mut self, key: &str, value: impl Into<Value>);
    /// The member as an object. A member that is not an object is replaced by an empty one.
    fn object(&mut self, key: &str) -> &mut Value;
    /// The member, if it is present and not null.
    fn existing(&mut self, key: &str) -> Option<&mut Value>;
    /// The items of the member, or none.
    fn items_mut(&mut self, key: &str) -> &mut [Value];
    /// Copies the member from `other`, or removes it if `other` does not have it.
    fn copy_from(&mut self, key: &str, other: &Value);
}

impl Write for Value {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        self[key] = value.into();
    }

    fn remove(&mut self, key: &str) {
        if let Some(members) = self.as_object_mut() {
            members.remove(key);
        }
    }

    fn default_to(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.set(key, value);
        }
    }

    fn default_if_zero(&mut self, key: &str, value: impl Into<Value>) {
        if is_zero(self.at(key)) {
            self.set(key, value);
        }
    }

    fn object(&mut self, key: &str) -> &mut Value {
        if !self.at(key).is_object() {
            self.set(key, Map::new());
        }
        &mut self[key]
    }

    fn existing(&mut self, key: &str) -> Option<&mut Value> {
        self.get_mut(key).filter(|member| !member.is_null())
    }

    fn items_mut(&mut self, key: &str) -> &mut [Value] {
        let items = self.get_mut(key).and_then(Value::as_array_mut);
        items.map_or(&mut [], Vec::as_mut_slice)
    }

    fn copy_from(&mut self, key: &str, other: &Value) {
        match other.get(key) {
            Some(value) => self.set(key, value.clone()),
            None => self.remove(key),
        }
    }
}

/// Whether a value is a zero value of Go, or an empty list or map.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// A copy of `object` with `apiVersion` set.
pub(crate) fn with_api_version(object: &Value, api_version: &str) -> Value {
    let mut copy = object.clone();
    copy.set("apiVersion", api_version);
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_absent_reads_as_zero() {
        let object = json!({"a": null, "b": {"c": "x"}, "n": 3});
        assert_eq!(object.at("b").text("c"), "x");
        assert_eq!(object.at("z").at("y").text("x"), "");
        assert_eq!(object.count("n"), 3);
        assert_eq!(object.number("b"), None);
        assert!(object.items("a").is_empty() && object.entries("a").next().is_none());
        assert!(object.has("b") && !object.has("a") && !object.has("z"));
    }

    #[test]
    fn defaults_of_pointers_keep_zero_and_those_of_plain_fields_do_not() {
        let mut object = json!({"a": 0, "b": 0, "c": null});
        object.default_to("a", 1);
        object.default_if_zero("b", 1);
        object.default_to("c", 1);
        object.default_to("d", 1);
        assert_eq!(object, json!({"a": 0, "b": 1, "c": 1, "d": 1}));
    }
}
