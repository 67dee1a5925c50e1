//! What is to happen after a reconcile that succeeded.

use std::time::Duration;

/// What is to happen after a reconcile that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub(crate) again_after: Option<Duration>,
}

impl Action {
    /// Nothing, until an event asks for it.
    pub fn done() -> Self {
        Action { again_after: None }
    }

    /// The same key again after `duration`, or earlier if an event asks for it.
    pub fn after(duration: Duration) -> Self {
        Action {
            again_after: Some(duration),
        }
    }
}
