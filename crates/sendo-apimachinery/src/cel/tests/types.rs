//! Tests of the issues that parsing and type checking report.

use super::*;

/// What is wrong with an expression, without the lines that show where.
fn issues(source: &str) -> Vec<String> {
    match Program::compile(source, &Variables::default()) {
        Ok(program) => panic!("{source} compiles to {}", program.output()),
        Err(error) => refused(error)
            .trim_start_matches("issues: ")
            .lines()
            .filter_map(|line| line.strip_prefix("ERROR: <input>:"))
            .map(str::to_owned)
            .collect(),
    }
}

#[test]
fn what_does_not_parse_is_refused_with_its_place() {
    const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    let cases = [
        (
            "1 +",
            format!("1:4: Syntax error: mismatched input '<EOF>' expecting {STARTS}"),
        ),
        (
            "1 2",
            "1:3: Syntax error: extraneous input '2' expecting <EOF>".to_owned(),
        ),
        (
            "a.",
            "1:3: Syntax error: no viable alternative at input '.'".to_owned(),
        ),
        (
            "a. +",
            "1:4: Syntax error: no viable alternative at input '. +'".to_owned(),
        ),
        (
            "1, 2",
            "1:2: Syntax error: mismatched input ',' expecting <EOF>".to_owned(),
        ),
        (
            "&& true",
            format!("1:1: Syntax error: extraneous input '&&' expecting {STARTS}"),
        ),
        (
            "[1, 2",
            "1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}".to_owned(),
        ),
        (
            "{'a' 1}",
            "1:6: Syntax error: missing ':' at '1'".to_owned(),
        ),
        (
            "[1][0:1]",
            "1:6: Syntax error: mismatched input ':' expecting ']'".to_owned(),
        ),
        (
            "'\\q'",
            "1:1: Syntax error: token recognition error at: ''\\q'".to_owned(),
        ),
        ("1e400 > 1.0", "1:1: invalid double literal".to_owned()),
        ("for", "1:1: reserved identifier: for".to_owned()),
        (
            "99999999999999999999",
            "1:1: invalid int literal".to_owned(),
        ),
        ("has(a)", "1:5: invalid argument to has() macro".to_owned()),
        (
            "[1].all(x.y, true)",
            "1:10: argument must be a simple name".to_owned(),
        ),
        (
            "[1].map(1, true)",
            "1:9: argument is not an identifier".to_owned(),
        ),
        (
            "[1].all(i, i, true)",
            "1:12: duplicate variable name: i".to_owned(),
        ),
        (
            "1 ==\n  @",
            "2:3: Syntax error: token recognition error at: '@'".to_owned(),
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(issues(source)[0], expected, "{source}");
    }
}

#[test]
fn places_count_characters_and_wide_ones_are_marked_wide() {
    assert_eq!(
        value("'ä' + 1"),
        "issues: ERROR: <input>:1:5: found no matching overload for '_+_' applied to '(string, int)'\n | 'ä' + 1\n | .．..^"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let cases = [
        ("x", "1:1: undeclared reference to 'x' (in container '')"),
        ("f(1)", "1:2: undeclared reference to 'f' (in container '')"),
        (
            "'a'.f()",
            "1:6: undeclared reference to 'f' (in container '')",
        ),
        (
            "1 + 1.0",
            "1:3: found no matching overload for '_+_' applied to '(int, double)'",
        ),
        (
            "1 == 1.0",
            "1:3: found no matching overload for '_==_' applied to '(int, double)'",
        ),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        (
            "{1: 1, 'a': 1}",
            "1:8: expected type 'int' but found 'string'",
        ),
        ("1 && true", "1:1: expected type 'bool' but found 'int'"),
        (
            "true ? 1 : 'a'",
            "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        (
            "1.all(x, true)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "[1].all(x, x)",
            "1:12: expected type 'bool' but found 'int'",
        ),
        (
            "'a'.x",
            "1:4: type 'string' does not support field selection",
        ),
        (
            "[1]['a']",
            "1:4: found no matching overload for '_[_]' applied to '(list(int), string)'",
        ),
        (
            "'a'.size(1)",
            "1:9: found no matching overload for 'size' applied to 'string.(int)'",
        ),
        (
            "quantity('1') + quantity('1')",
            "1:15: found no matching overload for '_+_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        (
            "ip('::1') == cidr('::/1')",
            "1:11: found no matching overload for '_==_' applied to '(net.IP, net.CIDR)'",
        ),
        (
            "a.b.c == 1",
            "1:1: undeclared reference to 'a' (in container '')",
        ),
        (
            "A{b: 1}",
            "1:2: undeclared reference to 'A' (in container '')",
        ),
        ("'a'.matches('[')", "1:13: invalid matches argument"),
        (
            "duration('x') == duration('1s')",
            "1:10: invalid duration argument",
        ),
        (
            "timestamp('2020') == timestamp(1)",
            "1:11: invalid timestamp argument",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(issues(source), [expected], "{source}");
    }
}

#[test]
fn a_template_fits_the_values_that_are_written_beside_it() {
    let cases = [
        ("'%s %d'.format(['a'])", "1:15: index 1 out of range"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([[1, optional.none()]])",
            "1:31: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            "'%q'.format([1])",
            "1:12: could not parse formatting clause: unrecognized formatting clause \"q\"",
        ),
        ("'%'.format([])", "1:11: unexpected end of string"),
        (
            "'%s'.format([1, 2])",
            "1:12: too many arguments supplied to string.format (expected 1, got 2)",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(issues(source), [expected], "{source}");
    }
}

#[test]
fn what_is_known_to_fail_is_refused_before_it_runs() {
    for source in [
        "int('x') == 1",
        "uint(-1) == 1u",
        "bool('yes')",
        "'a'.find('(') == ''",
    ] {
        let refused = Program::compile(source, &Variables::default());
        assert!(
            matches!(refused, Err(CompileError::Constant(_))),
            "{source}"
        );
    }
}

#[test]
fn types_follow_from_the_parts() {
    let cases = [
        ("[1].map(x, string(x))", "list(string)"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("[]", "list(dyn)"),
        ("[1].filter(x, x > 1)[0]", "int"),
        ("dyn(1)", "dyn"),
        ("type(1)", "type(int)"),
        ("optional.of(1).or(optional.none())", "optional_type(int)"),
        ("{'a': 1}.?a", "optional_type(int)"),
        ("[?optional.of(1)]", "list(int)"),
        ("url('/').getQuery()", "map(string, list(string))"),
        ("timestamp(1) - timestamp(0)", "duration"),
        ("[[1], [2]].flatten()", "list(int)"),
        ("['b'].sortBy(x, x)", "list(string)"),
    ];
    for (source, expected) in cases {
        let program = Program::compile(source, &Variables::default()).expect(source);
        assert_eq!(program.output().to_string(), expected, "{source}");
    }
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let deep = [
        format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000)),
        format!("{}1", "-".repeat(3_000) + "(-".repeat(300).as_str()),
        vec!["1"; 5_000].join(" + "),
        format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000)),
        format!("[1]{}", ".map(x, [x])".repeat(1_000)),
    ];
    for source in deep {
        let refused = value(&source);
        assert!(refused.starts_with("issues: ERROR"), "{refused:.200}");
    }
    assert_eq!(value(&vec!["1"; 240].join(" + ")), "240");
    let nested = format!("{}1{}", "[".repeat(90), "]".repeat(90));
    assert_eq!(value(&format!("{nested} == {nested}")), "true");
    let wide = vec!["1 == 1"; 5_000].join(" && ");
    assert_eq!(value(&wide), "true");
    let long = format!("'{}' == ''", "a".repeat(100_001));
    let refused = value(&long);
    assert!(
        refused.contains("expression code point size exceeds limit"),
        "{refused:.200}"
    );
}
