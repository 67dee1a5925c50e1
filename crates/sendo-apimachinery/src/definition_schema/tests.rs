//! Tests of the checks of a definition's schema.

use super::*;
use serde_json::json;

fn faults(schema: Value) -> Vec<String> {
    faults_with(schema, CheckOptions::default())
}

fn faults_with(schema: Value, options: CheckOptions) -> Vec<String> {
    match check(&schema, options, &Types::builtin(), &Path::new("S")) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(Error::to_string).collect(),
    }
}

/// A schema with one field under `spec`.
fn spec(field: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": field}}}})
}

#[test]
fn sound_schemas_pass() {
    let schemas = [
        spec(json!({"x-kubernetes-preserve-unknown-fields": true})),
        spec(json!({"type": "string", "minLength": -1, "format": "no-such-format", "enum": []})),
        spec(json!({"type": "integer", "minimum": 5, "maximum": 1, "multipleOf": 0})),
        spec(json!({"type": "string", "pattern": "^\\p{L}+$"})),
        spec(json!({"type": "object", "additionalProperties": true})),
        spec(json!({"type": "object", "additionalProperties": false})),
        spec(
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        spec(
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}]}),
        ),
        spec(
            json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "x-kubernetes-list-type": "set"}),
        ),
        spec(json!({"type": "string", "default": null})),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "generateName": {"type": "string"}}}}}),
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"b": {"maxLength": 3}}}]}}}),
        json!({"type": "object", "properties": {"spec": {"type": "object"}}, "allOf": [{"required": ["zzz"]}]}),
    ];
    for schema in schemas {
        assert_eq!(faults(schema.clone()), [""; 0], "{schema}");
    }
}

#[test]
fn types_are_named_everywhere() {
    let cases = [
        (
            json!({}),
            "S.type: Required value: must not be empty at the root",
        ),
        (
            json!({"type": "string"}),
            "S.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            spec(json!({})),
            "S.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            spec(json!({"type": "array", "items": {}})),
            "S.properties[spec].properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            spec(json!({"type": "array"})),
            "S.properties[spec].properties[a].items: Required value: must be specified",
        ),
        (
            spec(json!({"type": "object", "additionalProperties": {}})),
            "S.properties[spec].properties[a].additionalProperties.type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            "S.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "string"}}}),
            "S.properties[metadata].type: Invalid value: \"string\": must be object",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "required": ["name"]}}}),
            "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            json!({"type": "object", "nullable": true}),
            "S.nullable: Forbidden: nullable cannot be true at the root",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(faults(schema.clone()), [expected], "{schema}");
    }
}

#[test]
fn nested_parts_only_constrain() {
    let with = |part: Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [part]}}});
    let at = "S.properties[spec].allOf[0]";
    let cases = [
        (
            json!({"properties": {"a": {"type": "string"}}}),
            ".properties[a].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"properties": {"a": {"nullable": true}}}),
            ".properties[a].nullable: Forbidden: must be false to be structural",
        ),
        (
            json!({"properties": {"a": {"default": 1}}}),
            ".properties[a].default: Forbidden: must be undefined to be structural",
        ),
        (
            json!({"x-kubernetes-validations": [{"rule": "true"}]}),
            ".x-kubernetes-validations: Forbidden: must be empty to be structural",
        ),
        (
            json!({"properties": {"a": {"additionalProperties": {"maxLength": 3}}}}),
            ".properties[a].additionalProperties: Forbidden: must be undefined to be structural",
        ),
        (
            json!({"properties": {"metadata": {}}}),
            ".properties[metadata]: Forbidden: must not be specified in a nested context",
        ),
    ];
    for (part, expected) in cases {
        assert_eq!(
            faults(with(part.clone())),
            [format!("{at}{expected}")],
            "{part}"
        );
    }
}

#[test]
fn what_nested_parts_at_the_root_mention_is_declared() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}}},
        "allOf": [{"properties": {"spec": {"properties": {"b": {"maxLength": 3}, "l": {"items": {"properties": {"x": {}}}}}}}}],
    });
    assert_eq!(
        faults(schema),
        [
            "S.properties[spec].properties[b]: Required value: because it is defined in S.allOf[0].properties[spec].properties[b]",
            "S.properties[spec].properties[l].items.properties[x]: Required value: because it is defined in S.allOf[0].properties[spec].properties[l].items.properties[x]",
        ]
    );
}

