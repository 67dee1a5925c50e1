//! What happened to an object, as handlers and predicates see it.

use std::sync::Arc;

/// A change of one object in the cache.
///
/// An event is delivered after the cache shows it. Changes of one object come in
/// order; several that nobody has read yet may arrive as one.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// The object is new to the cache.
    Created {
        /// The object.
        object: Arc<K>,
        /// Whether it was there already when the watch, or this subscription, began.
        initial: bool,
    },
    /// The object changed; also sent on a resync, with two equal versions.
    Updated {
        /// As it was when last delivered.
        old: Arc<K>,
        /// As it is.
        new: Arc<K>,
    },
    /// The object is gone.
    Deleted {
        /// Its last state known.
        object: Arc<K>,
        /// Whether that was its very last state; `false` if the watch had a gap
        /// and the deletion was found out by listing again.
        final_state: bool,
    },
}

impl<K> Event<K> {
    /// The newest state the event carries.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Event::Created { object, .. } | Event::Deleted { object, .. } => object,
            Event::Updated { new, .. } => new,
        }
    }

    /// The state before an update.
    pub fn old(&self) -> Option<&Arc<K>> {
        match self {
            Event::Updated { old, .. } => Some(old),
            _ => None,
        }
    }
}
