//! What a list page and a line of a watch say. Bytes are scanned once and each
//! object is decoded straight from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::held::AnyObject;
use super::super::reader::Reader;
use crate::object::ObjectKey;
use crate::transport::without_values;

/// One page of a list.
pub(super) struct Page {
    pub(super) version: String,
    /// Where the next page begins.
    pub(super) next: Option<String>,
    pub(super) objects: Vec<Arc<dyn AnyObject>>,
    pub(super) unreadable: Vec<Undecoded>,
}

/// One line of a watch.
pub(super) enum Line {
    /// Created or changed.
    Applied(Arc<dyn AnyObject>),
    /// Deleted, in its last state.
    Deleted(Arc<dyn AnyObject>),
    /// Deleted, and what it was cannot be decoded.
    DeletedUnreadable(Undecoded),
    /// Created or changed into something that cannot be decoded.
    Unreadable(Undecoded),
    /// Nothing up to this version is still to come.
    Bookmark {
        version: String,
        /// Whether it ends the initial list of a watch that requested one.
        ends_list: bool,
    },
    /// The watch cannot go on.
    Error(Box<Status>),
}

/// An object that cannot be decoded, and what is known of it all the same.
#[derive(Clone)]
pub(in crate::cache) struct Undecoded {
    pub(in crate::cache) key: ObjectKey,
    pub(in crate::cache) version: String,
    pub(in crate::cache) cause: String,
    /// Its metadata, if these can be.
    pub(in crate::cache) metadata: Option<Box<ObjectMeta>>,
}

impl Undecoded {
    fn new(object: &RawValue, cause: String) -> Self {
        #[derive(Deserialize)]
        struct Described {
            metadata: Box<ObjectMeta>,
        }
        let named = Named::decode(object);
        let described = serde_json::from_str(object.get()).ok();
        Undecoded {
            key: named.key(),
            version: named.metadata.resource_version,
            cause,
            metadata: described.map(|described: Described| described.metadata),
        }
    }
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct RawLine<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// As much of an object as is needed to say which it is.
#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    metadata: NamedMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedMeta {
    name: String,
    namespace: Option<String>,
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// The annotation of the bookmark after the last object of a streamed list.
const LIST_ENDS: &str = "k8s.io/initial-events-end";

impl Named {
    fn decode(object: &RawValue) -> Self {
        serde_json::from_str(object.get()).unwrap_or_default()
    }

    fn key(&self) -> ObjectKey {
        match &self.metadata.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, &self.metadata.name),
            None => ObjectKey::cluster(&self.metadata.name),
        }
    }
}

impl Page {
    pub(super) fn decode(bytes: &[u8], reader: &dyn Reader) -> Result<Self, serde_json::Error> {
        let raw: RawPage<'_> = serde_json::from_slice(bytes)?;
        let items = raw.items.unwrap_or_default();
        let mut page = Page {
            version: raw.metadata.resource_version,
            next: Some(raw.metadata.r#continue).filter(|token| !token.is_empty()),
            objects: Vec::with_capacity(items.len()),
            unreadable: Vec::new(),
        };
        for item in items {
            match reader.read(item.get().as_bytes()) {
                Ok(object) => page.objects.push(object),
                Err(cause) => page.unreadable.push(Undecoded::new(item, cause)),
            }
        }
        Ok(page)
    }
}

/// The beginnings of the lines that come most, as every API server writes them.
const APPLIED: [&[u8]; 2] = [
    br#"{"type":"ADDED","object":"#,
    br#"{"type":"MODIFIED","object":"#,
];

impl Line {
    pub(super) fn decode(line: &[u8], reader: &dyn Reader) -> Result<Self, serde_json::Error> {
        // Where the object ends need not be looked for.
        let rest = APPLIED.iter().find_map(|begins| line.strip_prefix(*begins));
        let object = rest.and_then(|rest| rest.trim_ascii_end().strip_suffix(b"}"));
        if let Some(object) = object.and_then(|object| reader.read(object).ok()) {
            return Ok(Line::Applied(object));
        }
        let raw: RawLine<'_> = serde_json::from_slice(line)?;
        let deleted = match raw.r#type {
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            "BOOKMARK" => {
                let named = Named::decode(raw.object).metadata;
                let annotations = named.annotations.unwrap_or_default();
                return Ok(Line::Bookmark {
                    version: named.resource_version,
                    ends_list: annotations
                        .get(LIST_ENDS)
                        .is_some_and(|ends| ends == "true"),
                });
            }
            _ => return Ok(Line::Error(serde_json::from_str(raw.object.get())?)),
        };
        let cause = match reader.read(raw.object.get().as_bytes()) {
            Ok(object) if deleted => return Ok(Line::Deleted(object)),
            Ok(object) => return Ok(Line::Applied(object)),
            Err(cause) => cause,
        };
        let object = Undecoded::new(raw.object, cause);
        Ok(match deleted {
            true => Line::DeletedUnreadable(object),
            false => Line::Unreadable(object),
        })
    }