#[test]
fn unsupported_keywords_are_refused() {
    let at = "S.properties[spec].properties[a]";
    let cases = [
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "string", "$ref": "#/x"}),
            ".$ref: Forbidden: $ref is not supported",
        ),
        (
            json!({"type": "string", "id": "x"}),
            ".id: Forbidden: id is not supported",
        ),
        (
            json!({"type": "object", "definitions": {"x": {"type": "string"}}}),
            ".definitions: Forbidden: definitions is not supported",
        ),
        (
            json!({"type": "object", "patternProperties": {"x": {"type": "string"}}}),
            ".patternProperties: Forbidden: patternProperties is not supported",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": false}),
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "string", "pattern": "["}),
            ".pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`",
        ),
        (
            json!({"type": "text"}),
            ".type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
            ".type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified",
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "deep"}),
            ".x-kubernetes-map-type: Unsupported value: \"deep\": supported values: \"atomic\", \"granular\"",
        ),
        (
            json!({"type": "object", "x-kubernetes-list-type": "set"}),
            ".type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified",
        ),
    ];
    for (field, expected) in cases {
        assert_eq!(
            faults(spec(field.clone())),
            [format!("{at}{expected}")],
            "{field}"
        );
    }
}

#[test]
fn map_lists_have_keys_that_identify() {
    let list = |keys: Value, items: Value| {
        spec(
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}),
        )
    };
    let at = "S.properties[spec].properties[a]";
    let item =
        json!({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]});
    let cases = [
        (
            list(json!([]), item.clone()),
            ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            list(json!(["z"]), item.clone()),
            ".x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties",
        ),
        (
            list(json!(["k", "k"]), item),
            ".x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\"]: must not contain duplicate entries",
        ),
        (
            list(
                json!(["k"]),
                json!({"type": "object", "properties": {"k": {"type": "string"}}}),
            ),
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            list(
                json!(["k"]),
                json!({"type": "object", "properties": {"k": {"type": "object"}}, "required": ["k"]}),
            ),
            ".items.properties[k].type: Invalid value: \"object\": must be a scalar type if parent array's x-kubernetes-list-type is map",
        ),
        (
            list(json!(["k"]), json!({"type": "string"})),
            ".items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(
            faults(schema.clone()),
            [format!("{at}{expected}")],
            "{schema}"
        );
    }
}

#[test]
fn defaults_are_held_to_the_schema() {
    let cases = [
        (
            spec(json!({"type": "string", "default": 1})),
            "S.properties[spec].properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
        (
            spec(
                json!({"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"y": 1}}),
            ),
            "S.properties[spec].properties[a].default: Invalid value: {\"y\":1}: must not have unknown fields",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "string", "default": "Widget"}}}),
            "S.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(faults(schema.clone()), [expected], "{schema}");
    }
    assert_eq!(
        faults(
            json!({"type": "object", "properties": {"spec": {"type": "object"}}, "default": {"spec": {}}})
        ),
        [
            "S.default.apiVersion: Required value",
            "S.default.kind: Required value"
        ]
    );
}

#[test]
fn a_status_subresource_limits_the_root() {
    let options = CheckOptions {
        status_subresource: true,
    };
    let schema = |extra: Value| {
        let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        schema
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        schema
    };
    assert_eq!(
        faults_with(schema(json!({"required": ["spec"]})), options),
        [""; 0]
    );
    let refused = faults_with(schema(json!({"minProperties": 2})), options);
    assert!(refused[0].contains(
        "fields are allowed at the root of the schema if the status subresource is enabled"
    ));
}

#[test]
fn rules_have_a_form() {
    let rule = |rule: Value| spec(json!({"type": "string", "x-kubernetes-validations": [rule]}));
    let at = "S.properties[spec].properties[a].x-kubernetes-validations[0]";
    let cases = [
        (
            json!({"rule": " "}),
            ".rule: Required value: rule is not specified",
        ),
        (
            json!({"rule": "true", "message": " "}),
            ".message: Invalid value: \" \": must be non-empty if specified",
        ),
        (
            json!({"rule": "a\nb"}),
            ".message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "reason": "Odd"}),
            ".reason: Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".x"}),
            ".fieldPath: Invalid value: \".x\": must be a valid path",
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(
            faults(rule(value.clone())),
            [format!("{at}{expected}")],
            "{value}"
        );
    }
}
