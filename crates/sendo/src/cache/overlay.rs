//! What this program wrote and its watch has not shown yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::held::Held;
use crate::object::{ObjectKey, Uid};

/// The program's own writes that the watch has not delivered yet.
///
/// Resource versions are comparable numbers, so a write is dropped when the watch has reached its
/// version. The response to a deletion has no resource version: it is dropped when the watch no
/// longer shows that object.
pub(super) struct Overlay {
    pending: BTreeMap<ObjectKey, Pending>,
}

pub(super) struct Pending {
    /// What the watch has shown last.
    pub(super) beneath: Option<Held>,
    pub(super) write: Write,
}

pub(super) enum Write {
    /// The object was created or changed.
    Put {
        version: u64,
        uid: Uid,
        /// Nothing, if the change took the object out of the selection.
        shown: Option<Held>,
    },
    /// The object was changed, and of what it is now only the metadata are known.
    Described {
        version: u64,
        uid: Uid,
        metadata: Arc<ObjectMeta>,
        /// The newest state of which all is known.
        base: Held,
        /// That state with these metadata; nothing, if the change took the
        /// object out of the selection.
        shown: Option<Held>,
    },
    /// The object was deleted.
    Gone {
        uid: Uid,
        /// A version at which it was still there.
        since: u64,
    },
}

impl Write {
    /// What readers see in place of what the watch has shown.
    pub(super) fn shown(&self) -> Option<Held> {
        match self {
            Write::Put { shown, .. } | Write::Described { shown, .. } => shown.clone(),
            Write::Gone { .. } => None,
        }
    }

    /// The version the watch must come to before it can know better.
    pub(super) fn version(&self) -> u64 {
        match self {
            Write::Put { version, .. } | Write::Described { version, .. } => *version,
            Write::Gone { since, .. } => *since,
        }
    }

    fn uid(&self) -> &Uid {
        match self {
            Write::Put { uid, .. } | Write::Described { uid, .. } | Write::Gone { uid, .. } => uid,
        }
    }

    /// Answers can overtake each other: whether `later`, which came later, is also the later write.
    fn is_followed_by(&self, later: &Write) -> bool {
        let is_gone = |write: &Write| matches!(write, Write::Gone { .. });
        match (is_gone(self), is_gone(later)) {
            (true, false) if self.uid() == later.uid() => false,
            (false, true) if self.uid() == later.uid() => true,
            _ => later.version() > self.version(),
        }
    }
}

impl Pending {
    /// Whether a watch that has come to `version` knows the write, or better.
    fn is_settled_at(&self, version: u64) -> bool {
        let still_there = |uid: &Uid| self.beneath.as_ref().is_some_and(|o| o.is(uid));
        version >= self.write.version()
            && match &self.write {
                Write::Put { .. } | Write::Described { .. } => true,
                Write::Gone { uid, .. } => !still_there(uid),
            }
    }
}

impl Overlay {
    pub(super) fn new() -> Self {
        Overlay {
            pending: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Pending> {
        self.pending.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Pending> {
        self.pending.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Pending)> {
        self.pending.iter()
    }

    /// The version up to which this program knows of the object with this uid.
    pub(super) fn version_of(&self, key: &ObjectKey, uid: &Uid) -> Option<u64> {
        let pending = self.pending.get(key)?;
        (pending.write.uid() == uid).then(|| pending.write.version())
    }

    /// Lays a write over `beneath`, unless a later one lies there. Says whether it did.
    pub(super) fn lay(&mut self, key: &ObjectKey, beneath: Option<Held>, write: Write) -> bool {
        let before = self.pending.get(key);
        if before.is_some_and(|before| !before.write.is_followed_by(&write)) {
            return false;
        }
        self.pending.insert(key.clone(), Pending { beneath, write });
        true
    }

    /// Takes away the write over `key` if a watch at `version` has settled it.
    pub(super) fn settle(&mut self, key: &ObjectKey, version: u64) -> Option<Pending> {
        if !self.pending.get(key)?.is_settled_at(version) {
            return None;
        }
        self.pending.remove(key)
    }

    /// Takes away the write over `key`, whatever it is.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Pending> {
        self.pending.remove(key)
    }
}
