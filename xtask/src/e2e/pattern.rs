//! The expected output of a command, with placeholders for what differs from run to run.
//!
//! | in the text | matches |
//! |---|---|
//! | `<age>` and the other [`CLASSES`] | any text of that class |
//! | `<pod:id>` | text of the class `id`, kept under the name `pod` |
//! | `<pod>` | what was kept under that name |
//! | a line `...` | any lines, or none |
//! | two or more spaces inside a line | the space between two columns, or a tab |

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use regex::Regex;

/// Placeholders and their regular expressions.
const CLASSES: [(&str, &str); 9] = [
    ("age", r"(?:\d+[ydhms])+"),
    (
        "date",
        r"\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} [+-]\d{4}",
    ),
    ("id", r"[a-z0-9]{5}"),
    ("ip", r"[0-9a-f:.]+"),
    ("n", r"\d+"),
    ("text", r".*"),
    ("time", r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z"),
    ("uid", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("word", r"\S+"),
];

/// The line that matches any lines.
const GAP: &str = "...";

/// Texts that were kept, by name.
pub(crate) type Names = BTreeMap<String, String>;

/// Puts the kept texts into a command or its input. A name that was not kept
/// stays as it is: kubectl itself prints words such as `<none>`.
pub(crate) fn fill(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("<{name}>"), value)
    })
}

/// Compares what was printed with the expected lines.
pub(crate) struct Pattern {
    lines: Vec<Line>,
    kept: Vec<String>,
}

/// One of the expected lines.
pub(crate) struct Line {
    text: String,
    expression: String,
}

impl Line {
    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches any lines.
    pub(crate) fn is_gap(&self) -> bool {
        self.text == GAP
    }

    /// For each of these lines, whether it matches.
    pub(crate) fn matches(&self, lines: &[&str]) -> Vec<bool> {
        let expression = compile(&self.expression);
        let matches = |line: &&str| !self.is_gap() && expression.is_match(&format!("{line}\n"));
        lines.iter().map(matches).collect()
    }
}

impl Pattern {
    /// Compiles expected lines.
    ///
    /// # Errors
    ///
    /// When a class is unknown or a name is kept twice.
    pub(crate) fn new(lines: &[String], names: &Names) -> anyhow::Result<Self> {
        let mut pattern = Self {
            lines: Vec::new(),
            kept: Vec::new(),
        };
        for line in lines {
            let expression = pattern.line(line.trim_end(), names)?;
            pattern.lines.push(Line {
                text: line.trim_end().to_owned(),
                expression,
            });
        }
        Ok(pattern)
    }

    /// What the pattern keeps, by name, if all agrees; spaces at the ends of
    /// lines say nothing.
    pub(crate) fn compare(&self, printed: &str) -> Option<Names> {
        let mut text = String::new();
        for line in printed.trim_end().lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let expressions: String = self.lines.iter().map(|line| &*line.expression).collect();
        let found = compile(&expressions).captures(&text)?;
        let kept = self.kept.iter();
        Some(
            kept.map(|name| (name.clone(), found[name.as_str()].to_owned()))
                .collect(),
        )
    }

