//! The order of merged lists: patched items in the patch's order, the others
//! in the server's, and the two woven together.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Status;
use crate::go_text::go_value;

/// Puts merged items in order.
///
/// Items that `patch_order` names follow that order, the rest follows
/// `server_order`. Where one of each could come next, the server's comes first
/// only if the server knew both and had it first: so new items stand before
/// old ones, or right behind the patched item that they follow.
pub(super) fn arrange(
    items: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Status> {
    check_objects(&items, patch_order, key)?;
    let patch_places = places(patch_order, key)?;
    let server_places = places(server_order, key)?;
    let mut patched = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let identity = identity(&item, key)?;
        if patch_places.contains_key(&identity) {
            patched.push((identity, item));
        } else {
            others.push((identity, item));
        }
    }
    patched.sort_by_key(|(identity, _)| patch_places.get(identity).copied());
    others.sort_by_key(|(identity, _)| server_places.get(identity).copied());

    let mut sorted = Vec::with_capacity(patched.len() + others.len());
    let mut patched = patched.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let Some((next, _)) = patched.peek() {
        let here = server_places.get(next);
        let other_first = others.next_if(|(identity, _)| {
            here.zip(server_places.get(identity))
                .is_some_and(|(here, other)| other < here)
        });
        sorted.extend(other_first.or_else(|| patched.next()).map(|(_, item)| item));
    }
    sorted.extend(others.map(|(_, item)| item));
    Ok(sorted)
}

/// Refuses an order with something that is no object, if an item is looked for behind it.
fn check_objects(items: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    let (Some(key), Some(odd)) = (key, order.iter().position(|item| !item.is_object())) else {
        return Ok(());
    };
    let named = |item: &Value| order[..odd].iter().any(|own| own.get(key) == item.get(key));
    match items.iter().all(named) {
        true => Ok(()),
        false => Err(Status::unclassified(format!(
            "value for key {odd} is not a map"
        ))),
    }
}

/// The first position of each item.
fn places(items: &[Value], key: Option<&str>) -> Result<BTreeMap<String, usize>, Status> {
    let mut places = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        places.entry(identity(item, key)?).or_insert(i);
    }
    Ok(places)
}

fn identity(item: &Value, key: Option<&str>) -> Result<String, Status> {
    match (item, key) {
        (Value::Object(members), Some(key)) => members
            .get(key)
            .map(Value::to_string)
            .ok_or_else(|| no_merge_key(members, key)),
        (other, Some(_)) => Err(not_an_object(other)),
        (other, None) => Ok(other.to_string()),
    }
}

/// Checks that a patch list only has items that its order names, and in that order.
pub(super) fn check(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mismatch = || {
        let list = |items: &[Value]| go_value(&Value::Array(items.to_vec()));
        Status::unclassified(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            list(patch),
            list(order)
        ))
    };
    let mut named = order.iter().peekable();
    for item in patch {
        if key.is_some() && !item.is_object() {
            return Err(not_an_object(item));
        }
        match item.get("$patch").map(Value::as_str) {
            None => {
                let wanted = identity(item, key)?;
                while identity(named.next().ok_or_else(mismatch)?, key)? != wanted {}
            }
            Some(Some("delete")) => {}
            // Other directives need no place of their own, but the order may not end before them.
            Some(_) => {
                named.peek().ok_or_else(mismatch)?;
            }
        }
    }
    Ok(())
}

pub(super) fn no_merge_key(members: &Map<String, Value>, key: &str) -> Status {
    let members = go_value(&Value::Object(members.clone()));
    Status::unclassified(format!(
        "map: {members} does not contain declared merge key: {key}"
    ))
}

pub(super) fn not_an_object(value: &Value) -> Status {
    Status::unclassified(format!(
        "expected a map[string]interface {{}}, but received a {}",
        go_type(value)
    ))
}

/// The name of the Go type that a JSON value is read into.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
