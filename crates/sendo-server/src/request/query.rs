//! Query parameters, read by the rules of Go's `url.Values` and Kubernetes' conversions.

use std::num::IntErrorKind;

/// The parameters of a request, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the part of a URL after `?`. Pairs that are not well escaped are left out.
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((unescape(key, Plus::Space)?, unescape(value, Plus::Space)?))
            })
            .collect();
        Query { pairs }
    }

    /// The first value of a parameter.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A text parameter; absent and empty are the same.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// A boolean: anything but `false` and `0` means yes, an empty value too.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A boolean that knows whether it was given.
    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        self.first(name)
            .map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A whole number; the error is what Go's `strconv` says of the text.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, String> {
        self.first(name).map(parse_int).transpose()
    }
}

/// Reads a signed number as Go's `strconv.ParseInt` does, with its error text.
pub(crate) fn parse_int(text: &str) -> Result<i64, String> {
    text.parse::<i64>()
        .map_err(|error| strconv("ParseInt", text, error.kind()))
}

/// Reads an unsigned number as Go's `strconv.ParseUint` does, with its error text.
pub(crate) fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust takes a leading plus, Go does not.
    if text.starts_with('+') {
        return Err(strconv("ParseUint", text, &IntErrorKind::InvalidDigit));
    }
    text.parse::<u64>()
        .map_err(|error| strconv("ParseUint", text, error.kind()))
}

fn strconv(function: &str, text: &str, kind: &IntErrorKind) -> String {
    let why = match kind {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

/// What `+` stands for: a blank in a query, itself in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    Space,
    Itself,
}

/// Resolves percent escapes. Bytes that are no UTF-8 become U+FFFD; a broken escape gives `None`.
pub(crate) fn unescape(text: &str, plus: Plus) -> Option<String> {
    if !text.contains('%') && (plus == Plus::Itself || !text.contains('+')) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                (high * 16 + low) as u8
            }
            b'+' if plus == Plus::Space => b' ',
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_false_and_zero_mean_no() {
        let query = Query::parse("a=false&b=0&c=maybe&d=&e&f=FALSE");
        let flags = ["a", "b", "c", "d", "e", "f", "absent"].map(|name| query.flag(name));
        assert_eq!(flags, [false, false, true, true, true, false, false]);
        assert_eq!(query.optional_flag("absent"), None);
    }

    #[test]
    fn numbers_fail_in_the_words_of_strconv() {
        let query = Query::parse("a=abc&b=99999999999999999999&c=-1");
        assert_eq!(
            query.number("a").unwrap_err(),
            "strconv.ParseInt: parsing \"abc\": invalid syntax"
        );
        assert_eq!(
            query.number("b").unwrap_err(),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
        assert_eq!(query.number("c"), Ok(Some(-1)));
        assert_eq!(query.number("absent"), Ok(None));
        assert!(parse_uint("+1").is_err() && parse_uint("-1").is_err());
    }

    #[test]
    fn escapes_are_resolved_and_broken_pairs_left_out() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+d&bad=%zz&x=1;y=2&x=3");
        assert_eq!(query.text("labelSelector"), "a=b,c d");
        assert_eq!(query.first("bad"), None);
        assert_eq!(query.all("x").collect::<Vec<_>>(), ["3"]);
        assert_eq!(unescape("a+b%20c", Plus::Itself).as_deref(), Some("a+b c"));
        assert_eq!(unescape("%", Plus::Itself), None);
    }
}
