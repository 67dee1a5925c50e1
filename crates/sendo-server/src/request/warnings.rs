//! Collects the warnings of a response, up to the size that headers may have.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go`: `AddWarning`

use std::collections::HashSet;

/// How many characters all warnings have together before each is cut short.
const MOST: usize = 4 * 1024;
/// How many characters one warning keeps then.
const KEPT: usize = 256;

/// The warnings of one request.
///
/// They are bounded, for a body may give cause for a million of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// Texts as they came: each is sent once.
    known: HashSet<String>,
    sent: Vec<String>,
    /// How many characters are sent.
    size: usize,
    cuts: bool,
}

impl Warnings {
    /// Adds a warning, unless it is empty, known, or one too many.
    pub(crate) fn add(&mut self, mut text: String) {
        if text.is_empty() || self.is_full() || self.known.contains(&text) {
            return;
        }
        self.known.insert(text.clone());
        if !self.cuts && self.size + length(&text) > MOST {
            self.cuts = true;
            self.sent.iter_mut().for_each(cut);
            self.size = self.sent.iter().map(|text| length(text)).sum();
        }
        if self.cuts {
            cut(&mut text);
        }
        // No header can carry it.
        if text.chars().any(char::is_control) {
            return;
        }
        self.size += length(&text);
        self.sent.push(text);
    }

    fn is_full(&self) -> bool {
        self.cuts && self.size >= MOST
    }

    /// The warnings that are sent, in the order they came.
    pub(crate) fn sent(&self) -> &[String] {
        &self.sent
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(KEPT) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(texts: impl IntoIterator<Item = String>) -> Warnings {
        let mut warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        warnings
    }

    #[test]
    fn a_warning_is_sent_once_and_an_empty_one_never() {
        let warnings = warnings_of(["a", "", "b", "a"].map(str::to_owned));
        assert_eq!(warnings.sent(), ["a", "b"]);
    }

    #[test]
    fn a_warning_that_no_header_can_carry_is_not_sent() {
        let warnings = warnings_of(["two\nlines", "tab\there", "größer"].map(str::to_owned));
        assert_eq!(warnings.sent(), ["größer"]);
    }

    #[test]
    fn what_has_room_is_sent_whole() {
        let long = "é".repeat(MOST - 1);
        let warnings = warnings_of([long.clone(), "b".to_owned()]);
        assert_eq!(warnings.sent(), [long, "b".to_owned()]);
    }

    #[test]
    fn when_there_is_no_room_each_is_cut_short() {
        let warnings = warnings_of(["é".repeat(MOST), "b".to_owned(), "c".repeat(MOST)]);
        let expected = ["é".repeat(KEPT), "b".to_owned(), "c".repeat(KEPT)];
        assert_eq!(warnings.sent(), expected);
    }

    #[test]
    fn a_million_warnings_are_no_more_than_headers_have_room_for() {
        let warnings = warnings_of((0..1_000_000).map(|line| format!("line {line}: twice")));
        let size: usize = warnings.sent().iter().map(String::len).sum();
        assert!((MOST..MOST + KEPT).contains(&size), "{size}");
        assert_eq!(warnings.known.len(), warnings.sent().len());
    }
}
