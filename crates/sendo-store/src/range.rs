//! Keys and ranges of keys.

use std::ops::Bound;
use std::sync::Arc;

/// A key: any text, ordered by bytes. Cheap to clone.
pub type Key = Arc<str>;

/// A range of keys.
///
/// May be empty, also if its start is after its end: then it contains no key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Where it begins.
    pub from: Bound<Key>,
    /// Where it ends.
    pub to: Bound<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        KeyRange {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        }
    }

    /// The keys that start with `prefix`; every key if it is empty.
    pub fn prefix(prefix: &str) -> Self {
        if prefix.is_empty() {
            return KeyRange::all();
        }
        KeyRange {
            from: Bound::Included(prefix.into()),
            to: end_of_prefix(prefix),
        }
    }

    /// `key` alone.
    pub fn one(key: impl Into<Key>) -> Self {
        let key = key.into();
        KeyRange {
            from: Bound::Included(key.clone()),
            to: Bound::Included(key),
        }
    }

    /// The keys that start with `prefix` and come after `key`: the next page.
    pub fn after(key: &str, prefix: &str) -> Self {
        let whole = KeyRange::prefix(prefix);
        if key < prefix {
            return whole;
        }
        KeyRange {
            from: Bound::Excluded(key.into()),
            to: whole.to,
        }
    }

    /// Whether the range contains `key`.
    pub fn contains(&self, key: &str) -> bool {
        let begun = match &self.from {
            Bound::Included(from) => **from <= *key,
            Bound::Excluded(from) => **from < *key,
            Bound::Unbounded => true,
        };
        begun
            && match &self.to {
                Bound::Included(to) => *key <= **to,
                Bound::Excluded(to) => *key < **to,
                Bound::Unbounded => true,
            }
    }

    /// The bounds for the ordered maps of the standard library; `None` if the range is empty, for
    /// which those maps panic.
    pub fn bounds(&self) -> Option<(Bound<&str>, Bound<&str>)> {
        let from = self.from.as_ref().map(|key| &**key);
        let to = self.to.as_ref().map(|key| &**key);
        let empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        };
        (!empty).then_some((from, to))
    }
}

/// The first key after all that start with `prefix`: its last character is incremented, or removed
/// if it is the highest.
fn end_of_prefix(prefix: &str) -> Bound<Key> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // A range of characters skips the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            rest.push(next);
            return Bound::Excluded(rest.into());
        }
    }
    Bound::Unbounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_what_starts_with_it() {
        let pods = KeyRange::prefix("/pods/");
        for inside in ["/pods/", "/pods/a", "/pods/\u{10ffff}"] {
            assert!(pods.contains(inside), "{inside}");
        }
        for outside in ["", "/pods", "/pods0", "/podsets/a", "/q"] {
            assert!(!pods.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_prefix_may_end_in_any_character() {
        for last in ['\u{7f}', '\u{7ff}', '\u{d7ff}', '\u{ffff}', '\u{10ffff}'] {
            let prefix = format!("a{last}");
            let range = KeyRange::prefix(&prefix);
            assert!(range.contains(&prefix) && range.contains(&format!("{prefix}{last}")));
            assert!(!range.contains("a") && !range.contains("b"));
        }
        assert_eq!(KeyRange::prefix("\u{10ffff}").to, Bound::Unbounded);
        assert_eq!(KeyRange::prefix(""), KeyRange::all());
    }

    #[test]
    fn the_next_page_starts_after_the_key_and_stays_in_the_prefix() {
        let next = KeyRange::after("a/1", "a/");
        assert!(next.contains("a/10") && next.contains("a/2"));
        assert!(!next.contains("a/1") && !next.contains("b/2"));

        assert_eq!(KeyRange::after("A", "a/"), KeyRange::prefix("a/"));
        assert_eq!(KeyRange::after("b", "a/").bounds(), None);
    }

    #[test]
    fn a_range_of_one_key_contains_no_other() {
        let one = KeyRange::one("a");
        assert!(one.contains("a") && !one.contains("a0"));
        assert!(one.bounds().is_some());
    }
}
