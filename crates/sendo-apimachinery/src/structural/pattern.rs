//! Regular expressions of schemas: Go's syntax, run by the `regex` crate.
//!
//! The two are close relatives with the same guarantee of linear time. What
//! differs is translated: Go's classes `\d`, `\w`, `\s` and `\b` are ASCII,
//! brackets and operators inside a class are plain characters, a brace that
//! repeats nothing is one, and no repetition goes beyond a thousand.

use std::fmt::Write;

use regex::{Regex, RegexBuilder};

/// The most memory an expression may need once compiled.
const SIZE_LIMIT: usize = 4 * 1024 * 1024;

/// The most times something may be repeated by a count.
const MAX_REPEAT: u32 = 1000;

/// A compiled expression, searched for anywhere in a text.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Why a text is no expression, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(String);

impl Pattern {
    /// Compiles an expression.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let translated = Translator::new(source).translate()?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(SIZE_LIMIT)
            .nest_limit(200)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    PatternError(format!("expression too large: `{source}`"))
                }
                _ => PatternError(format!("invalid or unsupported Perl syntax: `{source}`")),
            })?;
        Ok(Pattern {
            source: source.to_owned(),
            regex,
        })
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a text contains a match.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first `most` parts of a text that match, in order and apart from each other.
    pub fn find_all<'t>(&self, text: &'t str, most: usize) -> Vec<&'t str> {
        let found = self.regex.find_iter(text).take(most);
        found.map(|part| part.as_str()).collect()
    }
}

struct Translator<'s> {
    source: &'s str,
    at: usize,
    out: String,
    /// Where the groups that are still open began.
    groups: Vec<usize>,
    /// Where the thing began that a repetition would repeat; none if there is nothing.
    atom: Option<usize>,
    /// Where the last repetition began, if it is right before.
    repetition: Option<usize>,
}

type Translated<T = ()> = Result<T, PatternError>;

fn fault<T>(problem: &str, part: &str) -> Translated<T> {
    Err(PatternError(format!("{problem}: `{part}`")))
}

impl<'s> Translator<'s> {
    fn new(source: &'s str) -> Self {
        Translator {
            source,
            at: 0,
            out: String::with_capacity(source.len() + 8),
            groups: Vec::new(),
            atom: None,
            repetition: None,
        }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn translate(mut self) -> Translated<String> {
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            let mut repeats = false;
            let mut is_atom = true;
            match c {
                '\\' => is_atom = self.escape()?,
                '[' => self.class()?,
                '(' => {
                    self.group()?;
                    is_atom = false;
                }
                ')' => {
                    let Some(open) = self.groups.pop() else {
                        return fault("unexpected )", self.source);
                    };
                    self.push(")");
                    self.atom = Some(open);
                    self.repetition = None;
                    continue;
                }
                '|' => {
                    self.push("|");
                    is_atom = false;
                }
                '*' | '+' | '?' => {
                    self.repeat(&c.to_string())?;
                    repeats = true;
                }
                '{' => match self.count()? {
                    Some(count) => {
                        self.repeat(count)?;
                        repeats = true;
                    }
                    None => {
                        self.at += 1;
                        self.out.push_str("\\{");
                    }
                },
                c => {
                    self.at += c.len_utf8();
                    self.out.push(c);
                }
            }
            if !repeats {
                self.repetition = None;
                self.atom = is_atom.then_some(start);
            }
        }
        match self.groups.is_empty() {
            true => Ok(self.out),
            false => fault("missing closing )", self.source),
        }
    }

