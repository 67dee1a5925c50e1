//! Changes of a text at places of the text before.

use std::ops::Range;

/// Texts that replace ranges, none of which overlap.
#[derive(Debug, Default)]
pub(crate) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub(crate) fn remove(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    pub(crate) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.0.push((range, text.into()));
    }

    /// The text with all of them; those of one place in the order in which they were added.
    pub(crate) fn apply(mut self, before: &str) -> String {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
        let mut after = String::with_capacity(before.len());
        let mut copied = 0;
        for (range, text) in self.0 {
            after.push_str(&before[copied..range.start]);
            after.push_str(&text);
            copied = range.end;
        }
        after.push_str(&before[copied..]);
        after
    }
}

/// The range with the rest of its lines, if nothing else but a comment is on them.
pub(super) fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    if !text[start..range.start].trim().is_empty() {
        return range;
    }
    match end_of_line(text, range.end) {
        Some(end) => start..(end + 1).min(text.len()),
        None => range,
    }
}

/// The end of the line, if only a comment is between it and this place.
pub(super) fn end_of_line(text: &str, at: usize) -> Option<usize> {
    let end = text[at..].find('\n').map_or(text.len(), |found| at + found);
    let rest = text[at..end].trim();
    (rest.is_empty() || rest.starts_with("//")).then_some(end)
}

/// The blanks at the beginning of a place's line.
pub(super) fn indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text_before() {
        let mut splices = Splices::default();
        splices.insert(5, "!");
        splices.replace(0..1, "J");
        splices.insert(5, "?");
        splices.remove(2..4);
        assert_eq!(splices.apply("Hello"), "Jeo!?");
    }

    #[test]
    fn a_line_goes_with_its_comment_and_not_with_other_code() {
        let text = "a;\n  b; // why\nc; d;\n";
        assert_eq!(&text[whole_lines(text, 5..7)], "  b; // why\n");
        let d = text.find("d;").unwrap();
        assert_eq!(&text[whole_lines(text, d..d + 2)], "d;");
    }
}
