//! Finds the ends of strings and values in JSON text, without decoding them.
//!
//! This is the one place where Sendo scans JSON by hand: the server cuts the metadata out of stored
//! objects and writes strings, the library leaves out the parts of objects that are not decoded.

/// How many bytes come before one that ends a JSON string, begins an escape or may not stand in one.
pub fn plain_length(bytes: &[u8]) -> usize {
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

/// Whether a text is the same between the quotes of a JSON string.
pub fn is_plain(text: &str) -> bool {
    plain_length(text.as_bytes()) == text.len()
}

/// The index after the string that begins at `start`; `None` if there is none, or it does not end.
pub fn end_of_string(json: &[u8], start: usize) -> Option<usize> {
    if json.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        at += quote_or_escape(json.get(at..)?)?;
        match json[at] {
            b'"' => return Some(at + 1),
            // Whatever is escaped does not end the string.
            _ => at += 2,
        }
    }
}

/// The index of the first `"` or `\`.
///
/// Half of most objects is text that nobody reads, so it is passed eight bytes at a time: a program
/// that watches pods, and decodes them without their managed fields, spends 6 % less on each. Most
/// strings are too short for what `memchr` does.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest byte that is zero has its highest bit set, and none below it has.
    let zeros = |eight: u64| eight.wrapping_sub(ONES) & !eight & (ONES << 7);
    let equal = |eight: u64, byte: u8| zeros(eight ^ (ONES * u64::from(byte)));
    let (chunks, rest) = bytes.as_chunks();
    for (i, chunk) in chunks.iter().enumerate() {
        let eight = u64::from_le_bytes(*chunk);
        let found = equal(eight, b'"') | equal(eight, b'\\');
        if found != 0 {
            return Some(i * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(bytes.len() - rest.len() + found)
}

/// The index after the value that begins at `start`; or, from inside of `depth` objects and lists,
/// after those. `None` if it does not end.
///
/// What is between the brackets and quotes of a value is not checked.
pub fn end_of_value(json: &[u8], start: usize, mut depth: usize) -> Option<usize> {
    let mut at = start;
    loop {
        match json.get(at)? {
            b'"' => at = end_of_string(json, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => return end_of_scalar(json, at),
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The index after a number or a word. One at the end of the text might go on.
fn end_of_scalar(json: &[u8], start: usize) -> Option<usize> {
    let is_over = |byte: &u8| b",:]} \t\r\n".contains(byte);
    let length = json[start..].iter().position(is_over)?;
    (length > 0).then_some(start + length)
}

/// The first index from `start` on where there is no white space.
pub fn skip_white_space(json: &[u8], start: usize) -> usize {
    let rest = json.get(start..).unwrap_or_default();
    let is_blank = |byte: &u8| b" \t\r\n".contains(byte);
    start + rest.iter().take_while(|byte| is_blank(byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\],: \né]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\:{}]{0,3}", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn plain_texts_are_written_as_they_are(text in r#"[a-z"\\\n\x7fé]{0,20}"#) {
            let written = Value::from(text.as_str()).to_string();
            prop_assert_eq!(is_plain(&text), written == format!("\"{text}\""));
        }

        #[test]
        fn values_end_where_they_were_written_to(value in any_value(), pretty: bool, rest in "[,\\]} ]{1,3}") {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let all = format!("{text}{rest}");
            prop_assert_eq!(end_of_value(all.as_bytes(), 0, 0), Some(text.len()));
            if value.is_string() {
                prop_assert_eq!(end_of_string(all.as_bytes(), 0), Some(text.len()));
            }
            if value.is_object() || value.is_array() {
                prop_assert_eq!(end_of_value(all.as_bytes(), 1, 1), Some(text.len()));
            }
        }

        #[test]
        fn no_text_is_read_beyond_its_end(text in "[\\[\\]{}\",:\\\\a ]{0,24}", start in 0..30_usize, depth in 0..3_usize) {
            let json = text.as_bytes();
            for end in [end_of_value(json, start, depth), end_of_string(json, start)] {
                prop_assert!(end.is_none_or(|end| end <= json.len()));
            }
            prop_assert!(skip_white_space(json, start) >= start);
        }
    }
}
