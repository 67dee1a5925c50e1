//! Tests of estimated and actual costs.

use super::*;

/// The most a rule over a schema can cost, and what it cost for an object.
fn costs(schema: Json, object: &Json, source: &str) -> (u64, u64) {
    let schema = Structural::from_json(&schema);
    let declared = Declared::from_schema(&schema, false).expect("the schema declares a type");
    let variables = Variables::new(&declared).with("self", declared.kind.clone());
    let program = Program::compile(source, &variables).expect(source);
    let own = Value::from_json(object, &schema).expect("the object fits its schema");
    let outcome = program.eval(&[("self", own)], CALL_LIMIT);
    (program.max_cost(), outcome.cost)
}

#[test]
fn every_step_has_its_price() {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 10},
        "i": {"type": "integer"},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
    }});
    let object = json!({"s": "hello", "i": 3, "l": [1, 2, 3]});
    let cases = [
        // A variable and a field cost one each, literals nothing.
        ("self.i > 2", (3, 3)),
        // Comparing texts looks at no more than the shorter.
        ("self.s == 'hello'", (3, 3)),
        ("has(self.s)", (1, 1)),
        // A character takes up to four bytes, and ten of them cost one.
        ("self.s.startsWith('he')", (3, 3)),
        ("self.s.contains('he')", (6, 3)),
        ("self.s.size() < 4", (4, 4)),
        // Each round: the condition (2), the variable, the accumulator and the comparison.
        ("self.l.all(x, x > 0)", (2 + 5 * 5 + 1, 2 + 3 * 5 + 1)),
        (
            "size(self.l.map(x, x)) == 3",
            (2 + 10 + 5 * (1 + 10 + 1 + 1) + 1 + 1 + 1, 0),
        ),
    ];
    for (source, (most, spent)) in cases {
        let found = costs(schema.clone(), &object, source);
        assert_eq!(found.0, most, "{source}");
        assert!(spent == 0 || found.1 == spent, "{source} cost {}", found.1);
        assert!(
            found.1 <= found.0,
            "{source} cost {} of {}",
            found.1,
            found.0
        );
    }
}

#[test]
fn without_bounds_the_size_of_a_request_bounds() {
    let schema = json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}});
    let (most, _) = costs(schema, &json!([]), "self.all(l, l.all(s, s.contains('x')))");
    assert!(most > 1_000_000_000_000, "{most}");
}

#[test]
fn the_text_of_a_number_or_a_text_is_no_longer_than_the_text() {
    let schema = json!({"type": "object", "properties": {
        "bound": {"x-kubernetes-int-or-string": true, "maxLength": 32},
        "number": {"type": "integer"},
    }});
    let object = json!({"bound": "1Gi", "number": 3});
    let most = |source| costs(schema.clone(), &object, source).0;
    let rule = "quantity(string(self.bound)).isGreaterThan(quantity('1'))";
    assert!(most(rule) < 100, "{}", most(rule));
    // How long a number's own text is, nobody says.
    assert!(most("string(self.number).contains('1')") > 100_000);
}

#[test]
fn what_costs_too_much_is_stopped() {
    let sources = [
        "lists.range(100000).all(x, lists.range(100).all(y, x + y >= 0))",
        "lists.range(1000000000).size() > 0",
        "lists.range(100000).distinct().size() > 0",
        "sets.equivalent(lists.range(100000), lists.range(100000))",
        "lists.range(50000).map(x, string(x)).exists(s, 'aaaa'.matches(s + '(a|b)*c?'))",
        "lists.range(400000).transformMap(i, v, v).size() > 0",
        "'a'.replace('', lists.range(9000).map(x, 'xxxxxxxxxx').join()).replace('', lists.range(9000).map(x, 'xxxxxxxxxx').join()).size() > 0",
        "lists.range(60000).map(x, 'x').join().split('').map(a, lists.range(1000)).size() > 0",
        // A list may hold the same list many times over.
        "[lists.range(1000)].map(a, lists.range(1000).map(x, a)).map(b, lists.range(1000).map(x, b)).all(c, c == c)",
        "[lists.range(1000)].map(a, lists.range(1000).map(x, a)).map(b, lists.range(1000).map(x, b)).flatten().flatten().flatten().size() > 0",
        "[lists.range(9000)].all(l, lists.range(20000).all(x, (l + l).size() > x))",
    ];
    for source in sources {
        let program = Program::compile(source, &Variables::default()).expect(source);
        let fault = program.eval(&[], CALL_LIMIT / 10).result.expect_err(source);
        assert_eq!(fault, Fault::TooExpensive, "{source}");
    }
}

#[test]
fn an_evaluation_stops_at_its_limit() {
    let program = Program::compile("[1, 2, 3].all(x, x > 0)", &Variables::default()).unwrap();
    let outcome = program.eval(&[], 4);
    assert_eq!(outcome.result.unwrap_err(), Fault::TooExpensive);
    assert!(outcome.cost < 10);
}
