//! Tests of functions and operators.

use super::*;

#[test]
fn strings() {
    assert_values(&[
        ("'hällo'.size()", "5"),
        (
            "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')",
            "true",
        ),
        ("'tacocat'.charAt(3) + 'ab'.charAt(2)", "\"o\""),
        ("'ab'.charAt(3)", "fault: index out of range: 3"),
        ("'hello mellow'.indexOf('ello')", "1"),
        ("'hello mellow'.indexOf('ello', 2)", "7"),
        ("'hello mellow'.lastIndexOf('ello')", "7"),
        ("'hello mellow'.lastIndexOf('ello', 6)", "1"),
        ("'hello'.lastIndexOf('')", "5"),
        ("'hello'.indexOf('z')", "-1"),
        ("'TacoCat'.lowerAscii() + 'x'.upperAscii()", "\"tacocatX\""),
        ("'hello hello'.replace('he', 'we')", "\"wello wello\""),
        ("'hello hello'.replace('he', 'we', 1)", "\"wello hello\""),
        ("'abc'.replace('', '-')", "\"-a-b-c-\""),
        ("'a,b,c'.split(',')", "[\"a\", \"b\", \"c\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\", \"b,c\"]"),
        ("'abc'.split('')", "[\"a\", \"b\", \"c\"]"),
        ("'tacocat'.substring(4)", "\"cat\""),
        ("'tacocat'.substring(0, 4)", "\"taco\""),
        (
            "'abc'.substring(2, 1)",
            "fault: invalid substring range. start: 2, end: 1",
        ),
        ("'  x '.trim()", "\"x\""),
        ("['a', 'b'].join() + ['a', 'b'].join('-')", "\"aba-b\""),
        ("strings.quote('a\"b\\n')", "\"\\\"a\\\\\\\"b\\\\n\\\"\""),
        (
            "'%s is %d, %.2f, %x, %b, %%'.format(['a', 1, 2.345, 255, 5])",
            "\"a is 1, 2.35, ff, 101, %\"",
        ),
        (
            "'%s %s'.format([[1, 'a'], {'k': true}])",
            "\"[1, \\\"a\\\"] {\\\"k\\\":true}\"",
        ),
        (
            "'%d'.format([dyn('a')])",
            "fault: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format(dyn([]))", "fault: index 0 out of range"),
    ]);
}

#[test]
fn patterns() {
    assert_values(&[
        ("'abc'.matches('^a.c$') && matches('abc', 'b')", "true"),
        ("'abc 123 45'.find('[0-9]+')", "\"123\""),
        ("'abc'.find('[0-9]+')", "\"\""),
        ("'1 22 333'.findAll('[0-9]+')", "[\"1\", \"22\", \"333\"]"),
        ("'1 22 333'.findAll('[0-9]+', 2)", "[\"1\", \"22\"]"),
        (
            "'a'.find('[')",
            "fault: error parsing regexp: missing closing ]: `[`",
        ),
        // Time is linear in the text, whatever the pattern.
        (
            "('a'.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') + '!').matches('^(a+)+$')",
            "false",
        ),
    ]);
}