    /// Passes text on as it is.
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.at += text.len();
    }

    fn repeat(&mut self, operator: &str) -> Translated {
        let start = self.at;
        let lazy = self.rest()[operator.len()..].starts_with('?');
        let length = operator.len() + usize::from(lazy);
        if let Some(before) = self.repetition {
            return fault(
                "invalid nested repetition operator",
                &self.source[before..start + length],
            );
        }
        if self.atom.is_none() {
            return fault(
                "missing argument to repetition operator",
                &self.source[start..start + length],
            );
        }
        let whole = &self.source[start..start + length];
        self.push(whole);
        self.repetition = Some(start);
        Ok(())
    }

    /// A counted repetition as `{2,3}`, if one begins here.
    fn count(&self) -> Translated<Option<&'s str>> {
        let rest = self.rest();
        let Some(end) = rest.find('}') else {
            return Ok(None);
        };
        let inner = &rest[1..end];
        let (low, high) = match inner.split_once(',') {
            None => (inner, None),
            Some((low, high)) => (low, Some(high)),
        };
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(low) || !high.is_none_or(|high| high.is_empty() || digits(high)) {
            return Ok(None);
        }
        let number = |t: &str| t.parse::<u32>().unwrap_or(u32::MAX);
        let low = number(low);
        let high = high.filter(|high| !high.is_empty()).map_or(low, number);
        if low > MAX_REPEAT || high > MAX_REPEAT || low > high {
            return fault("invalid repeat count", &rest[..=end]);
        }
        Ok(Some(&rest[..=end]))
    }

    fn group(&mut self) -> Translated {
        let start = self.at;
        let rest = self.rest();
        let length = match rest.strip_prefix("(?") {
            None => 1,
            Some(inner) => match inner.chars().next() {
                Some('P') | Some('<') if inner.starts_with("P<") || is_name_start(inner) => {
                    match rest.find('>') {
                        Some(end) => end + 1,
                        None => return fault("invalid named capture", rest),
                    }
                }
                Some('i' | 'm' | 's' | 'U' | '-' | ':') => {
                    let end = inner.find([':', ')']);
                    let Some(end) = end else {
                        return fault("missing closing )", self.source);
                    };
                    if !inner[..end].bytes().all(|b| b"imsU-".contains(&b)) {
                        return fault("invalid or unsupported Perl syntax", &rest[..3]);
                    }
                    // `(?i)` sets flags and is no group.
                    if inner.as_bytes()[end] == b')' {
                        let whole = &rest[..end + 3];
                        self.push(whole);
                        return Ok(());
                    }
                    end + 3
                }
                Some(other) => {
                    return fault(
                        "invalid or unsupported Perl syntax",
                        &rest[..2 + other.len_utf8()],
                    );
                }
                None => return fault("missing argument to repetition operator", "?"),
            },
        };
        let opening = &rest[..length];
        self.push(opening);
        self.groups.push(start);
        Ok(())
    }

    /// An escape outside a class. Returns whether it matches something that can be repeated.
    fn escape(&mut self) -> Translated<bool> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return fault("trailing backslash at end of expression", "");
        };
        match c {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => {
                let negated = if c.is_ascii_uppercase() { "^" } else { "" };
                write!(self.out, "[{negated}{}]", perl_class(c)).expect("a String takes any text");
                self.at += 2;
                Ok(true)
            }
            'b' | 'B' => {
                write!(self.out, "(?-u:\\{c})").expect("a String takes any text");
                self.at += 2;
                Ok(false)
            }
            'A' | 'z' => {
                self.push(&rest[..2]);
                Ok(false)
            }
            'Q' => {
                let quoted = &rest[2..];
                let end = quoted.find("\\E").unwrap_or(quoted.len());
                self.out.push_str(&regex::escape(&quoted[..end]));
                self.at += (2 + end + 2).min(rest.len());
                Ok(true)
            }
            _ => {
                let length = self.character_escape(rest)?;
                self.push(&rest[..length]);
                Ok(true)
            }
        }
    }

    /// The length of an escape for one character or a Unicode class.
    fn character_escape(&self, rest: &str) -> Translated<usize> {
        let mut chars = rest.char_indices().skip(1);
        let Some((_, c)) = chars.next() else {
            return fault("trailing backslash at end of expression", "");
        };
        match c {
            'p' | 'P' => match rest[2..].chars().next() {
                Some('{') => match rest.find('}') {
                    Some(end) => Ok(end + 1),
                    None => fault("invalid character class range", rest),
                },
                Some(class) => Ok(2 + class.len_utf8()),
                None => fault("invalid character class range", rest),
            },
            'x' => match rest[2..].starts_with('{') {
                true => rest.find('}').map(|end| end + 1),
                false => rest
                    .get(2..4)
                    .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
                    .map(|_| 4),
            }
            .map_or_else(|| fault("invalid escape sequence", &rest[..2]), Ok),
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => Ok(2),
            c if c.is_ascii_punctuation() => Ok(2),
            c => fault("invalid escape sequence", &rest[..1 + c.len_utf8()]),
        }
    }

    /// A class in brackets.
    fn class(&mut self) -> Translated {
        let start = self.at;
        self.push("[");
        if self.rest().starts_with('^') {
            self.push("^");
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return fault("missing closing ]", &self.source[start..]);
            };
            match c {
                ']' if !first => {
                    self.push("]");
                    return Ok(());
                }
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    let end = rest.find(":]").unwrap_or(0) + 2;
                    self.push(&rest[..end]);
                }
                '\\' => self.class_escape(rest)?,
                // Characters that would be operators for us.
                '[' | ']' | '&' | '~' => {
                    self.out.push('\\');
                    self.push(&rest[..1]);
                }
                // A range up to a dash.
                '-' if rest.starts_with("--") && !first => {
                    self.out.push_str("-\\-");
                    self.at += 2;
                }
                '-' if first || rest.starts_with("-]") => {
                    self.out.push('\\');
                    self.push("-");
                }
                c => self.push(&rest[..c.len_utf8()]),
            }
            first = false;
        }
    }

    fn class_escape(&mut self, rest: &str) -> Translated {
        match rest[1..].chars().next() {
            Some(c @ ('d' | 'w' | 's')) => {
                self.out.push_str(perl_class(c));
                self.at += 2;
            }
            Some(c @ ('D' | 'W' | 'S')) => {
                write!(self.out, "[^{}]", perl_class(c)).expect("a String takes any text");
                self.at += 2;
            }
            _ => {
                let length = self.character_escape(rest)?;
                self.push(&rest[..length]);
            }
        }
        Ok(())
    }
}

