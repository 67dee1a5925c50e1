//! Finding the feeds that a change belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::{Batch, Key, KeyRange};

pub(crate) type FeedId = u64;

/// Finds the feeds whose range contains a key.
///
/// Nearly all ranges are a prefix or a single key, which are looked up; any
/// other is compared one by one.
#[derive(Default)]
pub(crate) struct Index {
    ones: BTreeMap<Key, FeedId>,
    prefixes: BTreeMap<Key, FeedId>,
    /// How many prefixes there are of each length: the lengths worth looking up.
    lengths: BTreeMap<usize, usize>,
    others: Vec<(KeyRange, FeedId)>,
}

impl Index {
    pub(crate) fn find(&self, range: &KeyRange) -> Option<FeedId> {
        match Shape::of(range) {
            Shape::One(key) => self.ones.get(&key).copied(),
            Shape::Prefix(prefix) => self.prefixes.get(&prefix).copied(),
            Shape::Other => {
                let same = self.others.iter().find(|(other, _)| other == range);
                same.map(|(_, id)| *id)
            }
        }
    }

    pub(crate) fn insert(&mut self, range: &KeyRange, id: FeedId) {
        match Shape::of(range) {
            Shape::One(key) => {
                self.ones.insert(key, id);
            }
            Shape::Prefix(prefix) => {
                *self.lengths.entry(prefix.len()).or_default() += 1;
                self.prefixes.insert(prefix, id);
            }
            Shape::Other => self.others.push((range.clone(), id)),
        }
    }

    pub(crate) fn remove(&mut self, range: &KeyRange) {
        match Shape::of(range) {
            Shape::One(key) => {
                self.ones.remove(&key);
            }
            Shape::Prefix(prefix) => {
                self.prefixes.remove(&prefix);
                if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&prefix.len());
                    }
                }
            }
            Shape::Other => self.others.retain(|(other, _)| other != range),
        }
    }

    /// The feeds whose range contains a key that the transaction changes.
    pub(crate) fn all_with(&self, batch: &Batch) -> BTreeSet<FeedId> {
        let keys = batch.changes.iter().map(|change| &*change.key);
        keys.flat_map(|key| self.with(key)).collect()
    }

    fn with<'a>(&'a self, key: &'a str) -> impl Iterator<Item = FeedId> + 'a {
        let one = self.ones.get(key).copied();
        let lengths = self.lengths.range(..=key.len());
        let prefixes = lengths
            .filter_map(|(&length, _)| key.get(..length))
            .filter_map(|prefix| self.prefixes.get(prefix).copied());
        let others = self.others.iter();
        let others = others.filter(|(range, _)| range.contains(key));
        one.into_iter()
            .chain(prefixes)
            .chain(others.map(|(_, id)| *id))
    }
}

/// How a range is looked up.
enum Shape {
    One(Key),
    Prefix(Key),
    Other,
}

impl Shape {
    fn of(range: &KeyRange) -> Self {
        match (&range.from, &range.to) {
            (Bound::Unbounded, Bound::Unbounded) => Shape::Prefix("".into()),
            (Bound::Included(from), Bound::Included(to)) if from == to => {
                Shape::One(Key::clone(from))
            }
            (Bound::Included(from), _) if *range == KeyRange::prefix(from) => {
                Shape::Prefix(Key::clone(from))
            }
            _ => Shape::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(ranges: &[KeyRange]) -> Index {
        let mut index = Index::default();
        for (range, id) in ranges.iter().zip(0..) {
            index.insert(range, id);
        }
        index
    }

    fn ranges() -> Vec<KeyRange> {
        vec![
            KeyRange::all(),
            KeyRange::prefix("a"),
            KeyRange::prefix("a/"),
            KeyRange::prefix("aé"),
            KeyRange::prefix("b/"),
            KeyRange::one("a/1"),
            KeyRange::one("a/"),
            KeyRange::after("a/1", "a/"),
            KeyRange::after("b", "a/"),
            KeyRange {
                from: Bound::Unbounded,
                to: Bound::Excluded("a/".into()),
            },
        ]
    }

    #[test]
    fn exactly_the_ranges_that_contain_a_key_are_found() {
        let ranges = ranges();
        let index = index(&ranges);
        for key in ["", "a", "a/", "a/1", "a/2", "aé", "aéa", "aè", "b/", "z"] {
            let found: BTreeSet<_> = index.with(key).collect();
            let containing = ranges.iter().zip(0..).filter(|(r, _)| r.contains(key));
            let containing: BTreeSet<_> = containing.map(|(_, id)| id).collect();
            assert_eq!(found, containing, "{key}");
        }
    }

    #[test]
    fn a_removed_range_is_found_no_more() {
        let ranges = ranges();
        for (range, id) in ranges.iter().zip(0..) {
            let mut index = index(&ranges);
            assert_eq!(index.find(range), Some(id), "{range:?}");
            index.remove(range);
            assert_eq!(index.find(range), None, "{range:?}");
            assert!(index.with("a/1").all(|found| found != id));
            let others = ranges.iter().filter(|other| *other != range);
            assert!(others.into_iter().all(|other| index.find(other).is_some()));
        }
    }
}
