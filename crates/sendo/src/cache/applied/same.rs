//! Whether an object that is to be applied says just what is owned and there.
//!
//! Paths are written as in `fieldsV1` (Kubernetes: `structured-merge-diff`,
//! `fieldpath/serialize.go`): `f:name` is a member, `k:{...}` the element of a list
//! with these keys, `v:value` an element of a set, `.` the value itself. What has
//! no path below it is owned whole.

use serde_json::{Map, Value};

/// What is never owned (`apimachinery/pkg/util/managedfields/internal/stripmeta.go`).
const NOT_OWNED: [&str; 8] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Whether applying `wanted` would change neither values nor ownership, if the
/// manager owns `paths` and the object is `live`.
///
/// `true` is certain; `false` may also mean that it is not known.
pub(super) fn changes_nothing(paths: &Value, wanted: &Value, live: &Value) -> bool {
    let (Value::Object(paths), Value::Object(wanted)) = (paths, wanted) else {
        return false;
    };
    let mut wanted = wanted.clone();
    wanted.remove("apiVersion");
    wanted.remove("kind");
    if let Some(Value::Object(metadata)) = wanted.get_mut("metadata") {
        metadata.retain(|name, _| !NOT_OWNED.contains(&name.as_str()));
        if metadata.is_empty() {
            wanted.remove("metadata");
        }
    }
    are_members(paths, &wanted, live)
}

/// Whether of what is owned whole by `paths` nothing is owned in part by `others`.
///
/// What is owned whole and is an object or a list is of a type that has no parts for ownership; or
/// it was empty when it was applied, and has got parts since from others. Nothing else
/// distinguishes the two.
pub(super) fn is_clear_beside(paths: &Value, others: &Value) -> bool {
    let (Value::Object(paths), Value::Object(others)) = (paths, others) else {
        return true;
    };
    paths.iter().all(|(step, below)| {
        let Some(other) = others.get(step) else {
            return true;
        };
        match is_whole(below) {
            true => step == "." || is_whole(other),
            false => is_clear_beside(below, other),
        }
    })
}

fn is_whole(paths: &Value) -> bool {
    paths.as_object().is_none_or(|paths| parts(paths) == 0)
}

fn parts(paths: &Map<String, Value>) -> usize {
    paths.len() - usize::from(paths.contains_key("."))
}

fn is_same(paths: &Value, wanted: &Value, live: &Value) -> bool {
    let Value::Object(paths) = paths else {
        return false;
    };
    if parts(paths) == 0 {
        return wanted == live;
    }
    match wanted {
        Value::Object(wanted) => are_members(paths, wanted, live),
        Value::Array(wanted) => are_elements(paths, wanted, live),
        _ => false,
    }
}

/// Each path is a member, and each member has a path.
fn are_members(paths: &Map<String, Value>, wanted: &Map<String, Value>, live: &Value) -> bool {
    parts(paths) == wanted.len()
        && wanted.iter().all(|(name, wanted)| {
            let path = paths.get(&format!("f:{name}"));
            let found = path.zip(live.get(name));
            found.is_some_and(|(path, live)| is_same(path, wanted, live))
        })
}

/// Each path is an element, each element has a path, and the live ones are in the
/// order of these.
fn are_elements(paths: &Map<String, Value>, wanted: &[Value], live: &Value) -> bool {
    let Value::Array(live) = live else {
        return false;
    };
    if parts(paths) != wanted.len() {
        return false;
    }
    let mut taken = Vec::new();
    let mut rest = live.iter();
    wanted.iter().all(|element| {
        let Some((step, found)) = find(paths, element) else {
            return false;
        };
        if taken.contains(&step) {
            return false;
        }
        taken.push(step);
        // Found behind the one before, or out of order.
        rest.by_ref().any(|live| match found {
            Element::Value => live == element,
            Element::Keyed(ref keys, _) => keys.iter().all(|(name, key)| live.get(name) == Some(key)),
        } && match found {
            Element::Value => true,
            Element::Keyed(_, paths) => is_same(paths, element, live),
        })
    })
}

enum Element<'p> {
    Value,
    Keyed(Map<String, Value>, &'p Value),
}

/// The path of an element. One that leaves out a key has it by default: then the
/// key is not among what is owned of it either.
fn find<'p>(paths: &'p Map<String, Value>, element: &Value) -> Option<(&'p str, Element<'p>)> {
    let mut found = None;
    for (step, below) in paths.iter().filter(|(step, _)| *step != ".") {
        let this = if let Some(value) = step.strip_prefix("v:") {
            let value: Value = serde_json::from_str(value).ok()?;
            (value == *element).then_some(Element::Value)
        } else {
            let keys: Map<String, Value> = serde_json::from_str(step.strip_prefix("k:")?).ok()?;
            let fits = |(name, key): (&String, &Value)| match element.get(name) {
                Some(wanted) => wanted == key,
                None => !is_whole(below) && below.get(format!("f:{name}")).is_none(),
            };
            let fits = element.is_object() && keys.iter().all(fits);
            fits.then_some(Element::Keyed(keys, below))
        };
        if let Some(this) = this
            && found.replace((step.as_str(), this)).is_some()
        {
            return None; // Two that it may be.
        }
    }
    found
}
