//! Rules of any schema are compiled and run over any object, without a panic and in bounded time.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Rules;
use crate::definition_schema::{CheckOptions, check};
use crate::field::{Error, Path};
use crate::schema::Types;
use crate::structural::{Part, Structural};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "[a-c0-9:é-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|spec|metadata|kind", inner, 0..4)
                .prop_map(|members| json!(members)),
        ]
    })
}

fn rules() -> impl Strategy<Value = Value> {
    let rule = prop::sample::select(vec![
        "self == self",
        "self.a > 1",
        "size(self) < 3",
        "self == oldSelf",
        "has(self.a) || has(self.b)",
        "self.all(x, x == x)",
        "self + self == self",
        "self.map(x, x).size() > 0",
        "string(self) == 'a'",
        "self ==",
        "1",
    ]);
    (rule, any::<bool>()).prop_map(|(rule, optional)| match optional {
        true => {
            json!([{"rule": rule, "optionalOldSelf": true, "messageExpression": "string(self)"}])
        }
        false => json!([{"rule": rule, "message": "no", "fieldPath": ".a"}]),
    })
}

/// Schemas most of which are structural, with every keyword somewhere.
fn schemas() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "string", "integer", "number", "boolean", "object", "array", "odd", "",
    ]);
    let leaf = (kinds, prop::option::of(values()), any::<u8>(), rules()).prop_map(
        |(kind, default, odds, rules)| {
            let mut schema = json!({"type": kind});
            if let Some(default) = default.filter(|_| odds & 1 == 0) {
                schema["default"] = default;
            }
            match odds >> 4 {
                0 => schema["nullable"] = json!(true),
                1 => schema["maxLength"] = json!(3),
                2 => schema["pattern"] = json!("^[a-c]+$"),
                3 => schema["enum"] = json!(["a", 1, null]),
                4 => schema["maximum"] = json!(2.5),
                5 => schema["format"] = json!("date-time"),
                6 => schema = json!({"x-kubernetes-int-or-string": true}),
                7 => schema = json!({"x-kubernetes-preserve-unknown-fields": true}),
                8 => schema["minItems"] = json!(-1),
                9 => schema["format"] = json!("duration"),
                _ => {}
            }
            if odds & 2 == 2 {
                schema["x-kubernetes-validations"] = rules;
            }
            schema
        },
    );
    leaf.prop_recursive(3, 24, 4, |inner| {
        let members = prop::collection::btree_map("[a-d]|x-y|in", inner.clone(), 0..4);
        prop_oneof![
            (members, any::<u8>(), rules()).prop_map(|(members, odds, rules)| {
                let mut schema = json!({"type": "object", "properties": members});
                match odds % 6 {
                    0 => schema["required"] = json!(["a"]),
                    1 => schema["x-kubernetes-embedded-resource"] = json!(true),
                    2 => schema["x-kubernetes-validations"] = rules,
                    3 => schema["anyOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]),
                    4 => schema["x-kubernetes-preserve-unknown-fields"] = json!(true),
                    _ => {}
                }
                schema
            }),
            (inner.clone(), any::<u8>()).prop_map(|(items, odds)| {
                let mut schema = json!({"type": "array", "maxItems": 4, "items": items});
                match odds % 3 {
                    0 => schema["x-kubernetes-list-type"] = json!("set"),
                    1 => {
                        schema["x-kubernetes-list-type"] = json!("map");
                        schema["x-kubernetes-list-map-keys"] = json!(["a"]);
                    }
                    _ => {}
                }
                schema
            }),
            inner.prop_map(|values| json!({"type": "object", "maxProperties": 4, "additionalProperties": values})),
        ]
    })
}

/// Whether values of a map have a default, which is not held to their schema.
fn has_unchecked_default(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, member)| {
            let of_map = name == "additionalProperties";
            (of_map && member.to_string().contains("default")) || has_unchecked_default(member)
        }),
        Value::Array(items) => items.iter().any(has_unchecked_default),
        _ => false,
    }
}

proptest! {
    #[test]
    fn any_schema_is_validated_and_any_object_handled(spec in schemas(), new in values(), old in values()) {
        let given = json!({"type": "object", "properties": {"spec": spec}});
        let types = Types::builtin();
        let checked = check(&given, CheckOptions::default(), &types, &Path::new("S"));
        // What was refused is never served, and must not break anything all the same.
        let schema = checked.clone().unwrap_or_else(|_| Structural::from_json(&given));
        let rules = Rules::compile(&schema);
        let whole = |spec: Value| json!({"apiVersion": "e.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
        let mut new = whole(new);
        let old = whole(old);
        schema.prune(&mut new, Part::Resource);
        schema.set_defaults(&mut new);
        let again = {
            let mut again = new.clone();
            schema.prune(&mut again, Part::Resource);
            schema.set_defaults(&mut again);
            again
        };
        if checked.is_ok() && !has_unchecked_default(&given) {
            prop_assert_eq!(&again, &new);
        }
        schema.validate(&new, Some(&old), &Path::root());
        schema.validate_lists(&new, &Path::root());
        rules.validate(&new, None);
        rules.validate(&new, Some(&old));
    }

    #[test]
    fn nothing_changed_is_never_refused_by_what_it_passed(spec in schemas(), value in values()) {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {"spec": spec}}));
        let rules = Rules::compile(&schema);
        let object = json!({"apiVersion": "e.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": value});
        if rules.validate(&object, None).errors.is_empty() {
            let verdict = rules.validate(&object, Some(&object));
            // Rules that compare with what was there say something for the first time.
            let transition = |error: &Error| {
                error.detail.contains("oldSelf")
                    || error.detail.ends_with("no")
                    || error.detail.starts_with("invalid data")
            };
            let transitions = verdict.errors.iter().all(transition);
            prop_assert!(transitions, "{:?}", verdict.errors);
        }
    }
}
