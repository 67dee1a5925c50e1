//! Property tests with random expressions and objects.

use proptest::prelude::*;

use super::*;

/// Texts that look like expressions, most of which are none.
fn almost_expressions() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "self",
        "x",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'a'",
        "true",
        "null",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        ">=",
        "&&",
        "||",
        "!",
        "in",
        "has",
        "all",
        "map",
        "size",
        "matches",
        "duration",
        "quantity",
        "ip",
        "format",
        "optional",
        "none",
        "sortBy",
        "all(x, x == x)",
        ".map(y, y)",
        "`",
        "\\",
        "@",
        " ",
        "ä",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Expressions that are well formed.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "self",
        "self.a",
        "self.s",
        "self.l",
        "self.m",
        "self.o.b",
        "self.p",
        "0",
        "-1",
        "9223372036854775807",
        "2u",
        "1e300",
        "'aé'",
        "''",
        "b'x'",
        "true",
        "null",
        "[1, 2]",
        "[]",
        "{'a': 1}",
        "optional.none()",
        "lists.range(3)",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (
                inner.clone(),
                prop::sample::select(vec![
                    "+", "-", "*", "/", "%", "==", "!=", "<", "&&", "||", "in"
                ]),
                inner.clone()
            )
                .prop_map(|(one, op, other)| format!("({one} {op} {other})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(one, two, three)| format!("({one} ? {two} : {three})")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "all",
                    "exists",
                    "map",
                    "filter",
                    "sortBy",
                    "existsOne"
                ]),
                inner.clone()
            )
                .prop_map(|(range, name, body)| format!("{range}.{name}(x, {body})")),
            (inner.clone(), inner.clone())
                .prop_map(|(range, body)| format!("{range}.transformMap(i, v, {body})")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "size()",
                    "sum()",
                    "min()",
                    "distinct()",
                    "sort()",
                    "reverse()",
                    "flatten()",
                    "first()",
                    "trim()",
                    "matches(self.s)",
                    "find(self.s)",
                    "split('')",
                    "replace('', self.s)",
                    "join(self.s)",
                    "substring(self.a)",
                    "format([self])",
                    "charAt(self.a)",
                    "slice(0, self.a)",
                    "indexOf(self.s)",
                    "getHours()",
                ])
            )
                .prop_map(|(on, call)| format!("{on}.{call}")),
            (
                prop::sample::select(vec![
                    "int",
                    "uint",
                    "double",
                    "string",
                    "bytes",
                    "duration",
                    "timestamp",
                    "type",
                    "dyn",
                    "quantity",
                    "ip",
                    "cidr",
                    "url",
                    "semver",
                    "isURL",
                    "isIP",
                    "size",
                    "optional.of",
                    "strings.quote",
                ]),
                inner
            )
                .prop_map(|(call, on)| format!("{call}(dyn({on}))")),
        ]
    })
}

fn schema() -> Structural {
    Structural::from_json(&json!({"type": "object", "properties": {
        "a": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"b": {"type": "number", "nullable": true}}},
        "p": {"x-kubernetes-int-or-string": true},
    }}))
}

fn objects() -> impl Strategy<Value = Json> {
    let text = "[a-c(\\[*+é ]{0,6}";
    (
        any::<Option<i64>>(),
        prop::option::of(text),
        prop::collection::vec(text, 0..4),
        prop::collection::btree_map(text, any::<i64>(), 0..3),
        any::<Option<f64>>(),
        any::<bool>(),
    )
        .prop_map(|(a, s, l, m, b, number)| {
            let mut object = json!({"l": l, "m": m, "o": {"b": b}, "p": if number { json!(3) } else { json!("30%") }});
            if let Some(a) = a {
                object["a"] = json!(a);
            }
            if let Some(s) = s {
                object["s"] = json!(s);
            }
            object
        })
}

fn run(source: &str, object: &Json) {
    let schema = schema();
    let declared = Declared::from_schema(&schema, false).unwrap();
    let variables = Variables::new(&declared).with("self", declared.kind.clone());
    let Ok(program) = Program::compile(source, &variables) else {
        return;
    };
    let own = Value::from_json(object, &schema).unwrap();
    let limit = 50_000;
    let outcome = program.eval(&[("self", own)], limit);
    // The step that goes over the limit is counted, and nothing after it.
    if outcome.result.is_ok() {
        assert!(outcome.cost <= limit);
    }
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(source in almost_expressions()) {
        run(&source, &json!({}));
    }

    #[test]
    fn any_unicode_compiles_or_is_refused(source in "\\PC{0,40}") {
        run(&source, &json!({}));
    }

    #[test]
    fn any_expression_ends_with_a_value_or_a_fault(source in expressions(), object in objects()) {
        run(&source, &object);
    }

    #[test]
    fn names_survive_escaping(name in "[a-z_.\\-/]{1,12}") {
        if let Some(escaped) = escape(&name) {
            let back = unescape(&escaped).map(|name| name.into_owned());
            prop_assert_eq!(back, Some(name));
        }
    }
}
