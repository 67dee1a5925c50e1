//! Tests of strategic merge patches.

use super::*;
use serde_json::json;

/// A made-up kind: `items` and `deep.items` merge by `name`, `words` join, `map`
/// merges, `whole` and `list` are replaced.
#[derive(Clone, Copy)]
struct Kind;

impl PatchType for Kind {
    fn member(&self, name: &str) -> Option<(Self, MapStrategy)> {
        match name {
            "whole" => Some((Kind, MapStrategy::Replace)),
            "lost" => None,
            _ => Some((Kind, MapStrategy::Merge)),
        }
    }

    fn list(&self, name: &str) -> Option<(Self, ListStrategy)> {
        let strategy = match name {
            "items" => ListStrategy::Merge {
                key: Some("name".to_owned()),
            },
            "words" | "keyless" => ListStrategy::Merge { key: None },
            _ => ListStrategy::Replace,
        };
        Some((Kind, strategy))
    }

    fn type_name(&self) -> String {
        "Kind".to_owned()
    }
}

fn patched(mut object: Value, mut patch: Value) -> Result<Value, Status> {
    strategic_merge_patch(&mut object, &mut patch, &Kind)?;
    Ok(object)
}

fn refused(object: Value, patch: Value) -> (u16, String) {
    let status = patched(object, patch).unwrap_err();
    (status.code, status.message)
}

/// Items given by their names.
fn named(names: &str) -> Value {
    names
        .chars()
        .map(|name| json!({"name": name.to_string()}))
        .collect()
}

#[test]
fn members_merge_and_null_removes() {
    let cases = [
        (
            json!({"map": {"a": 1, "b": 2}}),
            json!({"map": {"b": null, "c": 3}}),
            json!({"map": {"a": 1, "c": 3}}),
        ),
        (
            json!({"whole": {"a": 1}}),
            json!({"whole": {"b": 2}}),
            json!({"whole": {"b": 2}}),
        ),
        (
            json!({"list": [1, 2]}),
            json!({"list": [3]}),
            json!({"list": [3]}),
        ),
        (
            json!({}),
            json!({"map": {"a": null, "b": {"c": null}}}),
            json!({"map": {"b": {}}}),
        ),
        (
            json!({"map": "text"}),
            json!({"map": {"a": 1}}),
            json!({"map": {"a": 1}}),
        ),
        (
            json!({"a": 1}),
            json!({"a": 2, "none": null}),
            json!({"a": 2}),
        ),
        (json!({"a": 1}), Value::Null, json!({"a": 1})),
    ];
    for (object, patch, expected) in cases {
        assert_eq!(patched(object, patch.clone()).unwrap(), expected, "{patch}");
    }
}

#[test]
fn directives_replace_and_delete() {
    let cases = [
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$patch": "replace", "b": 2}}),
            json!({"map": {"b": 2}}),
        ),
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$patch": "delete", "b": 2}}),
            json!({"map": {}}),
        ),
        // What is not there is not made by a directive, whatever it says.
        (json!({}), json!({"map": {"$patch": "frob"}}), json!({})),
        (
            json!({"items": named("abc")}),
            json!({"items": [{"name": "b", "$patch": "delete"}]}),
            json!({"items": named("ac")}),
        ),
        (
            json!({"items": named("abc")}),
            json!({"items": [{"name": "z", "$patch": "delete"}]}),
            json!({"items": named("abc")}),
        ),
        (
            json!({"items": named("abc")}),
            json!({"items": [{"name": "x"}, {"$patch": "replace"}]}),
            json!({"items": named("x")}),
        ),
        (
            json!({"items": named("abc")}),
            json!({"items": [{"name": "x", "$patch": "replace"}]}),
            json!({"items": []}),
        ),
        (
            json!({}),
            json!({"items": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}),
            json!({"items": named("a")}),
        ),
    ];
    for (object, patch, expected) in cases {
        assert_eq!(patched(object, patch.clone()).unwrap(), expected, "{patch}");
    }
}

#[test]
fn retain_keys_drops_what_it_does_not_name() {
    let object = json!({"map": {"type": "A", "a": 1}});
    let patch = json!({"map": {"$retainKeys": ["type", "b"], "type": "B", "b": 2}});
    assert_eq!(
        patched(object.clone(), patch).unwrap(),
        json!({"map": {"type": "B", "b": 2}})
    );
    for bad in [json!(["type"]), json!("type")] {
        let patch = json!({"map": {"$retainKeys": bad, "type": "B", "b": 2}});
        let expected = (400, "invalid patch format of retainKeys".to_owned());
        assert_eq!(refused(object.clone(), patch), expected);
    }
}

