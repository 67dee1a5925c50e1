//! A value derived from another, kept beside it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

/// A slot for a value derived from an entry or a change, which is computed once for all who share
/// that entry or change.
///
/// All watchers of a change share the same [`Change`](crate::Change); the first one that needs its
/// wire encoding stores it here for the others. The value is dropped with its owner, or when it is
/// [forgotten](Memo::forget).
///
/// The slot holds one value, of the type of the first caller. It is no part of its owner's value, so
/// all memos are equal.
#[derive(Default)]
pub struct Memo(RwLock<Option<Value>>);

type Value = Arc<dyn Any + Send + Sync>;

impl Memo {
    /// The value, computed by `compute` if there is none yet.
    ///
    /// Callers on several threads wait for the one that computes. If the slot
    /// is taken by a value of another type, the result is computed and not kept.
    ///
    /// # Panics
    /// If `compute` panics; the slot then stays empty. `compute` must not use the same memo: that
    /// would deadlock.
    pub fn get_or_init<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.get() {
            return value;
        }
        let mut slot = self.0.write();
        match &*slot {
            None => {
                let value = Arc::new(compute());
                *slot = Some(Arc::clone(&value) as Value);
                value
            }
            // Another thread was faster, or the value is of another type.
            Some(kept) => {
                let kept = Arc::clone(kept);
                drop(slot);
                kept.downcast().unwrap_or_else(|_| Arc::new(compute()))
            }
        }
    }

    /// The value, if there is one of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.value()?.downcast().ok()
    }

    /// Empties the slot. Callers that have the value keep it; the next one that needs it computes it
    /// again.
    ///
    /// Stores empty the memos of changes that all but the slowest watchers have seen, because a
    /// derived value is often larger than the change.
    pub fn forget(&self) {
        let mut slot = self.0.write();
        let value = slot.take();
        drop(slot);
        // Dropped without the lock, because a destructor may run any code.
        drop(value);
    }

    fn value(&self) -> Option<Value> {
        self.0.read().clone()
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Memo(RwLock::new(self.value()))
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.value() {
            Some(_) => "Memo(set)",
            None => "Memo(empty)",
        })
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once_and_shared() {
        let memo = Memo::default();
        assert_eq!(memo.get::<String>(), None);
        let first = memo.get_or_init(|| "encoded".to_owned());
        let second = memo.get_or_init(|| -> String { panic!("computed twice") });
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(memo.get::<String>().as_deref(), Some(&*first));
    }

    #[test]
    fn what_was_forgotten_is_computed_again() {
        let memo = Memo::default();
        let first = memo.get_or_init(|| "first");
        memo.forget();
        assert_eq!(memo.get::<&str>(), None);
        assert_eq!(
            (*first, *memo.get_or_init(|| "second")),
            ("first", "second")
        );
    }

    #[test]
    fn another_type_is_computed_and_leaves_the_slot_alone() {
        let memo = Memo::default();
        memo.get_or_init(|| 1_u8);
        assert_eq!(*memo.get_or_init(|| "other"), "other");
        assert_eq!(memo.get::<u8>().as_deref(), Some(&1));
    }
}
