//! What is stored, and how it changes.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, KeyRange, Memo, Revision};

/// What is stored under a key.
///
/// Handed out behind an [`Arc`]: readers, watchers and history share one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value, as it was put.
    pub value: Bytes,
    /// When the key came to be; a key that was deleted and put again is a new one.
    pub created: Revision,
    /// The last change.
    pub modified: Revision,
    /// A place for what readers derive from the value, its decoded form for one.
    pub memo: Memo,
}

/// A change of one key, as watchers see it.
///
/// Handed out behind an [`Arc`]: all watchers of a change hold the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// What the key became; its `modified` is [`Change::revision`]. `None`: deleted.
    pub now: Option<Arc<Entry>>,
    /// What the key was before. `None`: it is new.
    pub before: Option<Arc<Entry>>,
    /// The transaction's revision.
    pub revision: Revision,
    /// A place for what watchers derive from the change, its wire encoding for one.
    pub memo: Memo,
}

/// The changes of one transaction, or those of them that lie in a watched range.
///
/// Never empty, and never split: a watch has seen all of a revision or none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The transaction's revision.
    pub revision: Revision,
    /// In the order in which the transaction wrote them, at most one per key.
    pub changes: Arc<[Arc<Change>]>,
}

impl Batch {
    /// Bytes that only history keeps alive: what the changes replaced. What they
    /// put is current, or what a later change replaced.
    pub(crate) fn replaced_bytes(&self) -> usize {
        let replaced = self.changes.iter().filter_map(|c| c.before.as_ref());
        replaced.map(|entry| entry.value.len()).sum()
    }

    /// The part that lies in `range`; `None` if there is nothing. Shares the changes.
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
