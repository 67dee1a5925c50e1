//! What the queue keeps of a key.

use crate::queue::Priority;
use crate::queue::at::At;
use crate::queue::list::{Link, Linked, List};
use crate::queue::reason::ReasonSet;

/// The link of the lane a ready entry stands in, or of the list of those in work.
pub(super) const PLACE: usize = 0;
/// The link that holds all ready entries together, oldest first.
pub(super) const AGE: usize = 1;

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) priority: Priority,
    pub(super) entries: List<PLACE>,
}

/// With a key of two words it fills one line of memory, so that a queue of a
/// million keys is not much slower than one of a thousand.
#[derive(Debug)]
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) state: State,
    pub(super) links: [Link; 2],
    pub(super) hash: u32,
    /// Of the entry in its lane; while working, of the pick.
    pub(super) priority: Priority,
    pub(super) reasons: ReasonSet,
    /// The counter stops at 65,535.
    pub(super) attempts: u16,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// In a lane, to be picked.
    Ready { since: At },
    /// To become ready when due.
    Waiting { due: At, turn: Turn },
    /// Handed out; `work` says since when.
    Working { work: u32 },
}

/// Tells apart what is due at one and the same moment; that is over long before
/// the turns begin anew.
pub(super) type Turn = u32;

/// The work on an entry.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) since: At,
    /// If it was added meanwhile: it comes back when done.
    pub(super) again: Option<Again>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) due: At,
    pub(super) priority: Priority,
}

impl<K> Linked for Entry<K> {
    fn link(&mut self, which: usize) -> &mut Link {
        &mut self.links[which]
    }
}
