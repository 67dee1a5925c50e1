//! Two changes of one status, brought together.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The member that holds conditions, by Kubernetes' API conventions: a list in
/// which each `type` stands once.
const CONDITIONS: &str = "conditions";

/// Whether a merge patch of `before` replaces or removes a list, which such
/// patches can only do as a whole.
pub(super) fn touches_list(before: &Value, patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(members) => {
            let touches = |(name, patch): (&String, &Value)| touches_list(&before[name], patch);
            members.iter().any(touches)
        }
        _ => has_list(before),
    }
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(members) => members.values().any(has_list),
        _ => false,
    }
}

/// What comes of `before` if one has made `ours` of it and another `theirs`.
///
/// Members and conditions that only one has changed are as that one made them; of
/// those that both have changed, ours count. `None` if both have changed a list
/// of which it is not known what its elements are.
pub(super) fn merge(before: &Value, ours: &Value, theirs: &Value) -> Option<Value> {
    if ours == before || ours == theirs {
        return Some(theirs.clone());
    }
    if theirs == before {
        return Some(ours.clone());
    }
    match (before, ours, theirs) {
        (before, Value::Object(ours), Value::Object(theirs)) => {
            let nothing = Map::new();
            let before = before.as_object().unwrap_or(&nothing);
            merge_members(before, ours, theirs).map(Value::Object)
        }
        (_, Value::Array(_), _) | (_, _, Value::Array(_)) => None,
        _ => Some(ours.clone()),
    }
}

fn merge_members(
    before: &Map<String, Value>,
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut merged = Map::new();
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    for name in names {
        let of = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
        let (before, ours, theirs) = (of(before), of(ours), of(theirs));
        let value = match name.as_str() {
            CONDITIONS => merge_conditions(&before, &ours, &theirs)?,
            _ => merge(&before, &ours, &theirs)?,
        };
        if !value.is_null() {
            merged.insert(name.clone(), value);
        }
    }
    Some(merged)
}

/// In the order of theirs; what is new in ours comes last.
fn merge_conditions(before: &Value, ours: &Value, theirs: &Value) -> Option<Value> {
    let lists = (by_type(before), by_type(ours), by_type(theirs));
    let (Some(before), Some(ours), Some(theirs)) = lists else {
        return merge(before, ours, theirs);
    };
    let find = |list: &[(&str, &Value)], kind: &str| {
        let found = list.iter().find(|(known, _)| *known == kind);
        found.map(|(_, condition)| (*condition).clone())
    };
    let mut merged = Vec::new();
    let new = ours
        .iter()
        .filter(|(kind, _)| find(&theirs, kind).is_none());
    for (kind, _) in theirs.iter().chain(new) {
        let (before, ours, theirs) = (find(&before, kind), find(&ours, kind), find(&theirs, kind));
        let is_ours = ours != before;
        merged.extend(if is_ours { ours } else { theirs });
    }
    Some(Value::Array(merged))
}

/// Conditions by their type; none, if there is no such list. `None` if it is not
/// a list of conditions, each of another type.
fn by_type(list: &Value) -> Option<Vec<(&str, &Value)>> {
    let Value::Array(list) = list else {
        return list.is_null().then(Vec::new);
    };
    let named = |condition| Some((Value::get(condition, "type")?.as_str()?, condition));
    let named: Vec<_> = list.iter().map(named).collect::<Option<_>>()?;
    let types: BTreeSet<_> = named.iter().map(|(kind, _)| kind).collect();
    (types.len() == named.len()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_one_has_changed_is_as_that_one_made_it() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 1}, "l": [1], "gone": 1, "m": [1]});
        let ours = json!({"a": 2, "b": {"c": 2, "d": 1}, "l": [1], "m": [2], "new": 1});
        let theirs = json!({"a": 3, "b": {"c": 1, "d": 2}, "l": [2], "gone": 1, "m": [1]});
        let merged = json!({"a": 2, "b": {"c": 2, "d": 2}, "l": [2], "m": [2], "new": 1});
        assert_eq!(merge(&before, &ours, &theirs), Some(merged));
    }

    #[test]
    fn a_list_that_both_have_changed_is_nobodys() {
        let list = |items: &[u8]| json!({ "l": items });
        assert_eq!(merge(&list(&[1]), &list(&[2]), &list(&[3])), None);
        assert_eq!(
            merge(&list(&[1]), &list(&[2]), &list(&[2])),
            Some(list(&[2]))
        );
        assert_eq!(merge(&list(&[1]), &list(&[2]), &json!({})), None);
    }

    #[test]
    fn conditions_are_merged_by_type() {
        let list = |items: &[(&str, u8)]| {
            let items = items.iter();
            let items: Vec<_> = items
                .map(|(kind, n)| json!({"type": kind, "n": n}))
                .collect();
            json!({ "conditions": items })
        };
        let before = list(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        let ours = list(&[("a", 2), ("b", 1), ("d", 1), ("e", 2)]);
        let theirs = list(&[("d", 3), ("c", 3), ("b", 1), ("a", 3), ("f", 3)]);
        let merged = list(&[("d", 3), ("b", 1), ("a", 2), ("f", 3), ("e", 2)]);
        assert_eq!(merge(&before, &ours, &theirs), Some(merged));
        // The first conditions that an object gets come from two at once.
        let both = merge(&json!({}), &list(&[("a", 1)]), &list(&[("b", 1)]));
        assert_eq!(both, Some(list(&[("b", 1), ("a", 1)])));
        // What has a type twice is no list of conditions.
        let twice = list(&[("a", 1), ("a", 2)]);
        assert_eq!(merge(&before, &ours, &twice), None);
    }

    #[test]
    fn a_patch_of_a_list_is_one_however_deep() {
        let before = json!({"a": {"l": [1], "n": 1}, "s": 1});
        assert!(touches_list(&before, &json!({"a": {"l": [2]}})));
        assert!(touches_list(&before, &json!({"a": {"l": null}})));
        assert!(touches_list(&before, &json!({"a": null})));
        assert!(touches_list(&before, &json!({"x": {"y": []}})));
        assert!(!touches_list(
            &before,
            &json!({"a": {"n": 2}, "s": null, "x": {"y": 1}})
        ));
    }
}
