//! Reads JSON as Go's decoder does: invalid UTF-8 is replaced, repeated members
//! are kept for the caller to check, errors are reported in Go's words.

use std::borrow::Cow;

use super::document::{Document, Node};
use crate::go_text::go_quote;
use sendo_json::plain_length;

/// How deep JSON may nest at all.
const MAX_NESTING: usize = 10_000;

/// Reads a whole body.
pub(super) fn read(body: &[u8]) -> Result<Document<'_>, String> {
    let mut reader = Reader {
        body,
        text: std::str::from_utf8(body).ok(),
        at: 0,
        // Most are a few characters and a quote or two.
        nodes: Vec::with_capacity(body.len() / 12),
        open: Vec::with_capacity(16),
    };
    reader.document()?;
    Ok(Document {
        nodes: reader.nodes,
    })
}

struct Reader<'a> {
    body: &'a [u8],
    /// The body, if all of it is UTF-8.
    text: Option<&'a str>,
    at: usize,
    nodes: Vec<Node<'a>>,
    /// The containers that are not closed yet, by their nodes.
    open: Vec<usize>,
}

type Read<T = ()> = Result<T, String>;

impl<'a> Reader<'a> {
    fn document(&mut self) -> Read {
        self.value()?;
        while let Some(&container) = self.open.last() {
            let is_map = matches!(self.nodes[container], Node::Map { .. });
            match (self.blank_then()?, is_map) {
                (b',', true) => {
                    self.at += 1;
                    self.name()?;
                    self.value()?;
                }
                (b',', false) => {
                    self.at += 1;
                    self.value()?;
                }
                (b'}', true) | (b']', false) => {
                    self.at += 1;
                    self.close();
                }
                (_, true) => return self.invalid("after object key:value pair"),
                (_, false) => return self.invalid("after array element"),
            }
        }
        self.blanks();
        if self.at < self.body.len() {
            return self.invalid("after top-level value");
        }
        Ok(())
    }

    /// Reads a value, or the beginning of one that holds others, down to the first that does not.
    fn value(&mut self) -> Read {
        loop {
            let node = match self.blank_then()? {
                b'{' => {
                    self.open(Node::Map { end: 0 })?;
                    if self.blank_then()? == b'}' {
                        self.at += 1;
                        self.close();
                        return Ok(());
                    }
                    self.name()?;
                    continue;
                }
                b'[' => {
                    self.open(Node::List { end: 0 })?;
                    if self.blank_then()? == b']' {
                        self.at += 1;
                        self.close();
                        return Ok(());
                    }
                    continue;
                }
                b'"' => Node::Text(self.string()?),
                b't' => self.literal("true", Node::Bool(true))?,
                b'f' => self.literal("false", Node::Bool(false))?,
                b'n' => self.literal("null", Node::Null)?,
                b'-' | b'0'..=b'9' => Node::Number(Cow::Borrowed(self.number()?)),
                _ => return self.invalid("looking for beginning of value"),
            };
            self.nodes.push(node);
            return Ok(());
        }
    }

    fn open(&mut self, node: Node<'a>) -> Read {
        if self.open.len() >= MAX_NESTING {
            return self.invalid("exceeded max depth");
        }
        self.at += 1;
        self.open.push(self.nodes.len());
        self.nodes.push(node);
        Ok(())
    }

    fn close(&mut self) {
        let behind = self.nodes.len();
        if let Some(container) = self.open.pop()
            && let Node::List { end } | Node::Map { end } = &mut self.nodes[container]
        {
            *end = behind;
        }
    }

    fn name(&mut self) -> Read {
        if self.blank_then()? != b'"' {
            return self.invalid("looking for beginning of object key string");
        }
        let name = self.string()?;
        self.nodes.push(Node::Text(name));
        if self.blank_then()? != b':' {
            return self.invalid("after object key");
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &str, node: Node<'a>) -> Read<Node<'a>> {
        for (i, expected) in word.bytes().enumerate() {
            if self.byte()? != expected {
                let context = format!("in literal {word} (expecting '{}')", &word[i..=i]);
                return self.invalid(&context);
            }
            self.at += 1;
        }
        Ok(node)
    }

    fn number(&mut self) -> Read<&'a str> {
        let start = self.at;
        if self.body[self.at] == b'-' {
            self.at += 1;
        }
        if self.byte()? == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.body.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.body.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.byte()? {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(std::str::from_utf8(&self.body[start..self.at]).expect("only ASCII was passed"))
    }

    fn digits(&mut self, context: &str) -> Read {
        if !self.byte()?.is_ascii_digit() {
            return self.invalid(context);
        }
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a string, from its opening quote to behind its closing one.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut plain = true;
        loop {
            self.at += plain_length(&self.body[self.at..]);
            match self.byte()? {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    self.escape()?;
                }
                _ => return self.invalid("in string literal"),
            }
        }
        let end = self.at;
        self.at += 1;
        Ok(match self.text {
            Some(text) if plain => Cow::Borrowed(&text[start..end]),
            _ => Cow::Owned(unescape(&self.body[start..end])),
        })
    }

    /// Checks an escape, from its backslash to behind its end.
    fn escape(&mut self) -> Read {
        self.at += 1;
        match self.byte()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
            b'u' => {
                for _ in 0..4 {
                    self.at += 1;
                    if !self.byte()?.is_ascii_hexdigit() {
                        return self.invalid("in \\u hexadecimal character escape");
                    }
                }
            }
            _ => return self.invalid("in string escape code"),
        }
        self.at += 1;
        Ok(())
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.body.get(self.at) {
            self.at += 1;
        }
    }

    fn blank_then(&mut self) -> Read<u8> {
        self.blanks();
        self.byte()
    }

