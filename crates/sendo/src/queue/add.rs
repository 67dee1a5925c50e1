//! How a key enters the queue: how soon, how urgent, and why.

use std::time::Duration;

use super::Reason;

/// How urgent an entry is: the higher, the sooner.
///
/// An entry of lower priority is never starved: see [`Options::fairness`](super::Options).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// The priority of changes.
    pub const NORMAL: Priority = Priority(0);
    /// What can wait for changes: the initial list of a watch, a resync.
    pub const LOW: Priority = Priority(-100);
}

/// One addition to the queue; made from a [`Reason`], at once and of normal priority
/// unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Add {
    pub(super) reason: Reason,
    pub(super) priority: Priority,
    pub(super) after: Duration,
}

impl Add {
    /// At once, with normal priority.
    pub const fn because(reason: Reason) -> Self {
        Add {
            reason,
            priority: Priority::NORMAL,
            after: Duration::ZERO,
        }
    }

    /// Not before `delay` has passed.
    pub const fn after(self, delay: Duration) -> Self {
        Add {
            after: delay,
            ..self
        }
    }

    /// With this priority.
    pub const fn priority(self, priority: Priority) -> Self {
        Add { priority, ..self }
    }
}

impl From<Reason> for Add {
    fn from(reason: Reason) -> Self {
        Add::because(reason)
    }
}
