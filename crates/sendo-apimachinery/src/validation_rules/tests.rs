//! Tests of validation rules in CEL.

use serde_json::{Value, json};

use super::*;
use crate::field::Error;

fn rules(spec: Value) -> Rules {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Rules::compile(&Structural::from_json(&schema))
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "e.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(Error::to_string).collect()
}

fn broken(spec_schema: Value, spec: Value) -> Vec<String> {
    texts(&rules(spec_schema).validate(&object(spec), None).errors)
}

#[test]
fn a_broken_rule_names_its_field_and_says_why() {
    let field = |kind: &str, rule: Value| json!({"type": "object", "properties": {"f": {"type": kind, "x-kubernetes-validations": [rule]}}});
    let cases = [
        (
            field("integer", json!({"rule": "self % 2 == 0"})),
            json!({"f": 3}),
            "spec.f: Invalid value: 3: failed rule: self % 2 == 0",
        ),
        (
            field(
                "integer",
                json!({"rule": "self > 3", "message": " too small "}),
            ),
            json!({"f": 3}),
            "spec.f: Invalid value: 3: too small",
        ),
        (
            field(
                "string",
                json!({"rule": "self == 'a'", "messageExpression": "'not ' + self"}),
            ),
            json!({"f": "b"}),
            "spec.f: Invalid value: \"b\": not b",
        ),
        (
            field(
                "string",
                json!({"rule": "self == 'a'", "reason": "FieldValueForbidden"}),
            ),
            json!({"f": "b"}),
            "spec.f: Forbidden: failed rule: self == 'a'",
        ),
        (
            field(
                "string",
                json!({"rule": "self == 'a'", "reason": "FieldValueRequired"}),
            ),
            json!({"f": "b"}),
            "spec.f: Required value: failed rule: self == 'a'",
        ),
        (
            field(
                "string",
                json!({"rule": "self == 'a'", "reason": "FieldValueDuplicate"}),
            ),
            json!({"f": "b"}),
            "spec.f: Duplicate value: \"b\"",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}, "x-kubernetes-validations": [{"rule": "has(self.a)", "fieldPath": ".a.b"}]}),
            json!({}),
            "spec.a.b: Invalid value: failed rule: has(self.a)",
        ),
        (
            field("integer", json!({"rule": "1 / self == 1"})),
            json!({"f": 0}),
            "spec.f: Invalid value: \"integer\": division by zero evaluating rule: 1 / self == 1",
        ),
    ];
    for (schema, spec, expected) in cases {
        assert_eq!(broken(schema.clone(), spec), [expected], "{schema}");
    }
}

#[test]
fn rules_run_wherever_their_schema_applies() {
    let positive = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}]});
    let schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": positive},
        "m": {"type": "object", "additionalProperties": positive},
        "n": {"type": "integer", "nullable": true, "x-kubernetes-validations": [{"rule": "self > 0"}]},
    }});
    assert_eq!(
        broken(
            schema,
            json!({"l": [1, 0], "m": {"a": 0, "b": 1}, "n": null})
        ),
        [
            "spec.l[1]: Invalid value: 0: no",
            "spec.m[a]: Invalid value: 0: no"
        ]
    );
}

#[test]
fn the_root_shows_names_and_kind() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name == 'b' && self.kind == 'Widget' && self.apiVersion.startsWith('e.dev')", "message": "no"},
    ]});
    let rules = Rules::compile(&Structural::from_json(&schema));
    assert_eq!(
        texts(&rules.validate(&object(json!({})), None).errors),
        ["<nil>: Invalid value: no"]
    );
}

#[test]
fn transition_rules_compare_with_what_was_there() {
    let rules = rules(json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "shrinks"}]},
        "o": {"type": "integer", "x-kubernetes-validations": [{"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true, "message": "begins at one"}]},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "shrinks"}]}}}},
    }}));
    let old = object(json!({"a": 5, "l": [{"k": "x", "v": 5}, {"k": "y", "v": 1}]}));
    let new = object(
        json!({"a": 4, "o": 2, "l": [{"k": "y", "v": 2}, {"k": "x", "v": 4}, {"k": "z", "v": 0}]}),
    );
    assert_eq!(
        texts(&rules.validate(&new, Some(&old)).errors),
        [
            "spec.a: Invalid value: 4: shrinks",
            "spec.l[1].v: Invalid value: 4: shrinks",
            "spec.o: Invalid value: 2: begins at one",
        ]
    );
    assert_eq!(texts(&rules.validate(&old, None).errors), [""; 0]);
}

#[test]
fn what_was_broken_before_is_tolerated_while_it_stays() {
    let rules = rules(json!({"type": "object", "properties": {
        "f": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}]},
        "l": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "no"}]}},
        "g": {"type": "integer"},
    }}));
    let old = object(json!({"f": 0, "l": [0], "g": 1}));
    let changed = object(json!({"f": 0, "l": [0], "g": 2}));
    let verdict = rules.validate(&changed, Some(&old));
    assert_eq!(texts(&verdict.errors), [""; 0]);
    assert_eq!(
        texts(&verdict.tolerated),
        [
            "spec.f: Invalid value: 0: no",
            "spec.l[0]: Invalid value: 0: no"
        ]
    );
    let worse = object(json!({"f": -1, "l": [0, 1], "g": 1}));
    assert_eq!(
        texts(&rules.validate(&worse, Some(&old)).errors),
        [
            "spec.f: Invalid value: -1: no",
            "spec.l[0]: Invalid value: 0: no"
        ]
    );
}

#[test]
fn rules_of_an_object_share_a_budget() {
    let rules = rules(
        json!({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "lists.range(9000).all(x, x >= 0)"}]}}),
    );
    let many = object(json!(vec![1; 1_000]));
    let errors = texts(&rules.validate(&many, None).errors);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("running out of cost budget"),
        "{errors:?}"
    );
}
