//! Bytes that are no text to Go's YAML reader, which says so in its own words.
//!
//! Follows `yaml_parser_update_buffer` in go.yaml.in/yaml/v2 (readerc.go).

/// What is wrong with the first character that may not stand in YAML.
pub(super) fn fault(body: &[u8]) -> Option<&'static str> {
    let mut rest = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    while let Some(&first) = rest.first() {
        if is_common(first) {
            rest = &rest[1..];
            continue;
        }
        let width = match width(first) {
            0 => return Some("invalid leading UTF-8 octet"),
            width if width > rest.len() => return Some("incomplete UTF-8 octet sequence"),
            width => width,
        };
        let (octets, others) = rest.split_at(width);
        rest = others;
        if octets[1..].iter().any(|octet| octet & 0xC0 != 0x80) {
            return Some("invalid trailing UTF-8 octet");
        }
        match std::str::from_utf8(octets).map(|text| text.chars().next()) {
            Ok(Some(character)) if is_allowed(character) => {}
            Ok(_) => return Some("control characters are not allowed"),
            Err(_) => return Some(other_fault(octets)),
        }
    }
    None
}

/// Whether a byte is a character by itself that may stand anywhere.
fn is_common(octet: u8) -> bool {
    matches!(octet, b' '..=b'~' | b'\t' | b'\n' | b'\r')
}

/// How many bytes the character has that begins with this one; 0 if none does.
fn width(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF8 => 4,
        _ => 0,
    }
}

fn is_allowed(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..
    ) && character != '\u{feff}'
}

/// What is wrong with octets that are well formed, but stand for no character.
fn other_fault(octets: &[u8]) -> &'static str {
    let is_too_long = match octets {
        [0xC0 | 0xC1, ..] => true,
        [0xE0, second, ..] => *second < 0xA0,
        [0xF0, second, ..] => *second < 0x90,
        _ => false,
    };
    match is_too_long {
        true => "invalid length of a UTF-8 sequence",
        false => "invalid Unicode character",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_as_go_tells_it() {
        let cases: [(&[u8], Option<&str>); 12] = [
            (b"a: \"\xc3\xa4\"\r\n\t\xe2\x82\xac\xf0\x9f\x98\x80", None),
            (b"\xef\xbb\xbfa: b", None),
            (b"a\xef\xbb\xbf", Some("control characters are not allowed")),
            (b"\0", Some("control characters are not allowed")),
            (b"\x1f\x8b", Some("control characters are not allowed")),
            (b"\x7f", Some("control characters are not allowed")),
            (b"ok\xff", Some("invalid leading UTF-8 octet")),
            (b"\xe9\xe8", Some("incomplete UTF-8 octet sequence")),
            (b"\xd9\xd9\xf7", Some("invalid trailing UTF-8 octet")),
            (b"\xc0\x80", Some("invalid length of a UTF-8 sequence")),
            (b"\xed\xa0\x80", Some("invalid Unicode character")),
            (b"\xf7\xbf\xbf\xbf", Some("invalid Unicode character")),
        ];
        for (body, expected) in cases {
            assert_eq!(fault(body), expected, "{body:?}");
        }
    }
}