#[test]
fn items_merge_by_key() {
    let object = json!({"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]});
    let patch = json!({"items": [{"name": "b", "w": 3, "v": null}]});
    assert_eq!(
        patched(object, patch).unwrap(),
        json!({"items": [{"name": "a", "v": 1}, {"name": "b", "w": 3}]})
    );
}

#[test]
fn new_items_stand_first_or_behind_the_patched_item_they_follow() {
    let cases = [
        ("abc", "x", "xabc"),
        ("abc", "bx", "abxc"),
        ("abc", "xb", "xabc"),
        ("abc", "cx", "abcx"),
        ("abc", "ca", "bca"),
        ("abc", "xy", "xyabc"),
        ("", "xy", "xy"),
    ];
    for (old, patch, expected) in cases {
        let result = patched(json!({"items": named(old)}), json!({"items": named(patch)}));
        assert_eq!(
            result.unwrap(),
            json!({"items": named(expected)}),
            "{old} + {patch}"
        );
    }
}

#[test]
fn plain_values_join() {
    let words =
        |words: &str| -> Value { words.chars().map(|c| Value::from(c.to_string())).collect() };
    let cases = [
        ("ab", "c", "cab"),
        ("ab", "bc", "abc"),
        ("ab", "a", "ab"),
        ("ab", "ba", "ba"),
    ];
    for (old, patch, expected) in cases {
        let result = patched(json!({"words": words(old)}), json!({"words": words(patch)}));
        assert_eq!(
            result.unwrap(),
            json!({"words": words(expected)}),
            "{old} + {patch}"
        );
    }
    let patch = json!({"$deleteFromPrimitiveList/words": ["b", "z"]});
    assert_eq!(
        patched(json!({"words": words("abc")}), patch.clone()).unwrap(),
        json!({"words": words("ac")})
    );
    assert_eq!(patched(json!({}), patch).unwrap(), json!({}));
}

#[test]
fn an_order_may_be_given() {
    let ordered = |order: &str, patch: Value| {
        let mut patch = json!({ "items": patch });
        patch["$setElementOrder/items"] = named(order);
        patched(json!({"items": named("abc")}), patch)
    };
    assert_eq!(
        ordered("cba", named("a")).unwrap(),
        json!({"items": named("cba")})
    );
    assert_eq!(
        ordered("cxa", named("x")).unwrap(),
        json!({"items": named("bcxa")})
    );
    let only_order = json!({"$setElementOrder/items": named("ca")});
    assert_eq!(
        patched(json!({"items": named("abc")}), only_order.clone()).unwrap(),
        json!({"items": named("bca")})
    );
    assert_eq!(patched(json!({}), only_order).unwrap(), json!({}));
    assert_eq!(ordered("a", named("x")).unwrap_err().code, 500);
    assert_eq!(ordered("ab", named("ba")).unwrap_err().code, 500);
}

#[test]
fn faults_are_reported_with_the_messages_of_kubernetes() {
    let object = json!({"map": {"x": "y"}, "items": named("a"), "keyless": [{}], "list": [[1]], "words": [[1]]});
    let cases = [
        (
            json!({"map": {"$patch": "merge", "z": "w"}}),
            500,
            "unknown patch type: merge in map: map[$patch:merge z:w]",
        ),
        (
            json!({"map": {"$patch": null}}),
            500,
            "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]",
        ),
        (
            json!({"items": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"items": [{"name": "a", "$patch": "frob"}]}),
            500,
            "unknown patch type: frob in map: map[$patch:frob name:a]",
        ),
        (
            json!({"items": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"items": [{"$patch": "delete"}]}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"keyless": [{}]}),
            500,
            "cannot merge lists without merge key for Kind",
        ),
        (
            json!({"words": [[1]]}),
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            json!({"items": ["text"]}),
            500,
            "list element types are not identical: [[map[name:a]] [text]]",
        ),
        (
            json!({"$setElementOrder/items": ["a"]}),
            500,
            "value for key 0 is not a map",
        ),
        (
            json!({"$setElementOrder": []}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"$deleteFromPrimitiveList": []}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"$setElementOrder/items": 1}),
            500,
            "expected a []interface {}, but received a int64",
        ),
        (
            json!([]),
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (patch, code, message) in cases {
        assert_eq!(
            refused(object.clone(), patch.clone()),
            (code, message.to_owned()),
            "{patch}"
        );
    }
}

fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let name = prop_oneof![
        Just("items"),
        Just("words"),
        Just("map"),
        Just("name"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/items"),
        Just("$setElementOrder/words"),
        Just("$deleteFromPrimitiveList/words"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!("delete")),
        Just(json!("replace")),
        Just(json!(1)),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn any_patch_applies_or_is_refused(object in any_json(), patch in any_json()) {
        let _ = patched(object, patch);
    }

    #[test]
    fn an_empty_patch_changes_nothing(object in any_json()) {
        if object.is_object() {
            proptest::prop_assert_eq!(patched(object.clone(), json!({})).unwrap(), object);
        }
    }
}

#[test]
fn directives_that_were_carried_out_are_gone_from_the_patch() {
    let mut object = json!({"map": {"a": "1", "b": "2"}, "items": [{"name": "a", "deep": {"y": 1}}], "words": ["x"]});
    let mut patch = json!({
        "map": {"$retainKeys": ["a"], "a": "3"},
        "items": [{"name": "a", "deep": {"$patch": "replace", "z": 1}}, {"name": "b", "n": null}],
        "$setElementOrder/words": ["y", "x"],
        "words": ["y"],
        "$deleteFromPrimitiveList/list": ["q"],
        "new": {"n": null, "z": 1},
    });
    strategic_merge_patch(&mut object, &mut patch, &Kind).unwrap();
    assert_eq!(
        patch,
        json!({
            "map": {"a": "3"},
            "items": [{"name": "a", "deep": {"z": 1}}, {"name": "b", "n": null}],
            "$deleteFromPrimitiveList/list": ["q"],
            "new": {"z": 1},
        })
    );
}
