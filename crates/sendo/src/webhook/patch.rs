//! The change that a handler made, as a JSON patch of the object as it was sent.
//!
//! A handler sees the object as a Rust type, which does not know every field that the API
//! server sent. So the object is never written anew: what differs between the type before and
//! after the handler is laid over the object as it was sent, and the patch is what that changed.

use serde_json::{Map, Value, json};

/// Lists whose lengths multiplied are above this are not compared item by item.
const COMPARED: usize = 1 << 20;

/// `sent` with every change that leads from `before` to `after`, two readings of it by one type.
///
/// What the type does not know stays as it is, in the items of lists too: an item is recognised
/// by its `name`, or by its being unchanged, or by its place between items that are.
pub(super) fn overlay(sent: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return sent.clone();
    }
    match (sent, before, after) {
        (Value::Object(sent), Value::Object(before), Value::Object(after)) => {
            Value::Object(overlay_members(sent, before, after))
        }
        (Value::Array(sent), Value::Array(before), Value::Array(after))
            if sent.len() == before.len() =>
        {
            let origins = origins(before, after);
            let items = after.iter().zip(origins);
            let overlaid = items.map(|(item, origin)| match origin {
                Some(origin) => overlay(&sent[origin], &before[origin], item),
                None => item.clone(),
            });
            Value::Array(overlaid.collect())
        }
        _ => after.clone(),
    }
}

fn overlay_members(
    sent: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut members = sent.clone();
    for (name, value) in after {
        let changed = match (before.get(name), sent.get(name)) {
            (Some(known), _) if known == value => continue,
            (Some(known), Some(sent)) => overlay(sent, known, value),
            // The type filled it in when it read the object, and only what the handler changed
            // of it is the handler's.
            (Some(known), None) => changed_members(known, value),
            (None, _) => value.clone(),
        };
        members.insert(name.clone(), changed);
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        members.remove(name);
    }
    members
}

/// The members of `after` that are others than in `before`.
fn changed_members(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let changed = after.iter().filter_map(|(name, value)| {
        let changed = match before.get(name) {
            Some(known) if known == value => return None,
            Some(known) => changed_members(known, value),
            None => value.clone(),
        };
        Some((name.clone(), changed))
    });
    Value::Object(changed.collect())
}

/// For each item of `after`, the place it had in `before`.
fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    if let (Some(old), Some(new)) = (names(before), names(after)) {
        let place = |name: &&str| old.iter().position(|known| known == name);
        return new.iter().map(place).collect();
    }
    let mut origins = vec![None; after.len()];
    for (old, new) in gaps(before, after, &mut origins) {
        // As many as there were: each is taken for the one in its place.
        if old.len() == new.len() {
            for (old, new) in old.zip(new) {
                origins[new] = Some(old);
            }
        }
    }
    origins
}

/// The names of all items, if each has one and no two have the same.
fn names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<_>> = items
        .iter()
        .map(|item| item.get("name")?.as_str())
        .collect();
    let names = names?;
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == names.len()).then_some(names)
}

type Gap = (std::ops::Range<usize>, std::ops::Range<usize>);

/// Notes the items that are unchanged, and returns the runs between them.
fn gaps(before: &[Value], after: &[Value], origins: &mut [Option<usize>]) -> Vec<Gap> {
    let shorter = before.len().min(after.len());
    let head = (0..shorter)
        .take_while(|at| before[*at] == after[*at])
        .count();
    let (old_end, new_end) = (before.len(), after.len());
    let tail = (1..=shorter - head)
        .take_while(|back| before[old_end - back] == after[new_end - back])
        .count();
    for (at, origin) in origins.iter_mut().enumerate().take(head) {
        *origin = Some(at);
    }
    for back in 1..=tail {
        origins[new_end - back] = Some(old_end - back);
    }
    let (old, new) = (head..old_end - tail, head..new_end - tail);
    let mut gaps = Vec::new();
    let (mut old_from, mut new_from) = (old.start, new.start);
    for (old_at, new_at) in common_items(&before[old.clone()], &after[new.clone()]) {
        let (old_at, new_at) = (old.start + old_at, new.start + new_at);
        origins[new_at] = Some(old_at);
        gaps.push((old_from..old_at, new_from..new_at));
        (old_from, new_from) = (old_at + 1, new_at + 1);
    }
    gaps.push((old_from..old.end, new_from..new.end));
    gaps
}

/// A longest run of items that both have in the same order, each by its two places.
fn common_items(before: &[Value], after: &[Value]) -> Vec<(usize, usize)> {
    let (rows, columns) = (before.len(), after.len());
    if rows.saturating_mul(columns) > COMPARED {
        return Vec::new();
    }
    let width = columns + 1;
    let mut lengths = vec![0_u32; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            lengths[row * width + column] = if before[row] == after[column] {
                lengths[(row + 1) * width + column + 1] + 1
            } else {
                let (below, right) = (
                    lengths[(row + 1) * width + column],
                    lengths[row * width + column + 1],
                );
                below.max(right)
            };
        }
    }
    let (mut row, mut column, mut common) = (0, 0, Vec::new());
    while row < rows && column < columns {
        if before[row] == after[column] {
            common.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if lengths[(row + 1) * width + column] >= lengths[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    common
}

/// The operations of RFC 6902 that make `to` of `from`; none if they are equal.
pub(super) fn json_patch(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(&mut String::new(), from, to, &mut operations);
    operations
}

fn compare(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    if from == to {
        return;
    }
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                let path = format!("{path}/{}", escaped(name));
                operations.push(json!({"op": "remove", "path": path}));
            }
            for (name, value) in to {
                let length = path.len();
                path.push('/');
                path.push_str(&escaped(name));
                match from.get(name) {
                    Some(known) => compare(path, known, value, operations),
                    None => operations.push(json!({"op": "add", "path": &*path, "value": value})),
                }
                path.truncate(length);
            }
        }
        (Value::Array(from), Value::Array(to)) => compare_items(path, from, to, operations),
        _ => operations.push(json!({"op": "replace", "path": &*path, "value": to})),
    }
}

