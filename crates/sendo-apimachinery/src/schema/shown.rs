//! What Go's JSON encoder shows of a built-in type.
//!
//! A Kubernetes server decodes every object into a Go struct and encodes that
//! again, so a reader sees fields that nobody sent (`status: {}`, `rules: null`)
//! and misses fields that somebody did (`replicas: 0` where zero is left out).

use serde_json::{Value, json};

use super::{Empty, Field, Raw, Schema, SchemaRef, Shape};

/// Gives a value of a built-in type the fields that Go's encoder would show, and
/// takes those that it would not.
///
/// `null` stands for an absent field, as Go's decoder has it. Fields that the
/// schema does not name stay, for only a decoder knows what to do with them.
///
/// A list or map that is empty stays so where Go shows it.
pub fn show_as_go(schema: SchemaRef<'_>, value: &mut Value) {
    show(schema, value, Empties::Kept);
}

/// The same of a value that comes from a store, which knows no empty list or map
/// beside an absent one: both show as `null`.
pub fn show_as_stored(schema: SchemaRef<'_>, value: &mut Value) {
    show(schema, value, Empties::Null);
}

/// What becomes of empty lists and maps that Go shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empties {
    Kept,
    Null,
}

fn show(schema: SchemaRef<'_>, value: &mut Value, empties: Empties) {
    if value.is_null() {
        *value = zero(schema.shape());
    }
    match (schema.shape(), value) {
        (Shape::Object(object), Value::Object(map)) => {
            // Most have the right form already: then nothing is moved.
            let mut gone = Vec::new();
            for (name, value) in map.iter_mut() {
                if let Some(field) = object.field(name)
                    && !stays(schema.at(&field.schema), field, value, empties)
                {
                    gone.push(name.clone());
                }
            }
            for name in gone {
                map.remove(&name);
            }
            for field in object.always_shown() {
                if !map.contains_key(&*field.name) {
                    let value = absent(schema.at(&field.schema), field, empties);
                    map.insert(field.name.clone().into_owned(), value);
                }
            }
        }
        (Shape::List(list), Value::Array(items)) if !is_leaf(&list.items) => {
            let schema = schema.at(&list.items);
            items
                .iter_mut()
                .for_each(|item| show(schema, item, empties));
        }
        (Shape::Map(values), Value::Object(map)) if !is_leaf(values) => {
            let schema = schema.at(values);
            map.values_mut()
                .for_each(|value| show(schema, value, empties));
        }
        (Shape::Raw(_), value) => {
            if let Some(schema) = schema.nested_schema() {
                show_nested_schemas(schema, value, empties);
            }
        }
        _ => {}
    }
}

/// A schema, a list of schemas, or something with nothing to show.
fn show_nested_schemas(schema: SchemaRef<'_>, value: &mut Value, empties: Empties) {
    match value {
        Value::Object(_) => show(schema, value, empties),
        Value::Array(items) => {
            let schemas = items.iter_mut().filter(|item| item.is_object());
            schemas.for_each(|item| show(schema, item, empties));
        }
        _ => {}
    }
}

/// Gives the value of a field the form that Go shows; `false` if it shows none.
fn stays(schema: SchemaRef<'_>, field: &Field, value: &mut Value, empties: Empties) -> bool {
    if value.is_null() {
        let is_shown = field.is_always_shown();
        if is_shown {
            *value = absent(schema, field, empties);
        }
        return is_shown;
    }
    if matches!(value, Value::Array(_) | Value::Object(_)) {
        show(schema, value, empties);
    }
    let empty = !field.pointer && is_empty(schema.shape(), value);
    if empty && empties == Empties::Null && matches!(schema.shape(), Shape::List(_) | Shape::Map(_))
    {
        *value = Value::Null;
    }
    !(empty && field.empty == Empty::Omitted)
}

/// The value that Go shows for a field that is absent.
fn absent(schema: SchemaRef<'_>, field: &Field, empties: Empties) -> Value {
    let mut value = Value::Null;
    if !field.pointer {
        show(schema, &mut value, empties);
    }
    value
}

/// What `omitempty` leaves out.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    if shape.is_struct() {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The zero value of a type that is no pointer.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Boolean => json!(false),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => json!(0),
        Shape::String => json!(""),
        Shape::Quantity => json!("0"),
        Shape::Object(_) => json!({}),
        Shape::Any
        | Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::Raw(_)
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::Reference(_) => Value::Null,
    }
}

/// Elements of which none can be absent or hold absent fields.
fn is_leaf(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Any | Shape::Raw(Raw::Json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;

    fn shown(api_version: &str, kind: &str, mut value: Value) -> Value {
        let types = Types::builtin();
        show_as_go(types.kind(api_version, kind).unwrap(), &mut value);
        value
    }

    #[test]
    fn objects_that_are_no_pointers_are_always_shown() {
        let namespace = shown("v1", "Namespace", json!({"metadata": {"name": "a"}}));
        let expected = json!({"metadata": {"name": "a"}, "spec": {}, "status": {}});
        assert_eq!(namespace, expected);
    }

    #[test]
    fn an_absent_list_shows_as_null_unless_it_may_be_left_out() {
        let role = shown("rbac.authorization.k8s.io/v1", "Role", json!({}));
        assert_eq!(role, json!({"metadata": {}, "rules": null}));
        let map = shown("v1", "ConfigMap", json!({"data": {}, "binaryData": null}));
        assert_eq!(map, json!({"metadata": {}}));
    }

    #[test]
    fn an_empty_list_is_null_only_once_it_is_stored() {
        let types = Types::builtin();
        let schema = types
            .kind("rbac.authorization.k8s.io/v1", "Role")
            .expect("a built-in kind");
        let mut role = json!({"rules": []});
        show_as_go(schema, &mut role);
        assert_eq!(role["rules"], json!([]));
        show_as_stored(schema, &mut role);
        assert_eq!(role["rules"], Value::Null);
    }

    #[test]
    fn zero_is_left_out_where_go_cannot_tell_it_from_absent() {
        let scale = json!({"spec": {"replicas": 0}, "status": {"replicas": 0}});
        assert_eq!(
            shown("autoscaling/v1", "Scale", scale),
            json!({"metadata": {}, "spec": {}, "status": {"replicas": 0}})
        );
        let set = json!({"spec": {"replicas": 0, "minReadySeconds": 0, "selector": null}});
        let set = shown("apps/v1", "ReplicaSet", set);
        assert_eq!(set["spec"]["replicas"], 0);
        assert_eq!(set["spec"]["selector"], Value::Null);
        assert!(set["spec"].get("minReadySeconds").is_none());
    }

    #[test]
    fn elements_are_shown_like_fields() {
        let service = json!({"spec": {"ports": [{"port": 80}]}});
        let service = shown("v1", "Service", service);
        assert_eq!(
            service["spec"]["ports"],
            json!([{"port": 80, "targetPort": 0}])
        );
        let limits = json!({"spec": {"limits": [{"max": {"cpu": null}}]}});
        let limits = shown("v1", "LimitRange", limits);
        assert_eq!(
            limits["spec"]["limits"],
            json!([{"type": "", "max": {"cpu": "0"}}])
        );
    }
}
