//! A value derived from another, kept beside it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A slot for something computed from an entry or a change: computed once,
/// shared by all who hold it.
///
/// A thousand watchers of a change are handed the same [`Change`](crate::Change);
/// the first to need its wire encoding leaves it here for the others. The value
/// lives as long as what it belongs to.
///
/// The slot holds one value of one type, the type of whoever came first. It says
/// nothing about its owner, so all memos are equal.
#[derive(Clone, Default)]
pub struct Memo(OnceLock<Arc<dyn Any + Send + Sync>>);

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
        let mut compute = Some(compute);
        let kept = self.0.get_or_init(|| {
            let compute = compute.take().expect("called at most once");
            Arc::new(compute())
        });
        match (Arc::clone(kept).downcast(), compute) {
            (Ok(value), _) => value,
            (Err(_), Some(compute)) => Arc::new(compute()),
            (Err(_), None) => unreachable!("what was computed just now is a T"),
        }
    }

    /// The value, if there is one of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get()?).downcast().ok()
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.get() {
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
    fn another_type_is_computed_and_leaves_the_slot_alone() {
        let memo = Memo::default();
        memo.get_or_init(|| 1_u8);
        assert_eq!(*memo.get_or_init(|| "other"), "other");
        assert_eq!(memo.get::<u8>().as_deref(), Some(&1));
    }
}
