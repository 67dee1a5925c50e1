//! Indexes: the keys of a kind's objects by any value computed from them.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use imbl::OrdSet;

use super::held::AnyObject;
use crate::object::{Object, ObjectKey};

/// Finds the objects of a kind by a value computed from them.
///
/// An index is a `static`, declared where it is used, so that a value of the
/// wrong type does not compile:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use sendo::cache::Index;
///
/// /// Pods by the node they run on.
/// static BY_NODE: Index<Pod, String> = Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());
/// ```
///
/// Values are computed when an object arrives, not when it is looked up. A
/// panic in the function is logged, and the object is then not in the index.
pub struct Index<K, V> {
    name: &'static str,
    values: Values<K, V>,
}

enum Values<K, V> {
    One(fn(&K) -> Option<V>),
    Many(fn(&K) -> Vec<V>),
}

/// What an [`Index`] can find objects by.
pub trait IndexValue: Ord + Clone + fmt::Debug + Send + Sync + 'static {}

impl<V: Ord + Clone + fmt::Debug + Send + Sync + 'static> IndexValue for V {}

impl<K, V> Index<K, V> {
    /// An index in which an object has one value or none.
    ///
    /// The name appears in messages; it need not be unique.
    pub const fn new(name: &'static str, value: fn(&K) -> Option<V>) -> Self {
        Index {
            name,
            values: Values::One(value),
        }
    }

    /// An index in which an object has any number of values.
    pub const fn many(name: &'static str, values: fn(&K) -> Vec<V>) -> Self {
        Index {
            name,
            values: Values::Many(values),
        }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<K, V: IndexValue> Index<K, V> {
    /// The object's values, each once, in order.
    fn values_of(&self, key: &ObjectKey, object: &K) -> Vec<V> {
        let compute = || match self.values {
            Values::One(value) => value(object).into_iter().collect(),
            Values::Many(values) => values(object),
        };
        // An object is shared and never changed, so a panic leaves nothing half done.
        let mut values = catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|_| {
            tracing::error!(index = self.name, %key, "the index function panicked: the object is left out of the index");
            Vec::new()
        });
        values.sort();
        values.dedup();
        values
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// The entries of an index whose types are known only to the caller.
pub(super) trait Entries: Send + Sync {
    fn name(&self) -> &'static str;
    fn as_any(&self) -> &dyn Any;
    fn duplicate(&self) -> Arc<dyn Entries>;
    /// Whether going from `old` to `new` changes any entry.
    fn differ(&self, key: &ObjectKey, old: Known<'_>, new: Known<'_>) -> bool;
    fn change(&mut self, key: &ObjectKey, old: Known<'_>, new: Known<'_>);
}

/// What is known of an object, if it is there.
type Known<'a> = Option<&'a dyn AnyObject>;

/// The entries of an index. Those with one value share it: mostly there are far
/// fewer values than objects.
pub(super) struct Sorted<K: 'static, V: 'static> {
    index: &'static Index<K, V>,
    entries: OrdSet<(Arc<V>, ObjectKey)>,
}

impl<K: Object, V: IndexValue> Sorted<K, V> {
    pub(super) fn new(index: &'static Index<K, V>) -> Self {
        Sorted {
            index,
            entries: OrdSet::new(),
        }
    }

    /// Indexes are distinguished by address, not by name: a `static` has one address.
    pub(super) fn is(&self, index: &'static Index<K, V>) -> bool {
        std::ptr::eq(self.index, index)
    }

    /// The keys of the objects with this value, in order.
    pub(super) fn keys(&self, value: V) -> Vec<ObjectKey> {
        let value = Arc::new(value);
        let found = self.entries.range(first_with(&value)..);
        found
            .take_while(|(found, _)| *found == value)
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// The value as the entries have it that share it, or as it is.
    fn shared(&self, value: V) -> Arc<V> {
        let value = Arc::new(value);
        let first = self.entries.range(first_with(&value)..).next();
        let same = first.filter(|(found, _)| *found == value);
        same.map_or(value, |(found, _)| found.clone())
    }

    fn values(&self, key: &ObjectKey, object: Known<'_>) -> Vec<V> {
        object.map_or_else(Vec::new, |object| self.index.values_of(key, object.is()))
    }
}

impl<K: Object, V: IndexValue> Entries for Sorted<K, V> {
    fn name(&self) -> &'static str {
        self.index.name
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn duplicate(&self) -> Arc<dyn Entries> {
        Arc::new(Sorted {
            index: self.index,
            entries: self.entries.clone(),
        })
    }

    fn differ(&self, key: &ObjectKey, old: Known<'_>, new: Known<'_>) -> bool {
        self.values(key, old) != self.values(key, new)
    }

    fn change(&mut self, key: &ObjectKey, old: Known<'_>, new: Known<'_>) {
        for value in self.values(key, old) {
            self.entries.remove(&(Arc::new(value), key.clone()));
        }
        for value in self.values(key, new) {
            let value = self.shared(value);
            self.entries.insert((value, key.clone()));
        }
    }
}

/// Where the entries with a value begin: no key comes before the empty one.
fn first_with<V>(value: &Arc<V>) -> (Arc<V>, ObjectKey) {
    (value.clone(), ObjectKey::cluster(""))
}
