//! From JSON to an object of one type, cut down to what is kept.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;

use super::applied::Applied;
use super::held::AnyObject;
use super::metadata::KeptMetadata;
use super::options::KindOptions;
use crate::error::panic_message;
use crate::object::Object;
use crate::transport::without_values;

/// All that an informer does with the type of its objects.
pub(super) trait Reader: Send + Sync {
    /// Whether the type is of metadata only.
    fn is_metadata(&self) -> bool;

    /// Whether objects are kept packed.
    #[cfg_attr(not(feature = "compact"), expect(dead_code))]
    fn is_compact(&self) -> bool;

    /// The object as the API server sends it, cut down to what is kept; or why
    /// it cannot be.
    fn read(&self, json: &[u8]) -> Result<Arc<dyn AnyObject>, String>;

    /// The object, of which all that is not kept was taken away before.
    #[cfg_attr(not(feature = "compact"), expect(dead_code))]
    fn read_back(&self, json: &[u8]) -> Option<Arc<dyn AnyObject>>;

    /// A copy of `object`, cut down to what is kept; `None` if it is of another
    /// type, or has fields that are not to be read.
    fn copy(&self, object: &dyn AnyObject) -> Option<Arc<dyn AnyObject>>;

    /// The object with these metadata, cut down to what is kept; `None` if the
    /// type is not of metadata only, or needs to see the object itself.
    fn describe(&self, metadata: &ObjectMeta) -> Option<Result<Arc<dyn AnyObject>, String>>;

    /// A copy of `object`, as it is kept, with other metadata, cut down to what
    /// is kept of them; but for the resource version, which stays. `None` where a
    /// transform, or a choice of parts of them, decides what that is.
    fn with_metadata(
        &self,
        object: &dyn AnyObject,
        metadata: &ObjectMeta,
    ) -> Option<Arc<dyn AnyObject>>;

    /// Where it is noted what this program has applied; `None` where it is not.
    fn applied(&self) -> Option<&Applied>;

    /// The metadata that are read of an object.
    fn metadata(&self) -> Option<&KeptMetadata>;

    /// Whether the metadata are kept as they were read.
    fn leaves_metadata(&self) -> bool;
}

impl dyn Reader + '_ {
    /// Whether what this one keeps of an object is all that `other` needs to see.
    pub(super) fn suffices(&self, other: &dyn Reader) -> bool {
        let (Some(known), Some(needed)) = (self.metadata(), other.metadata()) else {
            return false;
        };
        other.is_metadata() && self.leaves_metadata() && known.covers(needed)
    }
}

impl<K: Object> Reader for KindOptions<K> {
    fn is_metadata(&self) -> bool {
        K::metadata_api()
    }

    fn is_compact(&self) -> bool {
        self.compact
    }

    fn read(&self, json: &[u8]) -> Result<Arc<dyn AnyObject>, String> {
        let object = self.decode(json)?;
        if let Some(applied) = &self.applied {
            applied.note(json, object.meta());
        }
        Ok(Arc::new(object))
    }

    fn read_back(&self, json: &[u8]) -> Option<Arc<dyn AnyObject>> {
        Some(Arc::new(decode::<K>(json).ok()?))
    }

    fn copy(&self, object: &dyn AnyObject) -> Option<Arc<dyn AnyObject>> {
        let object: &dyn Any = object;
        let object = object.downcast_ref::<K>().filter(|_| !self.skips())?;
        Some(Arc::new(self.trim(object.clone()).ok()?))
    }

    fn describe(&self, metadata: &ObjectMeta) -> Option<Result<Arc<dyn AnyObject>, String>> {
        let (kept, blank) = (self.metadata.as_ref()?, self.blank.as_deref()?);
        let mut object = blank.clone();
        *object.meta_mut() = kept.apply_to(metadata);
        let object = self.trim(object);
        Some(object.map(|object| -> Arc<dyn AnyObject> { Arc::new(object) }))
    }

    fn with_metadata(
        &self,
        object: &dyn AnyObject,
        metadata: &ObjectMeta,
    ) -> Option<Arc<dyn AnyObject>> {
        let kept = self.metadata.as_ref().filter(|_| self.leaves_metadata())?;
        let object: &dyn Any = object;
        let mut object = object.downcast_ref::<K>()?.clone();
        let version = object.meta_mut().resource_version.take();
        *object.meta_mut() = ObjectMeta {
            resource_version: version,
            ..kept.apply_to(metadata)
        };
        Some(Arc::new(object))
    }

    fn applied(&self) -> Option<&Applied> {
        self.applied.as_deref()
    }

    fn metadata(&self) -> Option<&KeptMetadata> {
        self.metadata.as_ref()
    }

    fn leaves_metadata(&self) -> bool {
        self.transform.is_none()
    }
}

/// An object of metadata only, before it has any.
const BLANK: &str =
    r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{}}"#;

/// An object with no metadata yet, of a type that has nothing else.
pub(super) fn blank<K: Object>() -> Option<K> {
    let blank = K::metadata_api().then(|| decode(BLANK.as_bytes()));
    blank?.ok()
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
        let cut = self.part.cut(json);
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
