//! How an object is kept in memory: as it is, or packed.

use std::fmt;
use std::sync::Arc;

use super::pack::{Packed, Packer};
use crate::Event;
use crate::object::{Object, ObjectExt, Uid};

/// An object in memory. Cheap to clone.
pub(super) enum Held<K> {
    Whole(Arc<K>),
    Packed(Packed),
}

impl<K> Clone for Held<K> {
    fn clone(&self) -> Self {
        match self {
            Held::Whole(object) => Held::Whole(object.clone()),
            Held::Packed(packed) => Held::Packed(packed.clone()),
        }
    }
}

impl<K> From<Arc<K>> for Held<K> {
    fn from(object: Arc<K>) -> Self {
        Held::Whole(object)
    }
}

impl<K> fmt::Debug for Held<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl<K: Object> Held<K> {
    pub(super) fn version(&self) -> u64 {
        match self {
            Held::Whole(object) => object.version(),
            Held::Packed(packed) => packed.version(),
        }
    }

    /// Whether it is the object with this uid, in whatever state.
    pub(super) fn is(&self, uid: &Uid) -> bool {
        match self {
            Held::Whole(object) => object.uid() == *uid,
            Held::Packed(packed) => packed.is(uid.as_str()),
        }
    }

    /// Whether both are states of one object.
    pub(super) fn is_same_object(&self, other: &Held<K>) -> bool {
        match (self, other) {
            (Held::Whole(one), Held::Whole(other)) => one.meta().uid == other.meta().uid,
            (Held::Packed(one), Held::Packed(other)) => one.is_same_object(other),
            (Held::Packed(packed), Held::Whole(object))
            | (Held::Whole(object), Held::Packed(packed)) => {
                packed.is(object.meta().uid.as_deref().unwrap_or_default())
            }
        }
    }

    /// Whether both are one state of one object.
    pub(super) fn is_same_state(&self, other: &Held<K>) -> bool {
        let same_version = match (self, other) {
            (Held::Whole(one), Held::Whole(other)) => {
                one.meta().resource_version == other.meta().resource_version
            }
            _ => self.version() == other.version(),
        };
        same_version && self.is_same_object(other)
    }
}

/// How the objects of an informer are kept.
pub(super) enum Codec<K> {
    Whole,
    Compact(Packer<K>),
}

impl<K: Object> Codec<K> {
    pub(super) fn hold(&self, object: Arc<K>) -> Held<K> {
        match self {
            Codec::Whole => Held::Whole(object),
            Codec::Compact(packer) => packer.pack(object),
        }
    }

    pub(super) fn open(&self, held: &Held<K>) -> Arc<K> {
        match (held, self) {
            (Held::Whole(object), _) => object.clone(),
            (Held::Packed(packed), Codec::Compact(packer)) => packer.open(packed),
            (Held::Packed(_), Codec::Whole) => unreachable!("only a packer packs"),
        }
    }

    /// The same object in less room, if that is possible by now.
    pub(super) fn tighten(&self, held: Held<K>) -> Held<K> {
        match (self, &held) {
            (Codec::Compact(packer), Held::Packed(packed)) if packer.can_do_better(packed) => {
                packer.pack(packer.open(packed))
            }
            _ => held,
        }
    }
}

/// A change of one object, as kept. Opened, it is an [`Event`].
#[derive(Debug)]
pub(super) enum Notice<K> {
    Created { object: Held<K>, initial: bool },
    Updated { old: Held<K>, new: Held<K> },
    Deleted { object: Held<K>, final_state: bool },
}

impl<K> Clone for Notice<K> {
    fn clone(&self) -> Self {
        match self {
            Notice::Created { object, initial } => Notice::Created {
                object: object.clone(),
                initial: *initial,
            },
            Notice::Updated { old, new } => Notice::Updated {
                old: old.clone(),
                new: new.clone(),
            },
            Notice::Deleted {
                object,
                final_state,
            } => Notice::Deleted {
                object: object.clone(),
                final_state: *final_state,
            },
        }
    }
}

impl<K: Object> Notice<K> {
    /// The newest state.
    pub(super) fn object(&self) -> &Held<K> {
        match self {
            Notice::Created { object, .. } | Notice::Deleted { object, .. } => object,
            Notice::Updated { new, .. } => new,
        }
    }

    pub(super) fn open(&self, codec: &Codec<K>) -> Event<K> {
        match self {
            Notice::Created { object, initial } => Event::Created {
                object: codec.open(object),
                initial: *initial,
            },
            Notice::Updated { old, new } => Event::Updated {
                old: codec.open(old),
                new: codec.open(new),
            },
            Notice::Deleted {
                object,
                final_state,
            } => Event::Deleted {
                object: codec.open(object),
                final_state: *final_state,
            },
        }
    }
}

#[cfg(test)]
impl<K> From<Event<K>> for Notice<K> {
    fn from(event: Event<K>) -> Self {
        match event {
            Event::Created { object, initial } => Notice::Created {
                object: object.into(),
                initial,
            },
            Event::Updated { old, new } => Notice::Updated {
                old: old.into(),
                new: new.into(),
            },
            Event::Deleted {
                object,
                final_state,
            } => Notice::Deleted {
                object: object.into(),
                final_state,
            },
        }
    }
}
