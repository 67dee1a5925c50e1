//! Entries and changes.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, KeyRange, Memo, Revision};

/// A key with its value.
///
/// Shared behind an [`Arc`]: readers, watchers and history have one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key; a key that was deleted and put again is a new one.
    pub created: Revision,
    /// The revision of the last change.
    pub modified: Revision,
    /// Holds a value that readers derive from the entry, for example its decoded form.
    pub memo: Memo,
}

/// A change of one key, as watchers see it.
///
/// Shared behind an [`Arc`]: all watchers of a change have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// The new entry, whose `modified` is [`Change::revision`]. `None` if the key was deleted.
    pub now: Option<Arc<Entry>>,
    /// The entry that was replaced. `None` if the key is new.
    pub before: Option<Arc<Entry>>,
    /// The transaction's revision.
    pub revision: Revision,
    /// Holds a value that watchers derive from the change, for example its wire encoding.
    pub memo: Memo,
}

/// The changes of one transaction, or those of them in a watched range.
///
/// Never empty, and never split: a watch returns all changes of a revision in its range at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The transaction's revision.
    pub revision: Revision,
    /// The changes in the order of the transaction's writes, at most one for each key.
    pub changes: Arc<[Arc<Change>]>,
}

impl Batch {
    /// Bytes that only history keeps alive: what the changes replaced. What they
    /// put is current, or what a later change replaced.
    pub(crate) fn replaced_bytes(&self) -> usize {
        let replaced = self.changes.iter().filter_map(|c| c.before.as_ref());
        replaced.map(|entry| entry.value.len()).sum()
    }

    /// The changes in `range`; `None` if there are none. Shares the changes.
    pub fn within(&self, range: &KeyRange) -> Option<Batch> {
        let inside = |change: &&Arc<Change>| range.contains(&change.key);
        match self.changes.iter().filter(inside).count() {
            0 => None,
            all if all == self.changes.len() => Some(self.clone()),
            _ => Some(Batch {
                revision: self.revision,
                changes: self.changes.iter().filter(inside).cloned().collect(),
            }),
        }
    }
}
