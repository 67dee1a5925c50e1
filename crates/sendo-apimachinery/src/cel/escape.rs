//! Names of fields as expressions write them.

use std::borrow::Cow;

/// Words that expressions cannot use as names.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether expressions cannot use a word as a name.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The name that expressions use for a field; none if they cannot name it.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                escaped.push_str("__underscores__");
            }
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// The field that an expression names; none if no field has that name.
pub fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    if !escaped.contains("__") {
        return Some(Cow::Borrowed(escaped));
    }
    if let Some(word) = escaped
        .strip_prefix("__")
        .and_then(|rest| rest.strip_suffix("__"))
        && is_reserved(word)
    {
        return Some(Cow::Borrowed(word));
    }
    let mut name = String::new();
    let mut rest = escaped;
    while let Some(start) = rest.find('_') {
        name.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some((word, after)) = escaped_word(rest) else {
            name.push('_');
            rest = &rest[1..];
            continue;
        };
        name.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            _ => return None,
        });
        rest = after;
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

/// The word between two underscores and two more, and what follows.
fn escaped_word(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_').filter(|end| *end > 0)?;
    Some((&inner[..end], inner[end..].strip_prefix("__")?))
}