    fn byte(&self) -> Read<u8> {
        let byte = self.body.get(self.at).copied();
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn invalid<T>(&self, context: &str) -> Read<T> {
        // Go shows the byte as the character of that number.
        let shown = match self.byte()? {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            byte => {
                let quoted = go_quote(&char::from(byte).to_string());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        Err(format!("invalid character {shown} {context}"))
    }
}

/// Resolves the escapes of a string that was checked before.
fn unescape(mut text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    while let Some((&byte, rest)) = text.split_first() {
        if byte != b'\\' {
            text = push_plain(&mut out, text);
            continue;
        }
        let Some((&escape, rest)) = rest.split_first() else {
            break;
        };
        text = rest;
        match escape {
            b'b' => out.push('\x08'),
            b'f' => out.push('\x0c'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => text = push_unicode(&mut out, text),
            other => out.push(char::from(other)),
        }
    }
    out
}

/// Takes over what comes before the next escape; each byte that is no UTF-8 is replaced.
fn push_plain<'t>(out: &mut String, text: &'t [u8]) -> &'t [u8] {
    let end = text.iter().position(|&b| b == b'\\').unwrap_or(text.len());
    let (mut plain, rest) = text.split_at(end);
    loop {
        match std::str::from_utf8(plain) {
            Ok(valid) => {
                out.push_str(valid);
                return rest;
            }
            Err(error) => {
                let (valid, after) = plain.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                out.push(char::REPLACEMENT_CHARACTER);
                plain = &after[1..];
            }
        }
    }
}

/// Takes over a character given by number, or by two that make a pair.
fn push_unicode<'t>(out: &mut String, text: &'t [u8]) -> &'t [u8] {
    let unit = |text: &[u8]| {
        let digits = std::str::from_utf8(text.get(..4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(text) else {
        return text;
    };
    let rest = &text[4..];
    if (0xD800..0xDC00).contains(&first)
        && rest.starts_with(b"\\u")
        && let Some(second @ 0xDC00..0xE000) = unit(&rest[2..])
    {
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        return &rest[6..];
    }
    out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::untyped;
    use serde_json::{Value, json};

    fn value(body: &[u8]) -> Result<Value, String> {
        let document = read(body)?;
        untyped::read(document.root()).map(|read| read.value)
    }

    #[test]
    fn values_are_read() {
        let cases: [(&[u8], Value); 15] = [
            (b" {} ", json!({})),
            (b"[]", json!([])),
            (b"[[], {}, [1]]", json!([[], {}, [1]])),
            (
                br#"{"a": [1, {"b": null}], "c": true}"#,
                json!({"a": [1, {"b": null}], "c": true}),
            ),
            (b"-12", json!(-12)),
            (b"-0", json!(0)),
            (b"1.0", json!(1.0)),
            (b"1e3", json!(1000.0)),
            (b"9223372036854775808", json!(9223372036854775808.0)),
            (br#""a\n\"\\\/\u0041\u00e9""#, json!("a\n\"\\/Aé")),
            (br#""\ud83d\ude00""#, json!("😀")),
            (br#""\ud83d\u0041""#, json!("\u{fffd}A")),
            (br#""\ude00""#, json!("\u{fffd}")),
            (
                b"\"a\xff\xfeb\xe2\x82\"",
                json!("a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}"),
            ),
            (br#"{"a": 1, "a": 2}"#, json!({"a": 2})),
        ];
        for (body, expected) in cases {
            assert_eq!(
                value(body).unwrap(),
                expected,
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn faults_are_reported_with_the_messages_of_go() {
        let cases: [(&[u8], &str); 24] = [
            (b"", "unexpected end of JSON input"),
            (b" \n", "unexpected end of JSON input"),
            (b"{\"a\":", "unexpected end of JSON input"),
            (b"[1, 2", "unexpected end of JSON input"),
            (b"\"abc", "unexpected end of JSON input"),
            (b"-", "unexpected end of JSON input"),
            (b"x", "invalid character 'x' looking for beginning of value"),
            (
                b"\xef\xbb\xbf{}",
                "invalid character 'ï' looking for beginning of value",
            ),
            (
                b"[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                b"{,}",
                "invalid character ',' looking for beginning of object key string",
            ),
            (
                b"{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                b"{'a':1}",
                "invalid character '\\'' looking for beginning of object key string",
            ),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (
                b"{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{} x", "invalid character 'x' after top-level value"),
            (b"01", "invalid character '1' after top-level value"),
            (b"-a", "invalid character 'a' in numeric literal"),
            (
                b"1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                b"1ex",
                "invalid character 'x' in exponent of numeric literal",
            ),
            (
                b"nul1",
                "invalid character '1' in literal null (expecting 'l')",
            ),
            (b"\"\\x\"", "invalid character 'x' in string escape code"),
            (
                b"\"\\u00g0\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            (b"\"a\nb\"", "invalid character '\\n' in string literal"),
        ];
        for (body, expected) in cases {
            assert_eq!(
                read(body).unwrap_err(),
                expected,
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn nesting_is_bounded_and_needs_no_stack() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(read(&nested(MAX_NESTING)).is_ok());
        assert_eq!(
            read(&nested(MAX_NESTING + 1)).unwrap_err(),
            "invalid character '[' exceeded max depth"
        );
        assert!(value(&nested(1000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>) {
            let _ = value(&body);
        }

        #[test]
        fn what_another_reader_takes_is_taken_the_same(body in r#"[\[\]{}:,"a1 \\un.e-]{0,24}"#) {
            if let Ok(theirs) = serde_json::from_str::<Value>(&body) {
                proptest::prop_assert_eq!(value(body.as_bytes()).unwrap(), theirs);
            }
        }
    }
}
