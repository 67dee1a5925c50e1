//! Strategic merge patches.

mod order;
mod schema;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Status;
use crate::go_text::{go_string, go_value};

/// What a strategic merge has to know of an object's type.
///
/// Kinds are described by data, so this is looked up while merging:
/// which type has this member, and how does it merge?
pub trait PatchType: Sized {
    /// The type of a member that is an object or a map. `None` if there is no such member.
    fn member(&self, name: &str) -> Option<(Self, MapStrategy)>;

    /// The type of the items of a member that is a list. `None` if there is no such member.
    fn list(&self, name: &str) -> Option<(Self, ListStrategy)>;

    /// The name of the type, for messages.
    fn type_name(&self) -> String;
}

/// How a member that is an object is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapStrategy {
    /// Member by member.
    Merge,
    /// As a whole.
    Replace,
}

/// How a member that is a list is patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListStrategy {
    /// As a whole.
    Replace,
    /// Item by item: objects with the same value of `key` are merged; plain
    /// values, which have no key, are joined.
    Merge {
        /// The member that identifies an item.
        key: Option<String>,
    },
}

impl ListStrategy {
    fn key(&self) -> Option<&str> {
        match self {
            ListStrategy::Replace => None,
            ListStrategy::Merge { key } => key.as_deref(),
        }
    }
}

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of the given type.
///
/// What is left of the patch is what it says without the directives that were carried out, which
/// is how Kubernetes shows it if the outcome is none of the kind.
///
/// On an error the object is left half changed: the caller throws it away.
pub fn strategic_merge_patch(
    object: &mut Value,
    patch: &mut Value,
    kind: &impl PatchType,
) -> Result<(), Status> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(()),
        other => {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::merge::json_type(other)
            )));
        }
    };
    let original = match object.take() {
        Value::Object(original) => original,
        _ => Object::new(),
    };
    *object = Value::Object(merge_objects(original, patch, kind)?);
    Ok(())
}

fn merge_objects<T: PatchType>(
    mut original: Object,
    patch: &mut Object,
    kind: &T,
) -> Result<Object, Status> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    merge_ordered_lists(&mut original, patch, kind)?;
    for (name, patch) in patch {
        if let Some(list) = directive_target(name, DELETE_FROM_LIST)? {
            delete_from_list(&mut original, list, patch, kind)?;
        } else if patch.is_null() {
            original.remove(name);
        } else {
            merge_member(&mut original, name, patch, kind)?;
        }
    }
    Ok(original)
}

fn merge_member<T: PatchType>(
    original: &mut Object,
    name: &str,
    patch: &mut Value,
    kind: &T,
) -> Result<(), Status> {
    let merged = match (original.remove(name), patch) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let (kind, strategy) = kind.member(name).ok_or_else(|| no_member(kind, name))?;
            Some(Value::Object(match strategy {
                MapStrategy::Merge => merge_objects(old, patch, &kind)?,
                MapStrategy::Replace => patch.clone(),
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let (kind, strategy) = kind.list(name).ok_or_else(|| no_member(kind, name))?;
            Some(Value::Array(match strategy {
                ListStrategy::Merge { key } => merge_lists(old, patch, key.as_deref(), &kind)?,
                ListStrategy::Replace => patch.clone(),
            }))
        }
        (_, patch) => {
            discard_nulls(patch);
            without_directives(patch.clone())
        }
    };
    if let Some(merged) = merged {
        original.insert(name.to_owned(), merged);
    }
    Ok(())
}

/// `$retainKeys`: members of the original that the list does not name go.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad_format = || Status::bad_request("invalid patch format of retainKeys");
    let keys: Vec<&str> = keys
        .as_array()
        .ok_or_else(bad_format)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let unlisted = patch.iter().any(|(name, value)| {
        !value.is_null()
            && !name.starts_with(DELETE_FROM_LIST)
            && !name.starts_with(ELEMENT_ORDER)
            && !keys.contains(&name.as_str())
    });
    if unlisted {
        return Err(bad_format());
    }
    original.retain(|name, _| keys.contains(&name.as_str()));
    Ok(())
}

/// `$setElementOrder/x`: merges the lists named so and puts them in that order.
fn merge_ordered_lists<T: PatchType>(
    original: &mut Object,
    patch: &mut Object,
    kind: &T,
) -> Result<(), Status> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = expect_list(patch.remove(&directive).unwrap_or_default())?;
        let Some(name) = directive_target(&directive, ELEMENT_ORDER)? else {
            continue;
        };
        let old = original.get(name).cloned().map(expect_list).transpose()?;
        let new = patch.get(name).cloned().map(expect_list).transpose()?;
        let (items, strategy) = kind.list(name).ok_or_else(|| no_member(kind, name))?;
        let key = strategy.key();
        if let Some(new) = &new {
            order::check(new, &order, key)?;
        }
        let server_order = old.clone().unwrap_or_default();
        let example = old
            .iter()
            .chain(&new)
            .flatten()
            .next()
            .map(Value::is_object);
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => match &strategy {
                ListStrategy::Merge { key } => {
                    merge_lists(old, &mut { new }, key.as_deref(), &items)?
                }
                ListStrategy::Replace => new,
            },
        };
        if example.is_none() {
            return Err(Status::unclassified(
                "no elements in any of the given slices",
            ));
        }
        let sorted = order::arrange(merged, &order, &server_order, key)?;
        original.insert(name.to_owned(), Value::Array(sorted));
        patch.remove(name);
    }
    Ok(())
}

