//! A value without some of its fields.

use serde_json::{Map, Value};

use super::element::PathElement;
use super::set::FieldSet;
use super::type_ref::{Shaped, TypeRef};
use crate::schema::SchemaRef;

/// Takes fields out of a value. What loses everything becomes null.
pub(super) fn remove(value: &Value, fields: &FieldSet, schema: SchemaRef<'_>) -> Value {
    without(value, fields, TypeRef::root(schema))
}

fn without(value: &Value, fields: &FieldSet, type_ref: TypeRef<'_>) -> Value {
    match (type_ref.shaped(Some(value)), value) {
        (Shaped::Scalar(_), value) => value.clone(),
        (Shaped::List(list), Value::Array(items)) if !list.is_atomic() => {
            let kept = items.iter().filter_map(|item| {
                let Ok(element) = list.element(item) else {
                    return Some(item.clone());
                };
                if fields.has(&element) {
                    return None;
                }
                Some(match fields.below(&element) {
                    Some(below) => without(item, below, list.items),
                    None => item.clone(),
                })
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Shaped::Map(map), Value::Object(members)) if !map.is_atomic => {
            let kept = members.iter().filter_map(|(name, member)| {
                let element = PathElement::field(name);
                if fields.has(&element) {
                    return None;
                }
                let kept = match fields.below(&element) {
                    Some(below) => without(member, below, map.member_or_deduced(name).type_ref),
                    None => member.clone(),
                };
                Some((name.clone(), kept))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        _ => Value::Null,
    }
}
