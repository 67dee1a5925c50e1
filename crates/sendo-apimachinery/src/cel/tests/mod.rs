//! Tests of CEL: values of expressions, limits, schemas.

mod costs;
mod functions;
mod random;
mod types;

use serde_json::{Value as Json, json};

use super::*;
use crate::structural::Structural;

/// Evaluates an expression without variables; a fault begins with `fault: `.
fn value(source: &str) -> String {
    let program = match Program::compile(source, &Variables::default()) {
        Ok(program) => program,
        Err(error) => return refused(error),
    };
    match program.eval(&[], CALL_LIMIT).result {
        Ok(value) => shown(&value),
        Err(fault) => format!("fault: {fault}"),
    }
}

/// What is known to fail before it runs is shown as if it had run.
fn refused(error: CompileError) -> String {
    match error {
        CompileError::Issues(issues) => format!("issues: {issues}"),
        CompileError::Constant(fault) => format!("fault: {fault}"),
    }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Text(text) => format!("{:?}", &**text),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| shown(&item.unwrap())).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |entry: Result<(Value<'_>, Value<'_>), Fault>| {
                let (key, value) = entry.unwrap();
                format!("{}: {}", shown(&key), shown(&value))
            };
            let entries: Vec<String> = map.entries().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("some({})", shown(inner)),
        other => library::convert::shown(other),
    }
}

/// Checks that each expression has the value beside it.
fn assert_values(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(value(source), *expected, "{source}");
    }
}

/// Evaluates a rule over an object of a schema.
fn over(schema: Json, object: &Json, source: &str) -> String {
    let schema = Structural::from_json(&schema);
    let declared = Declared::from_schema(&schema, false).expect("the schema declares a type");
    let variables = Variables::new(&declared).with("self", declared.kind.clone());
    let program = match Program::compile(source, &variables) {
        Ok(program) => program,
        Err(error) => return refused(error),
    };
    let own = Value::from_json(object, &schema).expect("the object fits its schema");
    match program.eval(&[("self", own)], CALL_LIMIT).result {
        Ok(value) => shown(&value),
        Err(fault) => format!("fault: {fault}"),
    }
}

#[test]
fn operators_and_literals() {
    assert_values(&[
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("-(3) - -2", "-1"),
        ("0x10 + 1", "17"),
        ("1u + 2u", "3"),
        ("1.5e2 / 4.0", "37.5"),
        (
            "'a' + \"b\" + r'\\n' + '\\u00e4\\x41\\101'",
            "\"ab\\\\näAA\"",
        ),
        ("'''it's\nlong'''", "\"it's\\nlong\""),
        ("b'\\xff' == b'\\377'", "true"),
        ("[1, 2] + [3] // a comment", "[1, 2, 3]"),
        ("{'a': 1, 'b': 2}['b']", "2"),
        ("true ? 1 : 2", "1"),
        ("!true || !!true && false", "false"),
        ("1 < 2.5 && 2u >= 2 && 'a' < 'b'", "true"),
        ("2 in [1, 2] && 'k' in {'k': 1} && !(3 in [1])", "true"),
        ("[1, 2][1]", "2"),
        ("null == null", "true"),
        (
            "type(1) == int && type('') == string && type([]) == list",
            "true",
        ),
    ]);
}

#[test]
fn failures_are_reported_and_may_be_outweighed() {
    assert_values(&[
        ("1 / 0 == 1", "fault: division by zero"),
        ("1 % 0 == 1", "fault: modulus by zero"),
        ("9223372036854775807 + 1", "fault: integer overflow"),
        ("-9223372036854775808 - 1", "fault: integer overflow"),
        ("0u - 1u", "fault: unsigned integer overflow"),
        ("[1][3]", "fault: index out of bounds: 3"),
        ("{'a': 1}['b']", "fault: no such key: b"),
        ("{'a': 1}.b", "fault: no such key: b"),
        ("1 / 0 == 1 || true", "true"),
        ("false && 1 / 0 == 1", "false"),
        ("1 / 0 == 1 || false", "fault: division by zero"),
        ("[1, 0].exists(x, 1 / x == 1)", "true"),
        ("[0, 1].exists(x, 1 / x == 1)", "true"),
        ("[0, 2].all(x, 1 / x == 1)", "false"),
        (
            "int('x') == 1",
            "fault: type conversion error from 'string' to 'int'",
        ),
        (
            "optional.none().value() == 1",
            "fault: optional.none() dereference",
        ),
    ]);
}

