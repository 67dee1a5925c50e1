//! How much of the past is on disk.

use crate::live::History;
use crate::{Batch, Revision};

/// So many changes may be on disk however few entries there are.
const LEAST_CHANGES: usize = 1000;
/// So many bytes of replaced values may be on disk however small the entries are.
const LEAST_BYTES: usize = 4 << 20;

/// The newest part of the history, which is on disk.
///
/// A running store keeps a past that may be far larger than its present. On disk
/// lies no more of it than there is of the present, or a few MB: enough for
/// watches that a restart has cut, and what a start reads and the file holds
/// follows the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Every change after this one is on disk.
    pub(super) oldest: Revision,
    changes: usize,
    bytes: usize,
}

/// How much of the past a tail may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    changes: usize,
    bytes: usize,
}

impl Limits {
    /// Those beside so many entries with so many bytes of values.
    pub(super) fn beside(entries: usize, bytes: usize) -> Self {
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
    /// One that has no change yet, of those after `oldest`.
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

    /// Takes in a transaction.
    pub(super) fn add(&mut self, batch: &Batch) {
        self.changes += batch.changes.len();
        self.bytes += batch.replaced_bytes();
    }

    /// Lets go of its oldest transaction, this one.
    fn forget(&mut self, first: &Batch) {
        self.changes -= first.changes.len();
        self.bytes -= first.replaced_bytes();
        self.oldest = first.revision;
    }

    /// Whether it has more than it may.
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
