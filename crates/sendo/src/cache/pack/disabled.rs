//! What stands in for packing without the feature `compact`: no object is packed.

use std::sync::Arc;

use super::held::{AnyObject, Held};
use super::reader::Reader;

/// A packed object; there is none.
#[derive(Clone)]
pub(super) enum Packed {}

impl Packed {
    pub(super) fn version(&self) -> u64 {
        match *self {}
    }

    pub(super) fn is(&self, _uid: &str) -> bool {
        match *self {}
    }

    pub(super) fn is_same_object(&self, _other: &Packed) -> bool {
        match *self {}
    }

    pub(super) fn len(&self) -> usize {
        match *self {}
    }
}

/// Packs objects; there is none.
pub(super) enum Packer {}

impl Packer {
    pub(super) fn new(_reader: &Arc<dyn Reader>) -> Option<Self> {
        None
    }

    pub(super) fn pack(&self, _object: Arc<dyn AnyObject>) -> Held {
        match *self {}
    }

    pub(super) fn open(&self, _packed: &Packed) -> Arc<dyn AnyObject> {
        match *self {}
    }

    pub(super) fn can_do_better(&self, _packed: &Packed) -> bool {
        match *self {}
    }
}
