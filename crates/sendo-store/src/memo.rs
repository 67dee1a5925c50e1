//! A value derived from another, kept beside it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A slot for something computed from an entry or a change: computed once,
/// shared by all who hold it.
///
/// A thousand watchers of a change are handed the same [`Change`](crate::Change);
/// the first to need its wire encoding leaves it here for the others. The value
/// lives as long as what it belongs to, or until it is [forgotten](Memo::forget).
///
/// The slot holds one value of one type, the type of whoever came first. It says
/// nothing about its owner, so all memos are equal.
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
    /// If `compute` does; the slot then stays empty. `compute` must not use the
    /// same memo: that would wait for itself.
    pub fn get_or_init<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.get() {
            return value;
        }
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            None => {
                let value = Arc::new(compute());
                *slot = Some(Arc::clone(&value) as Value);
                value
            }
            // Somebody else was faster, or it is of another type.
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

    /// Empties the slot. Those who have the value keep it; the next to need one computes it again.
    ///
    /// Stores do this to changes that all watchers but the slowest have seen: what
    /// is derived from a change is often larger than the change.
    pub fn forget(&self) {
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let value = slot.take();
        drop(slot);
        // Dropping it may run any code.
        drop(value);
    }

    fn value(&self) -> Option<Value> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
