//! The keys of the garbage collector's queue: one object of any kind.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/garbagecollector/graph.go`: `objectReference`, `node`

use std::fmt;

use kube::Resource;
use sendo::source::AnyMeta;
use sendo::{Kind, ObjectExt, ObjectKey, Uid};

/// One object. With its uid, so that another object of its name is another item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

impl Item {
    pub(super) fn new(kind: &Kind, object: &AnyMeta) -> Self {
        Item {
            kind: kind.clone(),
            key: object.key(),
            uid: object.uid(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.kind, self.key, self.uid)
    }
}

/// The finalizer of an owner that is deleted after its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of an owner whose dependents are orphaned.
pub(super) const ORPHAN: &str = "orphan";

pub(super) fn has_finalizer(object: &AnyMeta, finalizer: &str) -> bool {
    let mut finalizers = object.meta().finalizers.iter().flatten();
    finalizers.any(|known| known == finalizer)
}

/// Whether the object is being deleted and its dependents have to be deleted or orphaned first.
pub(super) fn waits_for_dependents(object: &AnyMeta) -> bool {
    object.is_being_deleted()
        && (has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN))
}