    /// The expected lines.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn line(&mut self, line: &str, names: &Names) -> anyhow::Result<String> {
        if line == GAP {
            return Ok(r"(?:.*\n)*?".into());
        }
        let indented = line.trim_start_matches(' ');
        let mut compiled = " ".repeat(line.len() - indented.len());
        let mut rest = indented;
        while let Some(next) = rest.find(['<', ' ']) {
            compiled.push_str(&regex::escape(&rest[..next]));
            rest = &rest[next..];
            let spaces = rest.len() - rest.trim_start_matches(' ').len();
            if spaces > 0 {
                compiled.push_str(if spaces > 1 { r"(?: {2,}|\t)" } else { " " });
                rest = &rest[spaces..];
            } else if let Some((placeholder, after)) = self.placeholder(rest, names)? {
                compiled.push_str(&placeholder);
                rest = after;
            } else {
                compiled.push('<');
                rest = &rest[1..];
            }
        }
        compiled.push_str(&regex::escape(rest));
        compiled.push_str(r"\n");
        Ok(compiled)
    }

    /// The expression for the placeholder at the start, and what follows it.
    fn placeholder<'t>(
        &mut self,
        text: &'t str,
        names: &Names,
    ) -> anyhow::Result<Option<(String, &'t str)>> {
        let Some((inside, after)) = text[1..].split_once('>') else {
            return Ok(None);
        };
        let class = |wanted| CLASSES.iter().find(|(name, _)| *name == wanted);
        if let Some((_, expression)) = class(inside) {
            return Ok(Some(((*expression).to_owned(), after)));
        }
        if let Some(value) = names.get(inside) {
            return Ok(Some((regex::escape(value), after)));
        }
        // `::` is a path of Rust.
        let parts = inside.split_once(':');
        let Some((name, wanted)) = parts.filter(|(_, rest)| !rest.starts_with(':')) else {
            return Ok(None);
        };
        if !name.chars().all(|c| c.is_ascii_alphabetic()) {
            return Ok(None);
        }
        let (_, expression) =
            class(wanted).with_context(|| format!("<{inside}>: no such class as {wanted}"))?;
        if self.kept.iter().any(|kept| kept == name) {
            bail!("<{inside}>: {name} is kept twice");
        }
        self.kept.push(name.to_owned());
        Ok(Some((format!("(?<{name}>{expression})"), after)))
    }
}

fn compile(expressions: &str) -> Regex {
    Regex::new(&format!("^{expressions}$")).expect("every part was escaped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(expected: &str, printed: &str) -> Option<Names> {
        let lines: Vec<_> = expected.lines().map(str::to_owned).collect();
        let names = Names::from([("first".to_owned(), "x7k2p".to_owned())]);
        Pattern::new(&lines, &names).unwrap().compare(printed)
    }

    fn equal() -> Option<Names> {
        Some(Names::new())
    }

    #[test]
    fn columns_may_be_wider_and_ages_differ() {
        let expected = "NAME   READY   AGE\nweb-<id>   1/1   <age>";
        assert_eq!(
            compare(
                expected,
                "NAME        READY   AGE  \nweb-x7k2p   1/1     2m30s\n"
            ),
            equal()
        );
        assert_eq!(
            compare(
                expected,
                "NAME        READY   AGE\nweb-x7k2p   0/1     2m30s\n"
            ),
            None
        );
    }

    #[test]
    fn one_space_and_indentation_are_exact() {
        assert_eq!(compare("a b\n  c", "a b\n  c"), equal());
        assert_eq!(compare("a b\n  c", "a  b\n  c"), None);
        assert_eq!(compare("a b\n  c", "a b\n   c"), None);
    }

    #[test]
    fn a_gap_matches_any_lines() {
        assert_eq!(compare("a\n...\nd", "a\nb\nc\nd\n"), equal());
        assert_eq!(compare("a\n...\nd", "a\nd"), equal());
        assert_eq!(compare("a\n...", "a"), equal());
        assert_eq!(compare("a\n...\nd", "a\nb\n"), None);
    }

    #[test]
    fn a_line_too_many_is_a_difference() {
        assert_eq!(compare("a", "a\nb\n"), None);
        assert_eq!(compare("", "No resources found\n"), None);
        assert_eq!(compare("", ""), equal());
    }

    #[test]
    fn a_name_is_kept_and_found_again() {
        let kept = Names::from([("second".to_owned(), "abcde".to_owned())]);
        assert_eq!(
            compare("web-<first>\nweb-<second:id>", "web-x7k2p\nweb-abcde"),
            Some(kept.clone())
        );
        assert_eq!(compare("web-<first>", "web-abcde"), None);
        assert_eq!(
            fill("pod/web-<second> <none>", &kept),
            "pod/web-abcde <none>"
        );
    }

    #[test]
    fn other_words_in_angle_brackets_match_literally() {
        assert_eq!(
            compare("<none>   <[]Container>", "<none>   <[]Container>"),
            equal()
        );
        assert_eq!(compare("<none>", "x"), None);
    }

    #[test]
    fn an_unknown_class_is_an_error() {
        let lines = ["<pod:colour>".to_owned()];
        assert!(Pattern::new(&lines, &Names::new()).is_err());
    }
}