fn compare_items(path: &mut String, from: &[Value], to: &[Value], operations: &mut Vec<Value>) {
    let shorter = from.len().min(to.len());
    // Of lists of one length each item is compared with the one in its place.
    let (mut head, mut tail) = (shorter, 0);
    if from.len() != to.len() {
        head = (0..shorter).take_while(|at| from[*at] == to[*at]).count();
        let same = |back: &usize| from[from.len() - back] == to[to.len() - back];
        tail = (1..=shorter - head).take_while(same).count();
    }
    let (old, new) = (from.len() - tail, to.len() - tail);
    let both = old.min(new);
    for at in (0..both).filter(|at| *at >= head || from.len() == to.len()) {
        let length = path.len();
        path.push_str(&format!("/{at}"));
        compare(path, &from[at], &to[at], operations);
        path.truncate(length);
    }
    for at in (both..old).rev() {
        operations.push(json!({"op": "remove", "path": format!("{path}/{at}")}));
    }
    for (at, item) in to.iter().enumerate().take(new).skip(both) {
        operations.push(json!({"op": "add", "path": format!("{path}/{at}"), "value": item}));
    }
}

/// A name as a part of a path (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the operations make of `object`.
    fn apply(mut object: Value, operations: &[Value]) -> Value {
        for operation in operations {
            let path = operation["path"].as_str().unwrap();
            let Some((parent, last)) = path.rsplit_once('/') else {
                object = operation["value"].clone();
                continue;
            };
            let last = last.replace("~1", "/").replace("~0", "~");
            let value = operation["value"].clone();
            match (
                object.pointer_mut(parent).unwrap(),
                operation["op"].as_str(),
            ) {
                (Value::Object(members), Some("remove")) => {
                    members.remove(&last).unwrap();
                }
                (Value::Object(members), _) => {
                    members.insert(last, value);
                }
                (Value::Array(items), Some("remove")) => {
                    items.remove(last.parse().unwrap());
                }
                (Value::Array(items), Some("add")) => {
                    items.insert(last.parse().unwrap(), value);
                }
                (Value::Array(items), _) => items[last.parse::<usize>().unwrap()] = value,
                (other, _) => panic!("{other} has no members"),
            }
        }
        object
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4_i32).prop_map(Value::from),
            "[a-b]".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]|name", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_object_to_the_other(from in value(), to in value()) {
            let patch = json_patch(&from, &to);
            prop_assert_eq!(apply(from, &patch), to);
        }

        #[test]
        fn what_a_handler_did_not_change_is_not_patched(sent in value(), seen in value()) {
            prop_assert_eq!(overlay(&sent, &seen, &seen), sent);
        }

        #[test]
        fn an_object_that_the_type_knows_wholly_becomes_what_the_handler_made(
            before in value(), after in value(),
        ) {
            prop_assert_eq!(overlay(&before, &before, &after), after);
        }
    }

    #[test]
    fn unknown_fields_survive_beside_changed_ones() {
        let sent = json!({"spec": {"a": 1, "new": {"x": 1}}, "kind": "Bar"});
        let before = json!({"spec": {"a": 1, "filledIn": {"b": 0, "c": 0}}});
        let after = json!({"spec": {"a": 2, "filledIn": {"b": 0, "c": 1}}});
        let target = overlay(&sent, &before, &after);
        let expected =
            json!({"spec": {"a": 2, "filledIn": {"c": 1}, "new": {"x": 1}}, "kind": "Bar"});
        assert_eq!(target, expected);
        let patch = json_patch(&sent, &target);
        let expected = [
            json!({"op": "replace", "path": "/spec/a", "value": 2}),
            json!({"op": "add", "path": "/spec/filledIn", "value": {"c": 1}}),
        ];
        assert_eq!(patch, expected);
    }

    #[test]
    fn unknown_fields_of_list_items_survive_whatever_happens_to_the_list() {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let mut sent = json!([container("a", "1"), container("b", "1")]);
        sent[0]["new"] = json!("of a");
        sent[1]["new"] = json!("of b");
        let before = json!([container("a", "1"), container("b", "1")]);
        // One is put first, one goes, one is changed.
        let after = json!([container("sidecar", "1"), container("b", "2")]);
        let expected = json!([
            container("sidecar", "1"),
            {"name": "b", "image": "2", "new": "of b"},
        ]);
        assert_eq!(overlay(&sent, &before, &after), expected);

        let sent = json!([{"v": 1, "new": 1}, {"v": 2, "new": 2}, {"v": 3, "new": 3}]);
        let before = json!([{"v": 1}, {"v": 2}, {"v": 3}]);
        let after = json!([{"v": 2}, {"v": 4}]);
        let expected = json!([{"v": 2, "new": 2}, {"v": 4, "new": 3}]);
        assert_eq!(overlay(&sent, &before, &after), expected);
    }

    #[test]
    fn a_list_that_grows_is_not_sent_whole() {
        let patch = json_patch(&json!({"l": [1, 2, 3]}), &json!({"l": [0, 1, 2, 3]}));
        assert_eq!(patch, [json!({"op": "add", "path": "/l/0", "value": 0})]);
        let patch = json_patch(&json!({"l": [1, 2, 3]}), &json!({"l": [1, 3]}));
        assert_eq!(patch, [json!({"op": "remove", "path": "/l/1"})]);
    }
}
