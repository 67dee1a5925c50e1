//! Rules in CEL: compiled with their definition, evaluated on its objects.

use serde_json::{Value, json};

use super::support::Fixture;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";

fn definition(spec: Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {
                    "type": "object",
                    "properties": {"phase": {"type": "string", "x-kubernetes-validations": [
                        {"rule": "self != 'odd'", "message": "odd phase"},
                    ]}},
                }}}},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn defined(spec: Value) -> Fixture {
    let f = Fixture::start().await;
    let created = f
        .json(&format!("POST {DEFINITIONS}"), definition(spec))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    f
}

fn counted() -> Value {
    json!({"type": "object", "properties": {
        "min": {"type": "integer"},
        "max": {"type": "integer", "default": 3},
        "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only grows"}]},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.min) || self.min <= self.max", "messageExpression": "'%d is above %d'.format([self.min, self.max])"},
    ]})
}

#[tokio::test(start_paused = true)]
async fn objects_are_held_to_rules_after_defaults() {
    let f = defined(counted()).await;
    let fits = f
        .json(&format!("POST {WIDGETS}"), widget("a", json!({"min": 3})))
        .await;
    assert_eq!(fits.code, 201, "{}", fits.body);
    let refused = f
        .json(&format!("POST {WIDGETS}"), widget("b", json!({"min": 4})))
        .await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (
            422,
            &json!("Widget.example.dev \"b\" is invalid: spec: Invalid value: 4 is above 3")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn transitions_are_judged_on_every_way_to_change() {
    let f = defined(counted()).await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({"size": 2})))
        .await;
    let merge = [("content-type", "application/merge-patch+json")];
    let smaller = f
        .call(
            &format!("PATCH {WIDGETS}/a"),
            &merge,
            r#"{"spec":{"size":1}}"#,
        )
        .await;
    assert_eq!(
        (
            smaller.code,
            &smaller.body["details"]["causes"][0]["message"]
        ),
        (422, &json!("Invalid value: 1: only grows"))
    );
    let larger = f
        .call(
            &format!("PATCH {WIDGETS}/a"),
            &merge,
            r#"{"spec":{"size":3}}"#,
        )
        .await;
    assert_eq!(larger.code, 200, "{}", larger.body);
    let status = f
        .call(
            &format!("PATCH {WIDGETS}/a/status"),
            &merge,
            r#"{"status":{"phase":"odd"}}"#,
        )
        .await;
    assert_eq!(
        (status.code, &status.body["details"]["causes"][0]["field"]),
        (422, &json!("status.phase"))
    );
}

#[tokio::test(start_paused = true)]
async fn rules_wait_until_the_form_is_right() {
    let f = defined(counted()).await;
    let refused = f
        .json(
            &format!("POST {WIDGETS}"),
            widget("a", json!({"min": 4, "size": "x"})),
        )
        .await;
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2, "{}", refused.body);
    assert_eq!(causes[1]["field"], "<nil>");
}

#[tokio::test(start_paused = true)]
async fn what_a_new_rule_would_refuse_is_tolerated_until_it_changes() {
    let f = defined(json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "string"},
    }}))
    .await;
    f.json(&format!("POST {WIDGETS}"), widget("w", json!({"a": "odd"})))
        .await;
    let merge = [("content-type", "application/merge-patch+json")];
    let rule = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/x-kubernetes-validations",
        "value": [{"rule": "self != 'odd'", "message": "odd"}]}]);
    let json_patch = [("content-type", "application/json-patch+json")];
    let changed = f
        .call(
            &format!("PATCH {DEFINITIONS}/widgets.example.dev"),
            &json_patch,
            rule.to_string(),
        )
        .await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let other = f
        .call(
            &format!("PATCH {WIDGETS}/w"),
            &merge,
            r#"{"spec":{"b":"x"}}"#,
        )
        .await;
    assert_eq!(other.code, 200, "{}", other.body);
    assert_eq!(
        other.warnings,
        ["299 - \"spec.a: Invalid value: \\\"odd\\\": odd\""]
    );
    let new = f
        .json(&format!("POST {WIDGETS}"), widget("x", json!({"a": "odd"})))
        .await;
    assert_eq!(new.code, 422);
}

#[tokio::test(start_paused = true)]
async fn rules_that_do_not_compile_or_cost_too_much_are_refused() {
    let f = Fixture::start().await;
    let with = |rule: &str| {
        definition(json!({"type": "object", "properties": {
            "a": {"type": "integer"},
            "l": {"type": "array", "items": {"type": "string"}},
        }, "x-kubernetes-validations": [{"rule": rule}]}))
    };
    let cases = [
        ("self.zz == 1", "undefined field 'zz'"),
        (
            "self.a == 'x'",
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        ("self.a", "cel expression must evaluate to a bool"),
        ("self.a ==", "Syntax error: mismatched input '<EOF>'"),
        (
            "self.l.all(x, self.l.all(y, x == y))",
            "estimated rule cost exceeds budget by factor of more than 100x",
        ),
    ];
    for (rule, expected) in cases {
        let refused = f.json(&format!("POST {DEFINITIONS}"), with(rule)).await;
        assert_eq!(refused.code, 422, "{rule}");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}
