//! Checks what watches returned against what was written.
//!
//! A [`CommitLog`] has each transaction that was committed, as its writer knows it. A
//! [`Record`] is what one watch returned. [`CommitLog::check`] requires the properties
//! that a watch guarantees:
//!
//! - ordered: revisions rise;
//! - unique: no change comes twice;
//! - atomic: a revision is not split;
//! - reliable: everything that was written in the range comes, as it was written, and nothing else;
//! - resumable: the first change is the next one after the revision the watch was opened after;
//! - bookmarkable: after progress to a revision was shown, no change up to it comes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Batch, Entry, Key, KeyRange, Revision};

/// All committed transactions.
#[derive(Clone, Debug, Default)]
pub struct CommitLog {
    commits: BTreeMap<Revision, Steps>,
}

/// What one transaction changed, by key.
pub type Steps = BTreeMap<Key, Step>;

/// The change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its value before; `None` if it did not exist.
    pub before: Option<Bytes>,
    /// Its value after; `None` if it was deleted.
    pub now: Option<Bytes>,
}

/// What one watch returned, in its order.
#[derive(Clone, Debug)]
pub struct Record {
    /// The watched range.
    pub range: KeyRange,
    /// The revision the watch was opened after.
    pub after: Revision,
    /// The items and progress.
    pub seen: Vec<Seen>,
}

/// An item or a progress of a watch.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Changes of a revision.
    Steps(Revision, Steps),
    /// The watch claims to have returned everything up to this revision.
    Progress(Revision),
}

impl From<&Batch> for Seen {
    fn from(batch: &Batch) -> Self {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.value.clone());
        let steps = batch.changes.iter().map(|change| {
            let step = Step {
                before: value(&change.before),
                now: value(&change.now),
            };
            (Key::clone(&change.key), step)
        });
        Seen::Steps(batch.revision, steps.collect())
    }
}

/// A guarantee that a watch has violated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Not ordered.
    #[error("revision {later} came before {earlier}")]
    Unordered {
        /// What came too late.
        earlier: Revision,
        /// What came before it.
        later: Revision,
    },
    /// Not unique.
    #[error("{key} at revision {revision} came twice")]
    Repeated {
        /// The key.
        key: Key,
        /// The revision.
        revision: Revision,
    },
    /// Not atomic.
    #[error("of revision {0} only a part came at once")]
    Split(Revision),
    /// Not reliable.
    #[error("revision {0} was left out")]
    Missed(Revision),
    /// Not reliable.
    #[error("revision {0} came otherwise than it was written")]
    Altered(Revision),
    /// Not resumable.
    #[error("opened after {after}, the watch began with {began} instead of {expected}")]
    Skipped {
        /// Where the watch was opened.
        after: Revision,
        /// The first change it showed.
        began: Revision,
        /// The first change there was.
        expected: Revision,
    },
    /// Not bookmarkable.
    #[error("progress to {progress} was shown before the change of {revision}")]
    Overtaken {
        /// The progress that the watch claimed.
        progress: Revision,
        /// A change up to there that had not come.
        revision: Revision,
    },
    /// Not bookmarkable.
    #[error("progress fell from {from} to {to}")]
    Fell {
        /// The progress shown before.
        from: Revision,
        /// The progress shown now.
        to: Revision,
    },
}

impl CommitLog {
    /// Adds the values that a transaction gave to keys, `None` for a deletion. Transactions may be
    /// added in any order; call [`CommitLog::complete`] after the last one.
    pub fn add(&mut self, at: Revision, writes: impl IntoIterator<Item = (Key, Option<Bytes>)>) {
        let step = |(key, now)| (key, Step { before: None, now });
        let steps = writes.into_iter().map(step).collect();
        let previous = self.commits.insert(at, steps);
        assert!(previous.is_none(), "two transactions at revision {at}");
    }

    /// Computes the value that each change replaced, starting with an empty state.
    pub fn complete(&mut self) {
        let mut state = BTreeMap::new();
        for (key, step) in self.commits.values_mut().flatten() {
            step.before = match step.now.clone() {
                Some(now) => state.insert(Key::clone(key), now),
                None => state.remove(key),
            };
        }
    }