#[test]
fn lists_and_sets() {
    assert_values(&[
        ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", "true"),
        ("[1, 3].sum() + [1, 3].min() + [1, 3].max()", "8"),
        ("[1].filter(x, false).sum()", "0"),
        (
            "[1].filter(x, false).min()",
            "fault: min called on empty list",
        ),
        ("[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1)", "2"),
        ("[1, 2, 3].slice(1, 3)", "[2, 3]"),
        (
            "[1, 2, 3].slice(2, 5)",
            "fault: cannot slice(2, 5), list is length 3",
        ),
        ("[[1], [2, 3]].flatten()", "[1, 2, 3]"),
        ("[3, 1, 2].sort() + [1, 2].reverse()", "[1, 2, 3, 2, 1]"),
        ("['bb', 'a'].sortBy(s, s.size())", "[\"a\", \"bb\"]"),
        ("[1, 2, 1].distinct()", "[1, 2]"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("[1, 2].first().value() + [1, 2].last().value()", "3"),
        (
            "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 3]) && sets.equivalent([1, 1], [1])",
            "true",
        ),
    ]);
}

#[test]
fn optionals() {
    assert_values(&[
        ("optional.of(1)", "some(1)"),
        ("optional.ofNonZeroValue('')", "none"),
        ("optional.none().orValue(2)", "2"),
        ("optional.none().or(optional.of(3)).value()", "3"),
        ("optional.of(2).optMap(x, x + 1)", "some(3)"),
        ("optional.of(2).optFlatMap(x, optional.none())", "none"),
        ("{'a': {'b': 1}}.?a.?b", "some(1)"),
        ("{'a': {'b': 1}}.?z.?b", "none"),
        ("[1][?0].hasValue() && ![1][?1].hasValue()", "true"),
        ("[?optional.of(1), ?optional.none()]", "[1]"),
        (
            "{?'a': optional.of(1), ?'b': optional.none()}",
            "{\"a\": 1}",
        ),
        ("[optional.of(1), optional.none()].unwrapOpt()", "[1]"),
    ]);
}

#[test]
fn conversions_and_times() {
    assert_values(&[
        ("int('-7') + int(2.9) + int(3u)", "-2"),
        ("uint(3) + uint('4')", "7"),
        ("uint(-1)", "fault: unsigned integer overflow"),
        ("int(1e19)", "fault: integer overflow"),
        ("double('1.5') + double(1)", "2.5"),
        ("bool('true') && !bool('0')", "true"),
        (
            "string(1) + string(true) + string(1.5) + string(b'x')",
            "\"1true1.5x\"",
        ),
        (
            "string(1234567.0) + ' ' + string(0.00001)",
            "\"1.234567e+06 1e-05\"",
        ),
        (
            "string(duration('1h30m')) + string(duration('1.5s'))",
            "\"5400s1.5s\"",
        ),
        (
            "string(timestamp('2020-01-01T00:00:00Z'))",
            "\"2020-01-01T00:00:00Z\"",
        ),
        (
            "timestamp('2020-01-02T03:04:05.678Z').getMilliseconds()",
            "678",
        ),
        ("timestamp('2020-01-05T23:00:00Z').getDayOfWeek()", "0"),
        ("timestamp('2020-01-05T23:00:00Z').getHours('+02:00')", "1"),
        (
            "duration('90m').getHours() + duration('90m').getMinutes()",
            "91",
        ),
        (
            "timestamp('2020-01-01T00:00:00Z') + duration('24h') == timestamp('2020-01-02T00:00:00Z')",
            "true",
        ),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)",
            "fault: timestamp overflow",
        ),
    ]);
}

#[test]
fn kubernetes_kinds_of_values() {
    assert_values(&[
        (
            "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('1.5') && !isQuantity('x')",
            "true",
        ),
        (
            "quantity('1').add(quantity('500m')).isLessThan(quantity('2'))",
            "true",
        ),
        (
            "quantity('5').sub(2).asInteger() + sign(quantity('-1'))",
            "2",
        ),
        ("quantity('1k').compareTo(quantity('1000'))", "0"),
        ("quantity('1500m').isInteger()", "false"),
        (
            "quantity('1500m').asInteger()",
            "fault: cannot convert value to integer",
        ),
        ("isURL('https://a.b:80/c?d=e') && !isURL('a b')", "true"),
        (
            "url('https://u@a.b:80/c d?k=v&k=w#f').getHost()",
            "\"a.b:80\"",
        ),
        (
            "url('https://[::1]:80/x').getHostname() + url('https://[::1]:80/x').getPort()",
            "\"::180\"",
        ),
        ("url('https://a/b%20c').getEscapedPath()", "\"/b%20c\""),
        ("url('/a?k=v&k=w').getQuery()", "{\"k\": [\"v\", \"w\"]}"),
        (
            "isIP('::1') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4')",
            "true",
        ),
        ("ip('10.0.0.1').family() + ip('::1').family()", "10"),
        (
            "ip('127.0.0.1').isLoopback() && ip('169.254.1.1').isLinkLocalUnicast()",
            "true",
        ),
        ("ip.isCanonical('2001:DB8::1')", "false"),
        ("string(ip('2001:DB8::1'))", "\"2001:db8::1\""),
        (
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
            "true",
        ),
        (
            "string(cidr('10.1.2.3/8').masked()) + ' ' + string(cidr('10.1.2.3/8').ip())",
            "\"10.0.0.0/8 10.1.2.3\"",
        ),
        ("cidr('10.0.0.0/8').prefixLength()", "8"),
        (
            "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && isSemver('v1.2', true) && !isSemver('v1.2')",
            "true",
        ),
        (
            "semver('1.2.3').major() * 100 + semver('1.2.3').minor() * 10 + semver('1.2.3').patch()",
            "123",
        ),
        ("format.dns1123Label().validate('a-b').hasValue()", "false"),
        (
            "format.named('dns1123Label').value().validate('A_').hasValue()",
            "true",
        ),
        ("format.named('none').hasValue()", "false"),
        (
            "format.uuid().validate('x').value()",
            "[\"does not match the UUID format\"]",
        ),
    ]);
}
