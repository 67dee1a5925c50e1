//! Sets of completion indexes, in the text form of a Job's status: `1,3-5,7`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/indexed_job_utils.go`: `orderedIntervals`, `parseIndexesFromString`,
//!   `getCompletionIndex`

use std::fmt;

use sendo::ObjectExt;

use crate::pods::Pod;

/// The annotation and label with the completion index of a pod.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The completion index of a pod, if it has a valid one.
pub(super) fn completion_index(pod: &Pod) -> Option<i32> {
    let index: i32 = pod.annotation(COMPLETION_INDEX)?.parse().ok()?;
    (index >= 0).then_some(index)
}

/// The completion index of a pod, if it is below `completions`.
pub(super) fn valid_index(pod: &Pod, completions: i32) -> Option<i32> {
    completion_index(pod).filter(|index| *index < completions)
}

/// A set of indexes as intervals, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// The indexes in `text` below `completions`. Parts that are no numbers are left out.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse::<i32>().ok()?);
            Some((first, last.min(completions - 1)))
        };
        let intervals = text.split(',').filter_map(interval);
        intervals.filter(|(first, last)| first <= last).collect()
    }

    /// Whether `index` is one of them.
    pub(super) fn contains(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Their number.
    pub(super) fn len(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of both.
    pub(super) fn union(&self, other: &Indexes) -> Indexes {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// The number of indexes that are in both.
    pub(super) fn common(&self, other: &Indexes) -> i32 {
        let overlap = |a: &(i32, i32), b: &(i32, i32)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        let of_one = |own: &(i32, i32)| other.0.iter().map(|b| overlap(own, b)).sum::<i32>();
        self.0.iter().map(of_one).sum()
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let ends = self.0.iter().copied().chain([(completions, completions)]);
        let mut next = 0;
        let mut missing = Vec::new();
        for (first, last) in ends {
            missing.extend((next..first.min(completions)).take(count - missing.len()));
            next = next.max(last + 1);
        }
        missing
    }
}

/// From intervals in any order, which may overlap.
impl FromIterator<(i32, i32)> for Indexes {
    fn from_iter<T: IntoIterator<Item = (i32, i32)>>(intervals: T) -> Self {
        let mut all: Vec<_> = intervals.into_iter().collect();
        all.sort_unstable();
        let mut apart: Vec<(i32, i32)> = Vec::new();
        for (first, last) in all {
            match apart.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => apart.push((first, last)),
            }
        }
        Indexes(apart)
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<T: IntoIterator<Item = i32>>(indexes: T) -> Self {
        indexes.into_iter().map(|index| (index, index)).collect()
    }
}

/// Three or more indexes in a row are a range, two are not.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_written() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7", "0,2,4,5"] {
            assert_eq!(Indexes::parse(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::parse("1,x,3-5,8-12", 10).to_string(), "1,3-5,8,9");
        assert_eq!(Indexes::parse("3,4,5", 10).to_string(), "3-5");
        assert_eq!(Indexes::parse("3-9", 2).to_string(), "");
    }

    #[test]
    fn indexes_are_found_counted_and_joined() {
        let some = Indexes::parse("1,3-5", 10);
        assert_eq!(some.len(), 4);
        assert!(some.contains(4) && !some.contains(2) && !some.contains(6));
        let other: Indexes = [2, 9, 5].into_iter().collect();
        assert_eq!(some.union(&other).to_string(), "1-5,9");
        assert_eq!(some.common(&other), 1);
    }

    #[test]
    fn missing_indexes_are_found_from_the_first_on() {
        let some = Indexes::parse("1,3-5", 10);
        assert_eq!(some.first_missing(3, 10), [0, 2, 6]);
        assert_eq!(some.first_missing(20, 7), [0, 2, 6]);
        assert_eq!(some.first_missing(0, 7), [0; 0]);
        assert_eq!(Indexes::parse("0-9", 10).first_missing(3, 5), [0; 0]);
    }
}
