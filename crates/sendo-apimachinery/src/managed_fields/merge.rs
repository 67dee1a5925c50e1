//! A live value and what is applied to it, made one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::PathElement;
use super::type_ref::{ListOf, MapOf, Shaped, TypeRef, items, members};
use crate::schema::SchemaRef;

/// Merges what is applied into what is live. What both have is that of the applied one.
pub(super) fn merge(live: &Value, applied: &Value, schema: SchemaRef<'_>) -> Result<Value, String> {
    let merged = values(TypeRef::root(schema), Some(live), Some(applied))?;
    Ok(merged.unwrap_or(Value::Null))
}

/// `None` if nothing is left.
fn values(
    type_ref: TypeRef<'_>,
    live: Option<&Value>,
    applied: Option<&Value>,
) -> Result<Option<Value>, String> {
    let shape = type_ref.shaped(if applied.is_some() { applied } else { live });
    let keep = || Ok(applied.or(live).cloned());
    match shape {
        Shaped::Scalar(_) => keep(),
        Shaped::List(list) => {
            let (live, applied) = (items(live), items(applied));
            let is_empty = |items: Option<&[Value]>| items.is_none_or(<[Value]>::is_empty);
            if list.is_atomic() || (is_empty(live) && is_empty(applied)) {
                return keep();
            }
            merge_items(&list, live.unwrap_or_default(), applied.unwrap_or_default())
        }
        Shaped::Map(map) => {
            let (live, applied) = (members(live), members(applied));
            let is_empty = |m: Option<&Map<String, Value>>| m.is_none_or(|m| m.is_empty());
            if map.is_atomic || (is_empty(live) && is_empty(applied)) {
                return keep();
            }
            merge_members(&map, live, applied)
        }
    }
}

fn merge_members(
    map: &MapOf<'_>,
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
) -> Result<Option<Value>, String> {
    let mut merged = Map::new();
    for name in live
        .into_iter()
        .chain(applied)
        .flat_map(|members| members.keys())
    {
        if merged.contains_key(name) {
            continue;
        }
        let type_ref = map.member_or_deduced(name).type_ref;
        let live = live.and_then(|members| members.get(name));
        let applied = applied.and_then(|members| members.get(name));
        if let Some(value) = values(type_ref, live, applied)? {
            merged.insert(name.clone(), value);
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

/// Merges associative lists.
///
/// The applied items keep their order among each other; a live one that is not
/// applied stays behind the item it followed.
fn merge_items(
    list: &ListOf<'_>,
    live: &[Value],
    applied: &[Value],
) -> Result<Option<Value>, String> {
    let (applied_order, applied_items) = index(list, applied, Repeats::Refused)?;
    let (live_order, live_items) = index(list, live, Repeats::Allowed)?;
    let mut shared = applied_order
        .iter()
        .filter(|element| live_items.contains_key(*element))
        .peekable();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut taken = std::collections::BTreeSet::new();
    let mut merge_one = |live: Option<&Value>, applied: Option<&Value>| {
        values(list.items, live, applied).map(|value| merged.extend(value))
    };
    let (mut l, mut a) = (0, 0);
    while l < live_order.len() || a < applied_order.len() {
        if let (Some(here), Some(next)) = (live_order.get(l), applied_order.get(a)) {
            if here == next {
                merge_one(live_items[here], applied_items[here])?;
                taken.insert(here);
                l += 1;
                a += 1;
                shared.next();
                continue;
            }
            // An applied item that is still to come: it finds its place with its own kind.
            if applied_items.contains_key(here) && shared.peek().is_some_and(|next| *next != here) {
                l += 1;
                continue;
            }
        }
        if let Some(here) = live_order.get(l) {
            if !applied_items.contains_key(here) {
                merge_one(Some(&live[l]), None)?;
                l += 1;
                continue;
            }
            if taken.contains(here) {
                l += 1;
            }
        }
        if let Some(next) = applied_order.get(a) {
            let live = live_items.get(next).copied().flatten();
            merge_one(live, applied_items[next])?;
            taken.insert(next);
            a += 1;
            if shared.peek() == Some(&next) {
                shared.next();
            }
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Refused,
    Allowed,
}

type Indexed<'v> = (Vec<PathElement>, BTreeMap<PathElement, Option<&'v Value>>);

/// The order of a list's items, and each by what identifies it; one that is there twice is nobody's.
fn index<'v>(
    list: &ListOf<'_>,
    items: &'v [Value],
    repeats: Repeats,
) -> Result<Indexed<'v>, String> {
    let mut order = Vec::with_capacity(items.len());
    let mut by_element = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        let element = list
            .element(item)
            .map_err(|e| format!("element {i}: {e}"))?;
        match by_element.get_mut(&element) {
            None => {
                by_element.insert(element.clone(), Some(item));
            }
            Some(_) if repeats == Repeats::Refused => {
                return Err(format!("duplicate entries for key {element}"));
            }
            Some(first) => *first = None,
        }
        order.push(element);
    }
    Ok((order, by_element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, List, ListType, Schema, Shape, Types};

    fn merged(live: &str, applied: &str) -> String {
        let set = Schema::new(Shape::List(List {
            items: Box::new(Schema::new(Shape::String)),
            list_type: Some(ListType::Set),
        }));
        let schema = Schema::object(vec![Field::new("l", set)]);
        let types = Types::builtin();
        let object = |items: &str| {
            let items: Vec<String> = items.chars().map(String::from).collect();
            serde_json::json!({ "l": items })
        };
        let merged = merge(&object(live), &object(applied), types.view(&schema)).unwrap();
        merged["l"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    #[test]
    fn applied_items_keep_their_order_among_live_ones() {
        let cases = [
            ("ABCDE", "BA", "BCDEA"),
            ("ABCDE", "xEyAz", "BCDxEyAz"),
            ("ABCDE", "DxB", "ACDExB"),
            ("ABCDE", "Ax", "ABCDEx"),
            ("ABCDE", "", "ABCDE"),
            ("", "AB", "AB"),
            ("ABC", "CBA", "CBA"),
        ];
        for (live, applied, expected) in cases {
            assert_eq!(merged(live, applied), expected, "{live} + {applied}");
        }
    }
}
