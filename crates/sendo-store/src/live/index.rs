//! The index that finds the queues of a change.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound;

use crate::{Batch, Key, KeyRange};

pub(crate) type QueueId = u64;

/// Finds the queues whose range contains a key.
///
/// Nearly all ranges are a prefix or a single key, which are looked up; the others are compared one
/// by one.
#[derive(Default)]
pub(crate) struct Index {
    ones: BTreeMap<Key, QueueId>,
    prefixes: BTreeMap<Key, QueueId>,
    others: Vec<(KeyRange, QueueId)>,
}

impl Index {
    pub(crate) fn find(&self, range: &KeyRange) -> Option<QueueId> {
        match Shape::from_range(range) {
            Shape::One(key) => self.ones.get(&key).copied(),
            Shape::Prefix(prefix) => self.prefixes.get(&prefix).copied(),
            Shape::Other => {
                let same = self.others.iter().find(|(other, _)| other == range);
                same.map(|(_, id)| *id)
            }
        }
    }

    pub(crate) fn insert(&mut self, range: &KeyRange, id: QueueId) {
        match Shape::from_range(range) {
            Shape::One(key) => {
                self.ones.insert(key, id);
            }
            Shape::Prefix(prefix) => {
                self.prefixes.insert(prefix, id);
            }
            Shape::Other => self.others.push((range.clone(), id)),
        }
    }

    pub(crate) fn remove(&mut self, range: &KeyRange) {
        match Shape::from_range(range) {
            Shape::One(key) => {
                self.ones.remove(&key);
            }
            Shape::Prefix(prefix) => {
                self.prefixes.remove(&prefix);
            }
            Shape::Other => self.others.retain(|(other, _)| other != range),
        }
    }

    /// The queues whose range contains a key that the transaction changes.
    pub(crate) fn all_with(&self, batch: &Batch) -> BTreeSet<QueueId> {
        let keys = batch.changes.iter().map(|change| &*change.key);
        keys.flat_map(|key| self.with(key)).collect()
    }

    fn with<'a>(&'a self, key: &'a str) -> impl Iterator<Item = QueueId> + 'a {
        let one = self.ones.get(key).copied();
        let others = self.others.iter();
        let others = others.filter(|(range, _)| range.contains(key));
        one.into_iter()
            .chain(self.with_prefix_of(key))
            .chain(others.map(|(_, id)| *id))
    }

    /// The queues of prefixes that a key begins with, the longest first.
    fn with_prefix_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = QueueId> + 'a {
        let mut up_to = Bound::Included(key);
        iter::from_fn(move || {
            loop {
                let span = (Bound::Unbounded, up_to);
                let (prefix, id) = self.prefixes.range::<str, _>(span).next_back()?;
                if key.starts_with(&**prefix) {
                    up_to = Bound::Excluded(prefix);
                    return Some(*id);
                }
                // No prefix between this one and the beginning that both share is a prefix of the key.
                up_to = Bound::Included(shared_beginning(key, prefix));
            }
        })
    }
}

fn shared_beginning<'a>(key: &'a str, other: &str) -> &'a str {
    let same = key.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
    &key[..key.floor_char_boundary(same.count())]
}

/// How a range is looked up.
enum Shape {
    One(Key),
    Prefix(Key),
    Other,
}

impl Shape {
    fn from_range(range: &KeyRange) -> Self {
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

    fn check<'k>(ranges: &[KeyRange], keys: impl IntoIterator<Item = &'k str>) {
        let index = index(ranges);
        for key in keys {
            let found: BTreeSet<_> = index.with(key).collect();
            let containing = ranges.iter().zip(0..).filter(|(r, _)| r.contains(key));
            let containing: BTreeSet<_> = containing.map(|(_, id)| id).collect();
            assert_eq!(found, containing, "{key}");
        }
    }

    #[test]
    fn exactly_the_ranges_that_contain_a_key_are_found() {
        let keys = ["", "a", "a/", "a/1", "a/2", "aé", "aéa", "aè", "b/", "z"];
        check(&ranges(), keys);
    }

    #[test]
    fn prefixes_of_a_key_are_found_among_similar_ones() {
        let mut keys = vec![String::new()];
        for length in 1..=4 {
            let shorter = keys.iter().filter(|key| key.chars().count() + 1 == length);
            let longer = shorter
                .flat_map(|key| ["a", "b", "/", "é", "è"].map(|last| format!("{key}{last}")));
            let longer: Vec<_> = longer.collect();
            keys.extend(longer);
        }
        // Every seventh of them is a watched prefix.
        let prefixes = keys.iter().step_by(7);
        let ranges: Vec<_> = prefixes.map(|prefix| KeyRange::prefix(prefix)).collect();
        check(&ranges, keys.iter().map(String::as_str));
    }

    #[test]
    fn a_removed_range_is_not_found() {
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
