//! The text of JSON strings.

/// How many bytes come before one that ends a JSON string, begins an escape or
/// may not stand in one.
///
/// Every string of a body is read and written by this, so it looks at eight bytes
/// at a time.
pub fn plain_length(bytes: &[u8]) -> usize {
    let (chunks, _) = bytes.as_chunks();
    for (i, eight) in chunks.iter().enumerate() {
        let ends = ends(*eight);
        if ends != 0 {
            return i * 8 + first(ends);
        }
    }
    // The rest as part of eight bytes that end with it, or of two times four.
    if let Some(eight) = bytes.last_chunk() {
        return bytes.len() - 8 + first(ends(*eight));
    }
    if let (Some([a, b, c, d]), Some([w, x, y, z])) = (bytes.first_chunk(), bytes.last_chunk()) {
        let first = first(ends([*a, *b, *c, *d, *w, *x, *y, *z]));
        return if first < 4 {
            first
        } else {
            bytes.len() + first - 8
        };
    }
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

/// Whether a text is the same between the quotes of a JSON string.
pub fn is_plain(text: &str) -> bool {
    plain_length(text.as_bytes()) == text.len()
}

/// The lowest of eight bytes that is not plain has its highest bit set, and none before it has.
fn ends(eight: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let eight = u64::from_le_bytes(eight);
    let below = |eight: u64, number: u64| eight.wrapping_sub(ONES * number) & !eight & (ONES << 7);
    let equal = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    equal(b'"') | equal(b'\\') | below(eight, 0x20)
}

/// The first of the bytes that [`ends`] has found; eight if it has found none.
fn first(ends: u64) -> usize {
    ends.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn bytes_are_counted_as_if_one_by_one(bytes: Vec<u8>) {
            for from in 0..bytes.len() {
                let bytes = &bytes[from..];
                let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
                let length = bytes.iter().position(ends).unwrap_or(bytes.len());
                proptest::prop_assert_eq!(plain_length(bytes), length);
            }
        }

        #[test]
        fn plain_texts_are_written_as_they_are(text in r#"[a-z"\\\n\x7fé]{0,20}"#) {
            let written = serde_json::Value::from(text.as_str()).to_string();
            proptest::prop_assert_eq!(is_plain(&text), written == format!("\"{text}\""));
        }
    }
}