    /// A line that is no event at all: nothing after it can be trusted.
    pub(super) fn broken(error: serde_json::Error) -> Self {
        Line::Error(Box::new(Status {
            message: format!("a line of the watch {}", without_values(&error)),
            ..Status::default()
        }))
    }
}

/// The keys of objects that could not be decoded.
pub(super) fn keys(unreadable: &[Undecoded]) -> BTreeSet<ObjectKey> {
    unreadable.iter().map(|object| object.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::options::KindOptions;
    use super::*;
    use k8s_openapi::api::core::v1::Secret;

    fn reader() -> KindOptions<Secret> {
        KindOptions::new()
    }

    fn line(text: &str) -> Line {
        Line::decode(text.as_bytes(), &reader()).unwrap()
    }

    #[test]
    fn what_does_not_decode_is_named_and_not_quoted() {
        let text = r#"{"type":"ADDED","object":{"metadata":{"namespace":"a","name":"b",
            "resourceVersion":"7"},"stringData":{"password":["hunter2"]},"type":"hunter2"}}"#;
        let Line::Unreadable(object) = line(text) else {
            panic!("it decoded");
        };
        assert_eq!(object.key, ObjectKey::from("a/b"));
        assert_eq!(object.version, "7");
        let cause = &object.cause;
        assert!(cause.starts_with("expected a string at line"), "{cause}");
        assert!(!cause.contains("hunter2"));
        let metadata = object.metadata.unwrap();
        assert_eq!(metadata.name.as_deref(), Some("b"));
    }

    #[test]
    fn a_deletion_is_understood_even_if_the_object_is_not() {
        let text = r#"{"type":"DELETED","object":{"metadata":{"name":"b","resourceVersion":"8"},"type":3}}"#;
        let Line::DeletedUnreadable(object) = line(text) else {
            panic!("it decoded");
        };
        assert_eq!(object.key, ObjectKey::from("b"));
        assert_eq!(object.version, "8");
    }

    #[test]
    fn what_has_odd_metadata_is_named_all_the_same() {
        let text = r#"{"type":"ADDED","object":{"metadata":{"name":"b","labels":{"a":1}}}}"#;
        let Line::Unreadable(object) = line(text) else {
            panic!("it decoded");
        };
        assert_eq!(object.key, ObjectKey::from("b"));
        assert!(object.metadata.is_none());
    }

    #[test]
    fn bookmarks_and_errors_are_distinguished() {
        let bookmark = line(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#);
        assert!(
            matches!(&bookmark, Line::Bookmark { version, ends_list: false } if version == "9")
        );
        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let ends = matches!(
            line(end),
            Line::Bookmark {
                ends_list: true,
                ..
            }
        );
        assert!(ends);
        let error = line(r#"{"type":"ERROR","object":{"code":410,"message":"too old"}}"#);
        assert!(matches!(error, Line::Error(status) if status.code == 410));
    }

    #[test]
    fn a_page_with_no_items_is_empty() {
        let page = r#"{"metadata":{"resourceVersion":"3","continue":""},"items":null}"#;
        let page = Page::decode(page.as_bytes(), &reader()).unwrap();
        assert!(page.objects.is_empty() && page.next.is_none());
    }
}
