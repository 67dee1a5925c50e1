//! What is to happen after a reconcile that succeeded.

use std::time::Duration;

use crate::queue::Priority;

/// What is to happen after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub(crate) again_after: Option<Duration>,
    pub(crate) priority: Option<Priority>,
}

impl Action {
    /// Nothing, until an event enqueues the key again.
    pub fn done() -> Self {
        Action::default()
    }

    /// The same key again after `duration`, or earlier if an event enqueues it.
    pub fn after(duration: Duration) -> Self {
        Action {
            again_after: Some(duration),
            priority: None,
        }
    }

    /// With this priority when it comes again, rather than the one it had now.
    /// An event meanwhile may raise it.
    pub fn priority(self, priority: Priority) -> Self {
        Action {
            priority: Some(priority),
            ..self
        }
    }
}
