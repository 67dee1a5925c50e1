//! What holds for any schema and any object.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{CheckOptions, check};
use crate::field::Path;
use crate::schema::Types;
use crate::structural::{Part, Structural};

/// A schema of any form, sound or not.
fn any_schema() -> impl Strategy<Value = Value> {
    let types = [
        "object", "array", "string", "integer", "number", "boolean", "", "odd",
    ];
    let leaf = (proptest::sample::select(types.to_vec()), any::<bool>(), -1..3i64, any_leaf()).prop_map(
        |(type_name, flag, number, value)| {
            json!({
                "type": type_name, "nullable": flag, "maxLength": number, "minItems": number,
                "minimum": number, "default": value, "enum": if flag { json!([value]) } else { json!([]) },
                "pattern": "[", "format": "date", "x-kubernetes-int-or-string": !flag,
            })
        },
    );
    leaf.prop_recursive(3, 24, 3, |inner| {
        let one = inner.clone();
        (proptest::collection::btree_map("[ab]", inner.clone(), 0..3), one, any::<bool>(), 0..5u8).prop_map(
            |(properties, part, flag, place)| {
                let mut schema = json!({
                    "type": if flag { "object" } else { "array" }, "properties": properties,
                    "x-kubernetes-preserve-unknown-fields": flag, "x-kubernetes-embedded-resource": !flag,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "required": ["a"],
                });
                match place {
                    0 => schema["items"] = part,
                    1 => schema["additionalProperties"] = part,
                    2 => schema["allOf"] = json!([part]),
                    3 => schema["oneOf"] = json!([part.clone(), part]),
                    _ => schema["not"] = part,
                }
                schema
            },
        )
    })
}

fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e30..1e30f64).prop_map(Value::from),
        "[ab.é]{0,4}".prop_map(Value::from),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            proptest::collection::btree_map("(a|b|metadata|kind)", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_validated_by_any_schema(schema in any_schema(), object in any_value(), old in any_value()) {
        let structural = Structural::from_json(&schema);
        let mut object = json!({"spec": object});
        let types = Types::builtin();
        let _ = structural.admit(&mut object, &types);
        structural.set_defaults(&mut object);
        let _ = structural.validate(&object, Some(&json!({"spec": old})), &Path::root());
        let _ = structural.validate_lists(&object, &Path::root());
        let _ = structural.validate_metadata(&object, Part::Value, &Path::root());
    }

    #[test]
    fn any_schema_is_accepted_or_refused(schema in any_schema()) {
        let _ = check(&schema, CheckOptions { status_subresource: true }, &Types::builtin(), &Path::new("S"));
    }

    #[test]
    fn pruning_and_defaulting_twice_changes_nothing(schema in any_schema(), object in any_value()) {
        let structural = Structural::from_json(&schema);
        let mut once = object;
        structural.prune(&mut once, Part::Value);
        structural.set_defaults(&mut once);
        structural.prune(&mut once, Part::Value);
        let mut twice = once.clone();
        prop_assert!(structural.prune(&mut twice, Part::Value).is_empty());
        structural.set_defaults(&mut twice);
        structural.prune(&mut twice, Part::Value);
        prop_assert_eq!(twice, once);
    }
}