    /// The revisions at which something was written.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> {
        self.commits.keys().copied()
    }

    /// The state after `revision`, starting with an empty one.
    pub fn state_at(&self, revision: Revision) -> BTreeMap<Key, Bytes> {
        let mut state = BTreeMap::new();
        for (key, step) in self.commits.range(..=revision).flat_map(|(_, steps)| steps) {
            match step.now.clone() {
                Some(now) => state.insert(Key::clone(key), now),
                None => state.remove(key),
            };
        }
        state
    }

    /// Checks what a watch returned, which must be complete up to `through`.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, record: &Record, through: Revision) -> Result<(), Violation> {
        let mut shown = record.after;
        let mut progress = record.after;
        let mut last = &Steps::new();
        for seen in &record.seen {
            match seen {
                Seen::Steps(revision, steps) => {
                    check_order(*revision, steps, shown, last)?;
                    if *revision <= progress {
                        return Err(Violation::Overtaken {
                            progress,
                            revision: *revision,
                        });
                    }
                    self.check_content(*revision, steps, &record.range)?;
                    self.check_gap(*revision, shown, record)?;
                    (shown, last) = (*revision, steps);
                }
                Seen::Progress(to) => {
                    if *to < progress {
                        let from = progress;
                        return Err(Violation::Fell { from, to: *to });
                    }
                    progress = *to;
                    if let Some(revision) = self.first_in(&record.range, shown, progress) {
                        return Err(Violation::Overtaken { progress, revision });
                    }
                }
            }
        }
        match self.first_in(&record.range, shown, through) {
            Some(missed) => Err(Violation::Missed(missed)),
            None => Ok(()),
        }
    }

    fn check_content(
        &self,
        revision: Revision,
        steps: &Steps,
        range: &KeyRange,
    ) -> Result<(), Violation> {
        let written = self.commits.get(&revision);
        let written = written.ok_or(Violation::Altered(revision))?;
        let mut rest: BTreeSet<_> = written.keys().filter(|key| range.contains(key)).collect();
        for (key, step) in steps {
            if !rest.remove(key) || written.get(key) != Some(step) {
                return Err(Violation::Altered(revision));
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Violation::Split(revision))
        }
    }

    fn check_gap(
        &self,
        revision: Revision,
        shown: Revision,
        record: &Record,
    ) -> Result<(), Violation> {
        match self.first_in(&record.range, shown, revision) {
            Some(expected) if expected < revision => Err(if shown == record.after {
                Violation::Skipped {
                    after: record.after,
                    began: revision,
                    expected,
                }
            } else {
                Violation::Missed(expected)
            }),
            _ => Ok(()),
        }
    }

    /// The first revision after `after`, up to `through`, that changed `range`.
    fn first_in(&self, range: &KeyRange, after: Revision, through: Revision) -> Option<Revision> {
        if after >= through {
            return None;
        }
        let span = (Bound::Excluded(after), Bound::Included(through));
        let mut commits = self.commits.range(span);
        let found = commits.find(|(_, steps)| steps.keys().any(|key| range.contains(key)));
        found.map(|(revision, _)| *revision)
    }
}

