//! What a command must print, with places for what differs from run to run.
//!
//! | in the text | stands for |
//! |---|---|
//! | `<age>` and the other [`CLASSES`] | any text of that class |
//! | `<pod:id>` | text of the class `id`, kept under the name `pod` |
//! | `<pod>` | what was kept under that name |
//! | a line `...` | any lines, or none |
//! | two or more spaces inside a line | the space between two columns, or a tab |

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use regex::Regex;

/// Placeholders and the expressions they stand for.
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

/// Texts that were kept, by name.
pub(super) type Names = BTreeMap<String, String>;

/// Puts the kept texts into a command or its input. A name that was not kept
/// stays as it is: kubectl itself prints words such as `<none>`.
pub(super) fn fill(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("<{name}>"), value)
    })
}

/// Compares what was printed with the expected lines.
pub(super) struct Pattern {
    lines: Vec<String>,
    kept: Vec<String>,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// All agrees; what the pattern keeps, by name.
    Equal(Names),
    /// How many of the expected lines were found before the difference.
    Different(usize),
}

impl Pattern {
    /// Compiles expected lines.
    ///
    /// # Errors
    ///
    /// When a class is unknown or a name is kept twice.
    pub(super) fn new(lines: &[String], names: &Names) -> anyhow::Result<Self> {
        let mut pattern = Self {
            lines: Vec::new(),
            kept: Vec::new(),
        };
        for line in lines {
            let compiled = pattern.line(line.trim_end(), names)?;
            pattern.lines.push(compiled);
        }
        Ok(pattern)
    }

    /// Compares, with no regard to spaces at the ends of lines.
    pub(super) fn compare(&self, printed: &str) -> Comparison {
        let mut text = String::new();
        for line in printed.trim_end().lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if let Some(found) = self.first(self.lines.len(), "$").captures(&text) {
            let kept = self.kept.iter();
            return Comparison::Equal(
                kept.map(|name| (name.clone(), found[name.as_str()].to_owned()))
                    .collect(),
            );
        }
        let begins = |count: &usize| self.first(*count, "").is_match(&text);
        let agreed = (0..self.lines.len()).rev().find(begins);
        Comparison::Different(agreed.unwrap_or(0))
    }

    fn first(&self, count: usize, end: &str) -> Regex {
        let lines = self.lines[..count].concat();
        Regex::new(&format!("^{lines}{end}")).expect("every part was escaped")
    }

    fn line(&mut self, line: &str, names: &Names) -> anyhow::Result<String> {
        if line == "..." {
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
        let Some((name, wanted)) = inside.split_once(':') else {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(expected: &str, printed: &str) -> Comparison {
        let lines: Vec<_> = expected.lines().map(str::to_owned).collect();
        let names = Names::from([("first".to_owned(), "x7k2p".to_owned())]);
        Pattern::new(&lines, &names).unwrap().compare(printed)
    }

    fn equal() -> Comparison {
        Comparison::Equal(Names::new())
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
            Comparison::Different(1)
        );
    }

    #[test]
    fn one_space_and_indentation_are_exact() {
        assert_eq!(compare("a b\n  c", "a b\n  c"), equal());
        assert_eq!(compare("a b\n  c", "a  b\n  c"), Comparison::Different(0));
        assert_eq!(compare("a b\n  c", "a b\n   c"), Comparison::Different(1));
    }

    #[test]
    fn dots_stand_for_any_lines() {
        assert_eq!(compare("a\n...\nd", "a\nb\nc\nd\n"), equal());
        assert_eq!(compare("a\n...\nd", "a\nd"), equal());
        assert_eq!(compare("a\n...", "a"), equal());
        assert_eq!(compare("a\n...\nd", "a\nb\n"), Comparison::Different(2));
    }

    #[test]
    fn a_line_too_many_is_a_difference() {
        assert_eq!(compare("a", "a\nb\n"), Comparison::Different(0));
        assert_eq!(
            compare("", "No resources found\n"),
            Comparison::Different(0)
        );
        assert_eq!(compare("", ""), equal());
    }

    #[test]
    fn a_name_is_kept_and_found_again() {
        let kept = Names::from([("second".to_owned(), "abcde".to_owned())]);
        assert_eq!(
            compare("web-<first>\nweb-<second:id>", "web-x7k2p\nweb-abcde"),
            Comparison::Equal(kept.clone())
        );
        assert_eq!(
            compare("web-<first>", "web-abcde"),
            Comparison::Different(0)
        );
        assert_eq!(
            fill("pod/web-<second> <none>", &kept),
            "pod/web-abcde <none>"
        );
    }

    #[test]
    fn words_of_kubectl_in_angle_brackets_are_themselves() {
        assert_eq!(
            compare("<none>   <[]Container>", "<none>   <[]Container>"),
            equal()
        );
        assert_eq!(compare("<none>", "x"), Comparison::Different(0));
    }

    #[test]
    fn an_unknown_class_is_an_error() {
        let lines = ["<pod:colour>".to_owned()];
        assert!(Pattern::new(&lines, &Names::new()).is_err());
    }
}