/// `$deleteFromPrimitiveList/x`: takes values out of a list.
fn delete_from_list<T: PatchType>(
    original: &mut Object,
    name: &str,
    doomed: &Value,
    kind: &T,
) -> Result<(), Status> {
    if doomed.is_null() {
        original.remove(name);
        return Ok(());
    }
    let (Some(Value::Array(items)), Value::Array(doomed)) = (original.get_mut(name), doomed) else {
        return Ok(());
    };
    if kind.list(name).is_none() {
        return Err(no_member(kind, name));
    }
    same_types([items.as_slice(), doomed.as_slice()])?;
    let doomed: Vec<String> = doomed.iter().map(Value::to_string).collect();
    let doomed: std::collections::BTreeSet<String> = doomed.into_iter().collect();
    items.retain(|item| !doomed.contains(&item.to_string()));
    Ok(())
}

fn merge_lists<T: PatchType>(
    original: Vec<Value>,
    patch: &mut [Value],
    key: Option<&str>,
    kind: &T,
) -> Result<Vec<Value>, Status> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let of_objects = same_types([&original, patch])?;
    if !of_objects {
        let merged = without_repeats(original.iter().chain(&*patch).cloned());
        return order::arrange(merged, patch, &original, None);
    }
    let Some(key) = key else {
        return Err(Status::unclassified(format!(
            "cannot merge lists without merge key for {}",
            kind.type_name()
        )));
    };
    let (original, rest) = take_special_items(original, patch, key)?;
    let order: Vec<Value> = rest.iter().map(|item| (**item).clone()).collect();
    let server_order = original.clone();
    let merged = merge_items(original, rest, key, kind)?;
    order::arrange(merged, &order, &server_order, Some(key))
}

/// Carries out the items that are directives: `$patch: delete` and `$patch: replace`.
fn take_special_items<'p>(
    mut original: Vec<Value>,
    patch: &'p mut [Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<&'p mut Value>), Status> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut doomed = std::collections::BTreeSet::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(members) = &*item else {
            return Err(order::not_an_object(item));
        };
        match members.get(DIRECTIVE).map(Value::as_str) {
            None => rest.push(item),
            Some(Some("delete")) => {
                let value = members
                    .get(key)
                    .ok_or_else(|| order::no_merge_key(members, key))?;
                doomed.insert(value.to_string());
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(Status::unclassified(message));
            }
            Some(_) => return Err(unknown_directive(members)),
        }
    }
    if replace {
        let rest = rest.into_iter().map(|item| item.clone()).collect();
        return Ok((rest, Vec::new()));
    }
    original.retain(|item| {
        !item
            .get(key)
            .is_some_and(|v| doomed.contains(&v.to_string()))
    });
    Ok((original, rest))
}

fn merge_items<T: PatchType>(
    mut items: Vec<Value>,
    patch: Vec<&mut Value>,
    key: &str,
    kind: &T,
) -> Result<Vec<Value>, Status> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_insert(i);
        }
    }
    for item in patch {
        let Value::Object(members) = item else {
            return Err(order::not_an_object(item));
        };
        let value = members
            .get(key)
            .ok_or_else(|| order::no_merge_key(members, key))?;
        match places.get(&value.to_string()) {
            Some(&place) => {
                let Value::Object(old) = items[place].take() else {
                    return Err(Status::unclassified(format!(
                        "value for key {place} is not a map"
                    )));
                };
                items[place] = Value::Object(merge_objects(old, members, kind)?);
            }
            None => {
                places.insert(value.to_string(), items.len());
                items.push(Value::Object(members.clone()));
            }
        }
    }
    Ok(items)
}

fn without_repeats(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut seen = std::collections::BTreeSet::new();
    items.filter(|item| seen.insert(item.to_string())).collect()
}

/// Whether the items of lists are objects; all must be of one type, and not lists.
fn same_types(lists: [&[Value]; 2]) -> Result<bool, Status> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Ok(false);
    };
    if first.is_array() {
        return Err(Status::unprocessable());
    }
    let first_type = std::mem::discriminant(first);
    if items.any(|item| std::mem::discriminant(item) != first_type) {
        let all = lists.map(|items| go_value(&Value::Array(items.to_vec())));
        return Err(Status::unclassified(format!(
            "list element types are not identical: [{}]",
            all.join(" ")
        )));
    }
    Ok(first.is_object())
}

/// A part of a patch that is put in place as it is: objects that are directives are not.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let members = members.into_iter();
            Some(Value::Object(
                members
                    .filter_map(|(k, v)| Some((k, without_directives(v)?)))
                    .collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The list that a directive like `$setElementOrder/finalizers` names.
fn directive_target<'a>(name: &'a str, directive: &str) -> Result<Option<&'a str>, Status> {
    if !name.starts_with(directive) {
        return Ok(None);
    }
    match name.split_once('/') {
        Some((prefix, target)) if prefix == directive => Ok(Some(target)),
        _ => Err(Status::bad_request(match directive {
            DELETE_FROM_LIST => "invalid patch format of primitive list",
            _ => "invalid patch format of setElementOrder list",
        })),
    }
}

fn expect_list(value: Value) -> Result<Vec<Value>, Status> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(Status::unclassified(format!(
            "expected a []interface {{}}, but received a {}",
            order::go_type(&other)
        ))),
    }
}

fn unknown_directive(patch: &Object) -> Status {
    let directive = patch.get(DIRECTIVE).map(go_string).unwrap_or_default();
    let patch = go_value(&Value::Object(patch.clone()));
    Status::unclassified(format!("unknown patch type: {directive} in map: {patch}"))
}

fn no_member(kind: &impl PatchType, name: &str) -> Status {
    Status::unclassified(format!(
        "unable to find api field in struct {} for the json field {}",
        kind.type_name(),
        crate::go_quote(name)
    ))
}

#[cfg(test)]
mod tests;