#[test]
fn loops_over_lists_and_maps() {
    assert_values(&[
        ("[1, 2, 3].all(x, x > 0)", "true"),
        ("[1, 2, 3].exists(x, x > 2)", "true"),
        ("[1, 2, 3].exists_one(x, x > 2)", "true"),
        ("[1, 2, 3].map(x, x * 2)", "[2, 4, 6]"),
        ("[1, 2, 3].map(x, x > 1, x * 2)", "[4, 6]"),
        ("[1, 2, 3].filter(x, x != 2)", "[1, 3]"),
        ("{'a': 1, 'b': 2}.all(k, k != 'c')", "true"),
        ("{'a': 1, 'b': 2}.map(k, k)", "[\"a\", \"b\"]"),
        ("[[1], [2, 3]].map(l, l.map(x, x + 1))", "[[2], [3, 4]]"),
        ("[4, 5].all(i, v, v == i + 4)", "true"),
        ("{'a': 'a'}.all(k, v, k == v)", "true"),
        ("[4, 5].exists(i, v, i == 1 && v == 5)", "true"),
        ("[4, 5].existsOne(i, v, v > 4)", "true"),
        ("[4, 5].transformList(i, v, i * v)", "[0, 5]"),
        ("[4, 5].transformList(i, v, i > 0, v)", "[5]"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "{\"a\": 2}"),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", "{1: \"a\"}"),
        (
            "{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})",
            "fault: insert failed: key 1 already exists",
        ),
    ]);
}

#[test]
fn objects_show_what_their_schema_knows() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer"},
        "x-y": {"type": "string"},
        "namespace": {"type": "string"},
        "n": {"type": "string", "nullable": true},
        "d": {"type": "string", "format": "duration"},
        "t": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "bytes": {"type": "string", "format": "byte"},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "f": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": true},
    }});
    let object = json!({
        "a": 1, "x-y": "z", "namespace": "ns", "n": null, "d": "90s", "t": "2020-02-03T04:05:06Z", "day": "2020-02-03",
        "bytes": "aGk=", "free": {"b": 1}, "s": [1, 2], "m": {"k.l": 7}, "f": 3, "port": "http",
    });
    let cases = [
        ("self.a + 1", "2"),
        ("self.x__dash__y", "\"z\""),
        ("self.__namespace__ + self.namespace", "\"nsns\""),
        ("has(self.n)", "false"),
        ("has(self.a) && !has(self.m.zz)", "true"),
        (
            "self.d == duration('1m30s') && self.d.getSeconds() == 90",
            "true",
        ),
        (
            "self.t.getFullYear() == 2020 && self.t.getMonth() == 1",
            "true",
        ),
        ("self.day < self.t", "true"),
        ("string(self.bytes)", "\"hi\""),
        ("self.s == [2, 1]", "true"),
        ("self.s + [2, 3]", "[1, 2, 3]"),
        ("self.m['k.l'] + self.m.map(k, self.m[k])[0]", "14"),
        ("self.f / 2.0", "1.5"),
        (
            "type(self.port) == string ? self.port : 'a number'",
            "\"http\"",
        ),
        (
            "self.?a.orValue(3) + self.?a.optMap(x, x * 2).orValue(0)",
            "3",
        ),
        ("self.m[?'none'].hasValue()", "false"),
        (
            "self.free",
            "issues: ERROR: <input>:1:5: undefined field 'free'\n | self.free\n | ....^",
        ),
        (
            "self.zz",
            "issues: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz\n | ....^",
        ),
        ("self.port + 1 == 2", "fault: no such overload"),
    ];
    for (source, expected) in cases {
        assert_eq!(over(schema.clone(), &object, source), expected, "{source}");
    }
}

#[test]
fn names_are_escaped_both_ways() {
    for (name, escaped) in [
        ("plain", Some("plain")),
        ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
        ("a__b", Some("a__underscores__b")),
        ("in", Some("__in__")),
        ("1y", None),
        ("ä", None),
        ("", None),
    ] {
        assert_eq!(escape(name).as_deref(), escaped, "{name}");
        if let Some(escaped) = escaped {
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
    }
}
