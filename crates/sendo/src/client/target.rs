//! What a write is about.

use std::sync::Arc;

use crate::object::{Object, ObjectExt, ObjectKey, Uid};

/// An object to write to: the object itself, or its key.
///
/// Given the object, a write is meant for just that one: not for another of the
/// same name that took its place.
pub trait Target<K> {
    /// The key.
    fn target_key(&self) -> ObjectKey;
    /// The uid, if it must be this very object.
    fn target_uid(&self) -> Option<Uid>;
    /// A version at which it was there, 0 if none is known.
    fn seen_at(&self) -> u64;
}

/// An object at hand: `&K`, or `&Arc<K>` as the cache gives it.
pub trait Given<K> {
    /// The object.
    fn object(&self) -> &K;
}

impl<K: Object> Given<K> for K {
    fn object(&self) -> &K {
        self
    }
}

impl<K: Object> Given<K> for Arc<K> {
    fn object(&self) -> &K {
        self
    }
}

impl<K: Object> Target<K> for K {
    fn target_key(&self) -> ObjectKey {
        ObjectKey::from_object(self)
    }

    fn target_uid(&self) -> Option<Uid> {
        self.meta().uid.as_deref().map(Uid::from)
    }

    fn seen_at(&self) -> u64 {
        self.version()
    }
}

impl<K: Object> Target<K> for Arc<K> {
    fn target_key(&self) -> ObjectKey {
        K::target_key(self)
    }

    fn target_uid(&self) -> Option<Uid> {
        K::target_uid(self)
    }

    fn seen_at(&self) -> u64 {
        K::seen_at(self)
    }
}

impl<K: Object> Target<K> for ObjectKey {
    fn target_key(&self) -> ObjectKey {
        self.clone()
    }

    fn target_uid(&self) -> Option<Uid> {
        None
    }

    fn seen_at(&self) -> u64 {
        0
    }
}
