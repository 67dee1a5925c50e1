//! Tests of the YAML reader.

use super::*;
use serde_json::json;

fn value(text: &str) -> Value {
    read(text.as_bytes()).unwrap().value
}

fn refused(text: &str) -> String {
    read(text.as_bytes()).unwrap_err()
}

#[test]
fn documents_become_json() {
    let cases = [
        ("", Value::Null),
        ("--- \n", Value::Null),
        ("# nothing\n", Value::Null),
        (
            "a: 1\nb: [x, 'y', \"z\"]\nc: {d: e}\n",
            json!({"a": 1, "b": ["x", "y", "z"], "c": {"d": "e"}}),
        ),
        ("- a\n- b: c\n  d: e\n", json!(["a", {"b": "c", "d": "e"}])),
        ("a: b\n---\nc: d\n", json!({"a": "b"})),
        ("a: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
        ("a: >-\n  x\n  y\n", json!({"a": "x y"})),
        ("{\"a\": [1, null]}", json!({"a": [1, null]})),
        ("just words", json!("just words")),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text:?}");
    }
}

#[test]
fn plain_scalars_follow_yaml_1_1() {
    let cases = [
        ("yes", json!(true)),
        ("off", json!(false)),
        ("y", json!(true)),
        ("'yes'", json!("yes")),
        ("~", Value::Null),
        ("010", json!(8)),
        ("08", json!(8)),
        ("0x10", json!(16)),
        ("-0x10", json!(-16)),
        ("0b101", json!(5)),
        ("0o17", json!(15)),
        ("1_000", json!(1000)),
        ("+5", json!(5)),
        ("1e1", json!(10)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1.", json!(1)),
        ("2001-01-01", json!("2001-01-01")),
        ("1:30", json!("1:30")),
        ("18446744073709551615", json!(18446744073709551615u64)),
        ("18446744073709551616", json!(18446744073709551616.0)),
        ("!!str 1", json!("1")),
        ("!!float 1", json!(1)),
        ("!!int \"1\"", json!(1)),
        ("!!binary aGk=", json!("hi")),
        ("!custom x", json!("x")),
    ];
    for (text, expected) in cases {
        assert_eq!(
            value(&format!("a: {text}")),
            json!({"a": expected}),
            "{text}"
        );
    }
    assert_eq!(
        value("{yes: 1, 2: 3, 1.5: 4}"),
        json!({"true": 1, "2": 3, "1.5": 4})
    );
}

#[test]
fn aliases_and_merges_are_resolved() {
    assert_eq!(
        value("a: &x [1, 2]\nb: *x\n"),
        json!({"a": [1, 2], "b": [1, 2]})
    );
    assert_eq!(
        value("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n"),
        json!({"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}})
    );
    assert_eq!(
        refused("a: *nope\n"),
        "yaml: unknown anchor 'nope' referenced"
    );
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..10 {
        let item = format!("*a{}", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", [item.as_str(); 9].join(","));
    }
    assert_eq!(refused(&text), "yaml: document contains excessive aliasing");
}

/// Documents that say one long text once, and `count` times by aliases.
fn expanding(size: usize, count: usize) -> Vec<(&'static str, String)> {
    let text = "x".repeat(size);
    let document = |anchor: &str, item: &str| {
        let mut document = format!("x:\n- &a {}\n", anchor.replace("TEXT", &text));
        (0..count).for_each(|_| document += item);
        document
    };
    vec![
        ("a text", document("\"TEXT\"", "- *a\n")),
        ("a key", document("\"TEXT\"", "- {*a : 1}\n")),
        ("a list", document("[[TEXT], [1]]", "- *a\n")),
        ("a map", document("{k: {? TEXT : v}}", "- *a\n")),
        ("a merged map", document("{? TEXT : v}", "- {<<: *a}\n")),
        ("merged maps", document("{? TEXT : v}", "- {<<: [*a]}\n")),
        (
            "merged into one",
            document("{? TEXT : v}", "- {<<: [{k: w}, *a, {l: w}]}\n"),
        ),
    ]
}

#[test]
fn what_aliases_expand_to_counts_as_if_it_had_been_sent() {
    const SIZE: usize = 40_000;
    for (what, text) in expanding(SIZE, BODY_LIMIT / SIZE - 2) {
        let read = value(&text).to_string();
        assert!(read.len() > BODY_LIMIT - 3 * SIZE, "{what}");
        assert!(read.len() <= BODY_LIMIT, "{what}");
    }
    for (what, text) in expanding(SIZE, BODY_LIMIT / SIZE + 1) {
        let expected = "yaml: document contains excessive aliasing";
        assert_eq!(refused(&text), expected, "{what}");
    }
}

#[test]
fn a_body_as_long_as_any_leaves_aliases_no_room() {
    let mut text = format!("a: &a x\nb: {}\nc: *a\n", "x".repeat(BODY_LIMIT));
    assert_eq!(refused(&text), "yaml: document contains excessive aliasing");
    text.truncate(BODY_LIMIT);
    assert_eq!(value(&text)["a"], "x");
}

#[test]
fn nothing_is_larger_than_what_was_sent_and_what_aliases_may_add() {
    let shapes = [
        "a0: &a0 [x, {y: z}]\n",
        "a0: &a0 {k: [1, 2], l: ~}\n",
        "a0: &a0 'some words'\n",
    ];
    for shape in shapes {
        for width in 2..6 {
            let mut text = shape.to_owned();
            for level in 1..8 {
                let below = vec![format!("*a{}", level - 1); width].join(", ");
                text += &format!("a{level}: &a{level} [{below}]\n");
                for room in [0, 100, 1000, 10_000] {
                    if let Ok(yaml) = read_within(text.as_bytes(), text.len() + room) {
                        let size = yaml.value.to_string().len();
                        assert!(size <= 2 * text.len() + 2 * room, "{text}: {size}");
                    }
                }
            }
        }
    }
}

/// A document whose anchors lead down through each other, `nested` lists at a time.
fn chained(links: usize, nested: usize) -> String {
    let (open, close) = ("[".repeat(nested), "]".repeat(nested));
    let mut text = "a0: &a0 x\n".to_owned();
    for link in 1..links {
        text += &format!("a{link}: &a{link} {open}*a{}{close}\n", link - 1);
    }
    text
}

#[test]
fn aliases_lead_no_deeper_than_anything_may_nest() {
    for (links, nested) in [(3, 150), (30, 13), (20, 20)] {
        read(chained(links, nested).as_bytes()).unwrap();
    }
    for (links, nested) in [(4, 150), (50, 240), (22, 20)] {
        let text = chained(links, nested);
        assert_eq!(refused(&text), "yaml: exceeded max depth");
    }
}

#[test]
fn only_so_many_repeated_keys_are_reported() {
    let yaml = read("a:\n".repeat(100_000).as_bytes()).unwrap();
    assert_eq!(yaml.duplicates.len(), MAX_DUPLICATES);
}

#[test]
fn an_alias_to_itself_is_refused() {
    assert!(refused("a: &x [*x]\n").starts_with("yaml: "));
}

#[test]
fn repeated_keys_are_reported_with_the_line_of_their_value() {
    let yaml = read(b"metadata:\n  name: d\n  name: e\ndata: {}\ndata: {}\n").unwrap();
    assert_eq!(
        yaml.duplicates,
        [
            "line 3: key \"name\" already set in map",
            "line 5: key \"data\" already set in map"
        ]
    );
    assert_eq!(yaml.value, json!({"metadata": {"name": "e"}, "data": {}}));
}

#[test]
fn faults_are_reported_with_the_messages_of_go() {
    let cases = [
        (
            "a: b: c",
            "yaml: mapping values are not allowed in this context",
        ),
        (
            "metadata:\n\tname: a",
            "yaml: line 2: found character that cannot start any token",
        ),
        ("[1, 2", "yaml: line 1: did not find expected ',' or ']'"),
        (
            "a: 1\nfoo\n\nb: 2\n",
            "yaml: line 4: could not find expected ':'",
        ),
        ("a: [", "yaml: line 1: did not find expected node content"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), expected, "{text:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    assert!(read("[".repeat(5000).as_bytes()).is_err());
    assert!(read("- ".repeat(5000).as_bytes()).is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>) {
        let _ = read(&body);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-c:\\-\\[\\]{},&*!|>'\"#%?\\n \\t<0-9]{0,60}") {
        let _ = read(text.as_bytes());
    }
}
