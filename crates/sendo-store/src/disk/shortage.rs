//! Which transactions are possible while the disk is full.

use std::time::Duration;

use sendo_world::{Clock, Moment};

use super::file::{Fault, File};
use super::medium::RESERVE;
use super::tail::Tail;
use crate::Batch;
use crate::live::History;

/// By how much a transaction may make the values larger: enough for a deletion timestamp and one or
/// two conditions.
const SMALL: usize = 1 << 10;
/// By how much all transactions together may make the values larger.
const ALL_TOGETHER: usize = RESERVE as usize / 4;
/// How much has to be deleted before the file is compacted.
const WORTH: usize = RESERVE as usize / 4;

/// How often free space is checked while no task needs it.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A period in which the disk is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortage {
    /// The size of all values when it began.
    begun_with: usize,
    /// Their size when the file was last compacted.
    tightened_at: usize,
    looked: Moment,
}

impl Shortage {
    /// Begins a shortage in this state, and logs it.
    pub(super) fn begin(history: &History, now: Moment) -> Self {
        tracing::error!(
            "the disk is full: until it has space again, objects can be deleted, and changed \
             if they do not grow; nothing is created"
        );
        Shortage {
            begun_with: history.current_bytes(),
            tightened_at: history.current_bytes(),
            looked: now,
        }
    }

    /// Whether it is time to check for free space again.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        now.since(self.looked) >= LOOK_EVERY
    }

    /// Ends the shortage, and logs it.
    pub(super) fn end(self) {
        tracing::info!("the disk has space again: everything is written as before");
    }

    /// Whether a change needs so little space that it is possible.
    pub(super) fn admits(&self, before: &History, now: &History, batches: &[Batch]) -> bool {
        let mut changes = batches.iter().flat_map(|batch| batch.changes.iter());
        if changes.any(|change| change.before.is_none()) {
            return false;
        }
        let (before, now) = (before.current_bytes(), now.current_bytes());
        now <= before || (now - before <= SMALL && now <= self.begun_with + ALL_TOGETHER)
    }

    /// Whether there is free space again, after `history` with this tail was written.
    ///
    /// There has to be more than the released reserve, or the shortage would begin again at once.
    pub(super) fn is_over(
        &mut self,
        file: &mut File,
        history: &History,
        tail: Tail,
        clock: &Clock,
    ) -> Result<bool, Fault> {
        self.looked = clock.now();
        if file.hold_reserve(RESERVE)? {
            return Ok(true);
        }
        if history.current_bytes() + WORTH > self.tightened_at {
            return Ok(false);
        }
        // The file itself may have free pages.
        self.tightened_at = history.current_bytes();
        match file.shrink(tail.oldest, history.newest(), clock) {
            Ok(()) => file.hold_reserve(RESERVE),
            Err(cause) if cause.is_full() => {
                file.reopen()?;
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }
}
