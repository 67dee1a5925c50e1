//! The part of the history that is on disk.

use crate::live::History;
use crate::{Batch, Revision};

/// The number of changes that may be on disk with any number of entries.
const LEAST_CHANGES: usize = 1000;
/// The bytes of replaced values that may be on disk with any size of the entries.
const LEAST_BYTES: usize = 4 << 20;

/// The newest part of the history, which is on disk.
///
/// A running store keeps a history that may be far larger than its current entries. On disk it is
/// limited by their size, or to a few MB: enough for watches to resume after a restart, and so the
/// time of a start and the size of the file depend on the current entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Every change after this one is on disk.
    pub(super) oldest: Revision,
    changes: usize,
    bytes: usize,
}

/// How much history a tail may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    changes: usize,
    bytes: usize,
}

impl Limits {
    /// The limits with this number of entries and bytes of values.
    pub(super) fn for_entries(entries: usize, bytes: usize) -> Self {
        Limits {
            changes: entries.max(LEAST_CHANGES),
            bytes: bytes.max(LEAST_BYTES),
        }
    }

    /// Nothing but the newest transaction.
    pub(super) fn least() -> Self {
        Limits {
            changes: 0,
            bytes: 0,
        }
    }
}

impl Tail {
    /// An empty tail of the changes after `oldest`.
    pub(super) fn empty(oldest: Revision) -> Self {
        Tail {
            oldest,
            changes: 0,
            bytes: 0,
        }
    }

    /// The size of the replaced values in it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a transaction.
    pub(super) fn add(&mut self, batch: &Batch) {
        self.changes += batch.changes.len();
        self.bytes += batch.replaced_bytes();
    }

    /// Removes its oldest transaction, which is this one.
    fn forget(&mut self, first: &Batch) {
        self.changes -= first.changes.len();
        self.bytes -= first.replaced_bytes();
        self.oldest = first.revision;
    }

    /// Whether it exceeds the limits.
    pub(super) fn exceeds(&self, limits: Limits) -> bool {
        self.changes > limits.changes || self.bytes > limits.bytes
    }

    /// The tail of `history`, which has grown by `batches` and lost `forgotten`.
    #[must_use]
    pub(super) fn moved_on(
        mut self,
        history: &History,
        batches: &[Batch],
        forgotten: &[Batch],
        limits: Limits,
    ) -> Self {
        batches.iter().for_each(|batch| self.add(batch));
        for batch in forgotten {
            if batch.revision > self.oldest {
                self.forget(batch);
            }
        }
        while self.exceeds(limits)
            && let Some(first) = history.after(self.oldest).next()
            && first.revision < history.newest()
        {
            self.forget(first);
        }
        self
    }
}
