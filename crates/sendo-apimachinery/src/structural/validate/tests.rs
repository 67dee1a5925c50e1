//! Tests of validation by structural schemas.

use super::*;
use serde_json::json;

fn faults(schema: Value, value: Value) -> Vec<String> {
    updated(schema, None, value)
}

fn updated(schema: Value, old: Option<Value>, value: Value) -> Vec<String> {
    let schema = Structural::from_json(&json!({"type": "object", "properties": {"v": schema}}));
    let old = old.map(|old| json!({ "v": old }));
    let errors = schema.validate(&json!({ "v": value }), old.as_ref(), &Path::root());
    errors.iter().map(Error::to_string).collect()
}

#[test]
fn types_are_held_to() {
    let cases = [
        (json!({"type": "string"}), json!("x"), vec![]),
        (
            json!({"type": "string"}),
            json!(3),
            vec![r#"v: Invalid value: "integer": v in body must be of type string: "integer""#],
        ),
        (
            json!({"type": "object"}),
            json!([]),
            vec![r#"v: Invalid value: "array": v in body must be of type object: "array""#],
        ),
        (
            json!({"type": "object"}),
            json!(true),
            vec![r#"v: Invalid value: "boolean": v in body must be of type object: "boolean""#],
        ),
        (
            json!({"type": "string"}),
            Value::Null,
            vec![r#"v: Invalid value: "null": v in body must be of type string: "null""#],
        ),
        (
            json!({"type": "string", "nullable": true}),
            Value::Null,
            vec![],
        ),
        (json!({"type": "integer"}), json!(1.0), vec![]),
        (
            json!({"type": "integer"}),
            json!(1.5),
            vec![
                r#"v: Invalid value: "number": v in body must be of type integer: "number""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in v"#,
            ],
        ),
        (json!({"type": "number"}), json!(1), vec![]),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("x"),
            vec![],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            vec![
                r#"v: Invalid value: "boolean": v in body must be of type integer,string: "boolean""#,
            ],
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(
            faults(schema.clone(), value.clone()),
            expected,
            "{schema} {value}"
        );
    }
}

#[test]
fn values_are_held_to_their_bounds() {
    let cases = [
        (
            json!({"type": "integer", "minimum": 2}),
            json!(1),
            "v: Invalid value: 1: v in body should be greater than or equal to 2",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            "v: Invalid value: 6: v in body should be less than or equal to 5",
        ),
        (
            json!({"type": "number", "minimum": 2, "exclusiveMinimum": true}),
            json!(2),
            "v: Invalid value: 2: v in body should be greater than 2",
        ),
        (
            json!({"type": "number", "maximum": 5.5, "exclusiveMaximum": true}),
            json!(5.5),
            "v: Invalid value: 5.5: v in body should be less than 5.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "v: Invalid value: 4: v in body should be a multiple of 3",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(1.2),
            "v: Invalid value: 1.2: v in body should be a multiple of 0.5",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(2),
            "v: Invalid value: 0: factor MultipleOf declared for v must be positive: 0",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2147483648i64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in v"#,
        ),
        (
            json!({"type": "number", "format": "float"}),
            json!(1e39),
            r#"<nil>: Invalid value: "": Checked value must be of type number with format float in v"#,
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("x"),
            r#"v: Invalid value: "x": v in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 4}),
            json!("äöüßß"),
            "v: Too long: may not be more than 4 bytes",
        ),
        (
            json!({"type": "string", "pattern": "b+c"}),
            json!("abd"),
            r#"v: Invalid value: "abd": v in body should match 'b+c'"#,
        ),
        (
            json!({"type": "string", "format": "ipv4"}),
            json!("::1"),
            r#"v: Invalid value: "::1": v in body must be of type ipv4: "::1""#,
        ),
        (
            json!({"type": "string", "enum": ["b", "a", ""]}),
            json!("c"),
            r#"v: Unsupported value: "c": supported values: "b", "a", """#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            r#"v: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({"type": "string", "nullable": true, "enum": ["a", null]}),
            Value::Null,
            r#"v: Unsupported value: null: supported values: "a", "null""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "v: Invalid value: 0: v in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "v: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "v: Invalid value: 0: v in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            "v: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "additionalProperties": false}),
            json!({"a": 1}),
            r#"v: Invalid value: "a": v.a in body is a forbidden property"#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a": "x"}),
            r#"v.a: Invalid value: "string": v.a in body must be of type integer: "string""#,
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(
            faults(schema.clone(), value.clone()),
            [expected],
            "{schema} {value}"
        );
    }
}

#[test]
fn a_whole_number_is_compared_with_a_cut_bound() {
    assert_eq!(
        faults(json!({"type": "number", "minimum": 1.5}), json!(1)),
        [""; 0]
    );
}

#[test]
fn faults_of_items_come_in_their_order() {
    let schema = json!({"type": "array", "items": {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"],
    }});
    assert_eq!(
        faults(schema, json!([{"a": 1}, {"a": "x"}, {}, {"a": 3}])),
        [
            "v[0].a: Invalid value: 1: v[0].a in body should be greater than or equal to 3",
            r#"v[1].a: Invalid value: "string": v[1].a in body must be of type integer: "string""#,
            "v[2].a: Required value",
        ]
    );
}

#[test]
fn required_members_are_reported_in_the_order_of_the_schema() {
    let schema = Structural::from_json(&json!({"type": "object", "required": ["c", "a"]}));
    let errors = schema.validate(&json!({}), None, &Path::root());
    let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
    assert_eq!(texts, ["c: Required value", "a: Required value"]);
}

#[test]
fn combinations_tell_what_failed() {
    let any = json!({"type": "string", "anyOf": [{"pattern": "^x"}, {"maxLength": 2}]});
    assert_eq!(faults(any.clone(), json!("yy")), [""; 0]);
    assert_eq!(
        faults(any, json!("yyy")),
        [
            r#"<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)"#,
            r#"v: Invalid value: "yyy": v in body should match '^x'"#,
        ]
    );
    let one = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(faults(one.clone(), json!({"a": 1})), [""; 0]);
    assert_eq!(
        faults(one.clone(), json!({"a": 1, "b": 1})),
        [
            r#"<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        faults(one, json!({})),
        [
            r#"<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid"#,
            "v.a: Required value",
        ]
    );
    let all = json!({"type": "object", "allOf": [{"properties": {"a": {"maxLength": 3}}}]});
    assert_eq!(
        faults(all, json!({"a": "long"})),
        [
            "v.a: Too long: may not be more than 3 bytes",
            r#"<nil>: Invalid value: "": "v" must validate all the schemas (allOf). None validated"#,
        ]
    );
    let not = json!({"type": "string", "not": {"enum": ["bad"]}});
    assert_eq!(
        faults(not, json!("bad")),
        [r#"<nil>: Invalid value: "": "v" must not validate the schema (not)"#]
    );
}

#[test]
fn a_status_is_reported_by_its_own_paths() {
    let schema = Structural::from_json(
        &json!({"type": "object", "properties": {"r": {"type": "integer", "maximum": 5}}}),
    );
    let errors = schema.validate(&json!({"r": 6}), None, &Path::new("status"));
    assert_eq!(
        errors[0].to_string(),
        "status.r: Invalid value: 6: r in body should be less than or equal to 5"
    );
}

#[test]
fn what_did_not_change_is_tolerated() {
    let short = json!({"type": "string", "maxLength": 3});
    let object = json!({"type": "object", "properties": {
        "a": short, "b": {"type": "string"},
        "l": {"type": "array", "items": short},
        "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
              "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": short}}},
        "m": {"type": "object", "additionalProperties": short},
    }});
    let old = json!({
        "a": "toolong", "b": "x", "l": ["toolong", "x"],
        "k": [{"n": "a", "v": "toolong"}, {"n": "b", "v": "x"}], "m": {"p": "toolong"},
    });
    let with = |name: &str, value: Value| {
        let mut new = old.clone();
        new[name] = value;
        updated(object.clone(), Some(old.clone()), new)
    };
    assert_eq!(with("b", json!("y")), [""; 0]);
    assert_eq!(
        with("a", json!("alsolong")),
        ["v.a: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(
        with(
            "k",
            json!([{"n": "b", "v": "y"}, {"n": "a", "v": "toolong"}])
        ),
        [""; 0]
    );
    assert_eq!(
        with("k", json!([{"n": "c", "v": "toolong"}])),
        ["v.k[0].v: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(
        with("l", json!(["toolong", "y"])),
        ["v.l[0]: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(with("m", json!({"p": "toolong", "q": "y"})), [""; 0]);
    assert_eq!(
        with("m", json!({"r": "toolong"})),
        ["v.m.r: Too long: may not be more than 3 bytes"]
    );
}

#[test]
fn what_stands_under_all_of_is_not_tolerated() {
    let schema = json!({"type": "object", "allOf": [{"properties": {"a": {"maxLength": 3}}}]});
    let old = json!({"a": "toolong", "b": "x"});
    assert_eq!(
        updated(schema.clone(), Some(old.clone()), old.clone()),
        [""; 0]
    );
    assert_eq!(
        updated(schema, Some(old), json!({"a": "toolong", "b": "y"})).len(),
        2
    );
}
