//! From JSON to an object of one type, cut down to what is kept.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::de::Error as _;

use super::held::AnyObject;
use super::options::KindOptions;
use crate::client::without_values;
use crate::controller::panic_message;
use crate::object::Object;

/// All that an informer does with the type of its objects.
pub(super) trait Reader: Send + Sync {
    /// Whether the type is of metadata only.
    fn is_metadata(&self) -> bool;

    /// Whether objects are kept packed.
    fn is_compact(&self) -> bool;

    /// The object as the API server sends it, cut down to what is kept; or why
    /// it cannot be.
    fn read(&self, json: &[u8]) -> Result<Arc<dyn AnyObject>, String>;

    /// The object, of which all that is not kept was taken away before.
    fn read_back(&self, json: &[u8]) -> Option<Arc<dyn AnyObject>>;

    /// A copy of `object`, cut down to what is kept; `None` if it is of another
    /// type, or has fields that are not to be read.
    fn copy(&self, object: &dyn Any) -> Option<Arc<dyn AnyObject>>;
}

impl<K: Object> Reader for KindOptions<K> {
    fn is_metadata(&self) -> bool {
        K::metadata_api()
    }

    fn is_compact(&self) -> bool {
        self.compact
    }

    fn read(&self, json: &[u8]) -> Result<Arc<dyn AnyObject>, String> {
        Ok(Arc::new(self.decode(json)?))
    }

    fn read_back(&self, json: &[u8]) -> Option<Arc<dyn AnyObject>> {
        Some(Arc::new(decode::<K>(json).ok()?))
    }

    fn copy(&self, object: &dyn Any) -> Option<Arc<dyn AnyObject>> {
        let object = object.downcast_ref::<K>().filter(|_| !self.skips())?;
        Some(Arc::new(self.trim(object.clone()).ok()?))
    }
}

/// One function to decode a type with, called from all places: such code is large.
fn decode<K: Object>(json: &[u8]) -> serde_json::Result<K> {
    // Looked at once, and not again in each text.
    let text = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}

impl<K: Object> KindOptions<K> {
    /// The object as the API server sends it, cut down to what is kept.
    pub(super) fn decode(&self, json: &[u8]) -> Result<K, String> {
        let cut = self.part.of(json);
        let object = decode::<K>(cut.as_deref().unwrap_or(json));
        self.trim(object.map_err(|error| without_values(&error))?)
    }

    /// Takes away what is not to be kept in memory. The error says why the
    /// object cannot be kept at all.
    fn trim(&self, mut object: K) -> Result<K, String> {
        if !self.keep_managed_fields {
            object.meta_mut().managed_fields = None;
        }
        let Some(transform) = &self.transform else {
            return Ok(object);
        };
        // After a panic the object is thrown away, half changed as it may be.
        match catch_unwind(AssertUnwindSafe(|| transform(&mut object))) {
            Ok(()) => Ok(object),
            Err(panic) => Err(format!(
                "the transform panicked: {}",
                panic_message(&*panic)
            )),
        }
    }
}
