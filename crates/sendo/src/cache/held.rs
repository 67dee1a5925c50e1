//! How an object is kept in memory: as it is, or packed.
//!
//! From here to the readers nothing knows the objects' type. One cache is so
//! compiled once, not once for every kind of every program.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pack::{Packed, Packer};
use super::reader::Reader;
use crate::Event;
use crate::object::{Object, ObjectKey, Uid};

/// An object of any type, as much as the cache looks into it.
pub(super) trait AnyObject: Any + Send + Sync {
    fn metadata(&self) -> &ObjectMeta;
    fn to_json(&self) -> serde_json::Result<Vec<u8>>;
}

impl<K: Object> AnyObject for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl dyn AnyObject {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::from_metadata(self.metadata())
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    pub(super) fn version_text(&self) -> &str {
        let version = &self.metadata().resource_version;
        version.as_deref().unwrap_or_default()
    }

    pub(super) fn version(&self) -> u64 {
        self.version_text().parse().unwrap_or_default()
    }

    /// The object as what it is.
    ///
    /// # Panics
    /// If it is something else: an informer has objects of one type.
    pub(super) fn is<K: Object>(&self) -> &K {
        let this: &dyn Any = self;
        this.downcast_ref().expect(ONE_TYPE)
    }
}

/// The object as what it is; see [`AnyObject`].
pub(super) fn typed<K: Object>(object: Arc<dyn AnyObject>) -> Arc<K> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().expect(ONE_TYPE)
}

const ONE_TYPE: &str = "an informer has objects of one type";

/// An object in memory. Cheap to clone.
#[derive(Clone)]
pub(super) enum Held {
    Whole(Arc<dyn AnyObject>),
    #[cfg_attr(not(feature = "compact"), expect(dead_code))]
    Packed(Packed),
}

impl<K: Object> From<Arc<K>> for Held {
    fn from(object: Arc<K>) -> Self {
        Held::Whole(object)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Held {
    pub(super) fn version(&self) -> u64 {
        match self {
            Held::Whole(object) => object.version(),
            Held::Packed(packed) => packed.version(),
        }
    }

    /// Whether it is the object with this uid, in whatever state.
    pub(super) fn is(&self, uid: &Uid) -> bool {
        match self {
            Held::Whole(object) => object.uid() == uid.as_str(),
            Held::Packed(packed) => packed.is(uid.as_str()),
        }
    }

    /// Whether both are states of one object.
    pub(super) fn is_same_object(&self, other: &Held) -> bool {
        match (self, other) {
            (Held::Whole(one), Held::Whole(other)) => one.uid() == other.uid(),
            (Held::Packed(one), Held::Packed(other)) => one.is_same_object(other),
            (Held::Packed(packed), Held::Whole(object))
            | (Held::Whole(object), Held::Packed(packed)) => packed.is(object.uid()),
        }
    }

    /// Whether both are one state of one object.
    pub(super) fn is_same_state(&self, other: &Held) -> bool {
        let same_version = match (self, other) {
            (Held::Whole(one), Held::Whole(other)) => one.version_text() == other.version_text(),
            _ => self.version() == other.version(),
        };
        same_version && self.is_same_object(other)
    }
}

/// How the objects of an informer are kept.
pub(super) struct Codec {
    reader: Arc<dyn Reader>,
    packer: Option<Packer>,
}

impl Codec {
    pub(super) fn new(reader: Arc<dyn Reader>) -> Self {
        Codec {
            packer: Packer::new(&reader),
            reader,
        }
    }

    pub(super) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    pub(super) fn hold(&self, object: Arc<dyn AnyObject>) -> Held {
        match &self.packer {
            None => Held::Whole(object),
            Some(packer) => packer.pack(object),
        }
    }

    pub(super) fn open(&self, held: &Held) -> Arc<dyn AnyObject> {
        match (held, &self.packer) {
            (Held::Whole(object), _) => object.clone(),
            (Held::Packed(packed), Some(packer)) => packer.open(packed),
            (Held::Packed(_), None) => unreachable!("only a packer packs"),
        }
    }

    /// The same object in less memory, if that is possible by now.
    pub(super) fn tighten(&self, held: Held) -> Held {
        match (&self.packer, &held) {
            (Some(packer), Held::Packed(packed)) if packer.can_do_better(packed) => {
                packer.pack(packer.open(packed))
            }
            _ => held,
        }
    }
}

/// A change of one object, as kept. Opened, it is an [`Event`].
#[derive(Clone, Debug)]
pub(super) enum Notice {
    Created { object: Held, initial: bool },
    Updated { old: Held, new: Held },
    Deleted { object: Held, final_state: bool },
}

impl Notice {
    /// The newest state.
    pub(super) fn object(&self) -> &Held {
        match self {
            Notice::Created { object, .. } | Notice::Deleted { object, .. } => object,
            Notice::Updated { new, .. } => new,
        }
    }

    pub(super) fn open<K: Object>(&self, codec: &Codec) -> Event<K> {
        let open = |held| typed(codec.open(held));
        match self {
            Notice::Created { object, initial } => Event::Created {
                object: open(object),
                initial: *initial,
            },
            Notice::Updated { old, new } => Event::Updated {
                old: open(old),
                new: open(new),
            },
            Notice::Deleted {
                object,
                final_state,
            } => Event::Deleted {
                object: open(object),
                final_state: *final_state,
            },
        }
    }
}

#[cfg(test)]
impl<K: Object> From<Event<K>> for Notice {
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