/// `last` are the steps that came at `shown`.
fn check_order(
    revision: Revision,
    steps: &Steps,
    shown: Revision,
    last: &Steps,
) -> Result<(), Violation> {
    if revision > shown {
        return Ok(());
    }
    if revision < shown {
        return Err(Violation::Unordered {
            earlier: revision,
            later: shown,
        });
    }
    match steps.keys().find(|key| last.contains_key(*key)) {
        Some(key) => Err(Violation::Repeated {
            key: Key::clone(key),
            revision,
        }),
        None => Err(Violation::Split(revision)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Revision = Revision(5);

    fn writes(of: &[(&str, Option<&'static str>)]) -> Vec<(Key, Option<Bytes>)> {
        of.iter()
            .map(|(key, value)| (Key::from(*key), value.map(Bytes::from)))
            .collect()
    }

    fn log() -> CommitLog {
        let mut log = CommitLog::default();
        log.add(Revision(2), writes(&[("a/1", Some("2")), ("b", Some("2"))]));
        log.add(Revision(1), writes(&[("a/1", Some("1"))]));
        log.add(Revision(3), writes(&[("b", None)]));
        log.add(Revision(4), writes(&[("a/1", None), ("a/2", Some("4"))]));
        log.add(Revision(5), writes(&[("c", Some("5"))]));
        log.complete();
        log
    }

    /// A correct record of the keys under `a/` from the first revision on.
    fn correct(log: &CommitLog) -> Record {
        let range = KeyRange::prefix("a/");
        let within = |(revision, steps): (&Revision, &Steps)| {
            let steps = steps.clone().into_iter();
            let steps: Steps = steps.filter(|(key, _)| range.contains(key)).collect();
            (!steps.is_empty()).then_some(Seen::Steps(*revision, steps))
        };
        let mut seen: Vec<_> = log.commits.iter().filter_map(within).collect();
        seen.insert(2, Seen::Progress(Revision(3)));
        Record {
            range,
            after: Revision(0),
            seen,
        }
    }

    fn check_with(change: impl FnOnce(&mut Vec<Seen>)) -> Result<(), Violation> {
        let log = log();
        let mut record = correct(&log);
        change(&mut record.seen);
        log.check(&record, END)
    }

    #[test]
    fn a_correct_record_passes() {
        assert_eq!(check_with(|_| {}), Ok(()));
    }

    #[test]
    fn the_state_is_what_was_written_up_to_a_revision() {
        let state = log().state_at(Revision(3));
        assert!(state.into_iter().eq([("a/1".into(), "2".into())]));
    }

    #[test]
    fn disorder_is_found() {
        let found = check_with(|seen| seen[..2].reverse());
        assert!(matches!(found, Err(Violation::Skipped { .. })), "{found:?}");
        let found = check_with(|seen| {
            let first = seen[0].clone();
            seen.insert(2, first);
        });
        assert!(
            matches!(found, Err(Violation::Unordered { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn repetition_is_found() {
        let found = check_with(|seen| seen.insert(1, seen[0].clone()));
        assert!(
            matches!(found, Err(Violation::Repeated { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn a_split_revision_is_found() {
        let found = check_with(|seen| {
            if let Some(Seen::Steps(_, steps)) = seen.last_mut() {
                steps.pop_last();
            }
        });
        assert_eq!(found, Err(Violation::Split(Revision(4))));
    }

    #[test]
    fn omission_and_alteration_are_found() {
        let found = check_with(|seen| drop(seen.remove(1)));
        assert!(
            matches!(found, Err(Violation::Overtaken { .. })),
            "{found:?}"
        );
        let found = check_with(|seen| drop(seen.drain(1..3)));
        assert_eq!(found, Err(Violation::Missed(Revision(2))));
        let found = check_with(|seen| drop(seen.pop()));
        assert_eq!(found, Err(Violation::Missed(Revision(4))));
        let found = check_with(|seen| {
            if let Seen::Steps(_, steps) = &mut seen[1] {
                steps.first_entry().unwrap().get_mut().before = None;
            }
        });
        assert_eq!(found, Err(Violation::Altered(Revision(2))));
    }

    #[test]
    fn a_wrong_start_is_found() {
        let found = check_with(|seen| drop(seen.remove(0)));
        assert!(matches!(found, Err(Violation::Skipped { .. })), "{found:?}");
    }

    #[test]
    fn false_progress_is_found() {
        let found = check_with(|seen| seen.insert(0, Seen::Progress(Revision(1))));
        assert!(
            matches!(found, Err(Violation::Overtaken { .. })),
            "{found:?}"
        );
        let found = check_with(|seen| seen.push(Seen::Progress(Revision(2))));
        assert!(matches!(found, Err(Violation::Fell { .. })), "{found:?}");
        let found = check_with(|seen| {
            let late = seen.pop().expect("the last change");
            seen.extend([Seen::Progress(END), late]);
        });
        assert!(
            matches!(found, Err(Violation::Overtaken { .. })),
            "{found:?}"
        );
    }
}
