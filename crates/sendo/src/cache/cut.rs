//! JSON of which a part is cut out before it is decoded.

use std::ops::Range;

/// The JSON of an object without its `metadata.managedFields`; `None` if it has
/// none, or is no object.
///
/// They are half of many objects, and would be decoded only to be dropped.
pub(super) fn without_managed_fields(json: &[u8]) -> Option<Vec<u8>> {
    let metadata = member(json, 0, b"metadata")?;
    let fields = member(json, metadata.value.start, b"managedFields")?;
    // A comma goes with it: the one behind, or else the one before.
    let (mut from, mut to) = (fields.name.start, fields.value.end);
    let behind = blanks(json, to);
    if json.get(behind) == Some(&b',') {
        to = behind + 1;
    } else if let Some(comma) = fields.comma {
        from = comma;
    }
    Some([&json[..from], &json[to..]].concat())
}

/// Where a member of an object stands.
struct Member {
    /// The comma before it.
    comma: Option<usize>,
    /// Its name, with quotes.
    name: Range<usize>,
    value: Range<usize>,
}

/// Finds a member of the object that begins at `at`. Only as much is read as is
/// needed for that.
fn member(json: &[u8], at: usize, wanted: &[u8]) -> Option<Member> {
    let mut at = blanks(json, at);
    if json.get(at) != Some(&b'{') {
        return None;
    }
    let mut comma = None;
    loop {
        let name = blanks(json, at + 1);
        let name = name..text(json, name)?;
        let colon = blanks(json, name.end);
        if json.get(colon) != Some(&b':') {
            return None;
        }
        let value = blanks(json, colon + 1);
        let value = value..end(json, value)?;
        if &json[name.start + 1..name.end - 1] == wanted {
            return Some(Member { comma, name, value });
        }
        at = blanks(json, value.end);
        comma = Some(at).filter(|at| json.get(*at) == Some(&b','));
        comma?;
    }
}

/// The place behind the value that begins at `at`.
fn end(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match json.get(at)? {
            b'"' => at = text(json, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let is_over = |byte: &u8| b",:]} \t\r\n".contains(byte);
                at += json[at..].iter().position(is_over)?;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The place behind the string that begins at `at`.
fn text(json: &[u8], at: usize) -> Option<usize> {
    if json.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += json
            .get(at..)?
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))?;
        match json[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// The first place from `at` on that is no blank.
fn blanks(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    let blank = |byte: &u8| b" \t\r\n".contains(byte);
    at + rest.iter().take_while(|byte| blank(byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cut(json: &str) -> Option<String> {
        without_managed_fields(json.as_bytes()).map(|json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn the_fields_go_with_one_comma() {
        for (whole, without) in [
            (
                r#"{"metadata":{"managedFields":[{"a":"]\""}],"name":"x"},"spec":{}}"#,
                r#"{"metadata":{"name":"x"},"spec":{}}"#,
            ),
            (
                r#"{"a":1, "metadata": {"name": "x", "managedFields": []}}"#,
                r#"{"a":1, "metadata": {"name": "x"}}"#,
            ),
            (
                r#"{"metadata":{"managedFields":null}}"#,
                r#"{"metadata":{}}"#,
            ),
        ] {
            assert_eq!(cut(whole).as_deref(), Some(without));
        }
    }

    #[test]
    fn fields_of_that_name_elsewhere_stay() {
        assert_eq!(
            cut(r#"{"metadata":{"labels":{"managedFields":"[]"}},"managedFields":[]}"#),
            None
        );
        assert_eq!(
            cut(
                r#"{"spec":{"metadata":{"managedFields":[]}},"metadata":{"a":"\"managedFields\":[]"}}"#
            ),
            None
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\],: \n]{0,6}".prop_map(Value::from),
        ];
        let name = prop_oneof![
            Just("metadata".to_owned()),
            Just("managedFields".to_owned()),
            "[a-z\"\\\\]{0,3}",
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_else_changes(metadata in any_value(), rest in any_value(), pretty: bool) {
            let object = json!({"kind": rest, "metadata": metadata, "spec": rest});
            let mut expected = object.clone();
            let removed = expected["metadata"]
                .as_object_mut()
                .and_then(|metadata| metadata.remove("managedFields"));
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let left = cut(&text).map(|text| serde_json::from_str::<Value>(&text).unwrap());
            prop_assert_eq!(left, removed.map(|_| expected));
        }

        #[test]
        fn nonsense_is_left_alone(text in "[\\[\\]{}\",:\\\\a ]{0,24}") {
            let _ = cut(&text);
            let _ = cut(&format!("{{\"metadata\":{text}"));
        }
    }
}