/// Whether the text after `(?` begins a name as `<name>`.
fn is_name_start(inner: &str) -> bool {
    let mut chars = inner.chars();
    chars.next() == Some('<') && chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// The ASCII characters of a class, for use inside brackets.
fn perl_class(c: char) -> &'static str {
    match c.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => r"\t\n\f\r ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_in_go() {
        let cases = [
            ("b+c", "abbcd", true),
            ("^b+c", "abbcd", false),
            (r"^a\d$", "a5", true),
            (r"^\d$", "٥", false),
            (r"^[\w-]+$", "a-b_c", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[[]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]$", ",", true),
            (r"^[-a]$", "-", true),
            (r"^{x}$", "{x}", true),
            (r"^a{2}$", "aa", true),
            (r"^\p{L}+$", "äö", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"(?i)^abc$", "ABC", true),
            (r"^(?:a|b)$", "b", true),
            (r"^(?P<n>a)$", "a", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            (
                r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
                "a.b",
                true,
            ),
            (r"^\x41\.$", "A.", true),
            ("", "anything", true),
        ];
        for (source, text, expected) in cases {
            assert_eq!(
                Pattern::new(source).unwrap().matches(text),
                expected,
                "{source} {text}"
            );
        }
    }

    #[test]
    fn faults_are_reported_with_the_messages_of_go() {
        let cases = [
            ("[", "missing closing ]: `[`"),
            ("a[b", "missing closing ]: `[b`"),
            ("(?=x)y", "invalid or unsupported Perl syntax: `(?=`"),
            ("a{2000}", "invalid repeat count: `{2000}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ];
        for (source, expected) in cases {
            let error = Pattern::new(source).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("error parsing regexp: {expected}"),
                "{source}"
            );
        }
    }

    #[test]
    fn an_expression_that_explodes_is_refused() {
        assert!(Pattern::new(&"(a{1000}){1000}".repeat(3)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_compiles_or_is_refused(source in "[\\[\\](){}|*+?\\\\a-c^$.0-9dDwQE:&~-]{0,24}") {
            let _ = Pattern::new(&source);
        }

        #[test]
        fn any_unicode_compiles_or_is_refused(source in "\\PC{0,24}") {
            let _ = Pattern::new(&source);
        }
    }
}
