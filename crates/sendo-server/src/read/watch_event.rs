//! Encodes the events of a watch.
//!
//! A change is encoded once for each form in which it is watched: the
//! bytes are kept beside the change and shared by all who watch in that form. What a
//! webhook has to convert is kept beside it too, and converted before the event is encoded.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use sendo_apimachinery::{Status, protobuf};
use sendo_store::{Change, Revision};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::catalog::Resource;
use crate::catalog::stored_form;
use crate::read::answer;
use crate::read::table::{self, IncludeObject};
use crate::read::view::{self, Stored};
use crate::request::negotiate::{Encoding, View};
use crate::state::Server;
use crate::state::call::Call;

/// What happened to an object, as a watch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark => "BOOKMARK",
        }
    }
}

/// Room for what an event has around its object, and an object around what is stored of it.
const ENVELOPE: usize = 192;

/// The annotation of the bookmark that ends the initial state.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Encodes the events of one watch.
pub(crate) struct Events {
    server: Arc<Server>,
    resource: Arc<Resource>,
    view: View,
    encoding: Encoding,
    include: IncludeObject,
    columns_sent: bool,
}

/// What is derived from a change, once for all who watch it.
#[derive(Default)]
struct Derived {
    now: OnceLock<Arc<Value>>,
    before: OnceLock<Arc<Value>>,
    encoded: Mutex<Vec<Encoded>>,
    converted: Mutex<Vec<Arc<Converted>>>,
}

impl Derived {
    /// What is converted to a version.
    fn in_version(&self, api_version: &str) -> Arc<Converted> {
        let mut all = self.converted.lock();
        if let Some(known) = all.iter().find(|own| own.api_version == api_version) {
            return Arc::clone(known);
        }
        let new = Arc::new(Converted {
            api_version: api_version.to_owned(),
            before: OnceCell::new(),
            now: OnceCell::new(),
        });
        all.push(Arc::clone(&new));
        new
    }
}

/// The object before and after a change in one version, once a webhook has converted it.
struct Converted {
    api_version: String,
    before: OnceCell<Bytes>,
    now: OnceCell<Bytes>,
}

/// An object of a change.
#[derive(Clone, Copy)]
enum Side {
    Before,
    Now,
}

struct Encoded {
    kind: EventType,
    view: View,
    encoding: Encoding,
    api_version: String,
    bytes: Bytes,
}

impl Events {
    pub(crate) fn new(call: &Call<'_>) -> Result<Self, Status> {
        Ok(Events {
            server: Arc::clone(call.server),
            resource: Arc::clone(call.resource),
            view: call.request.form.view,
            encoding: call.request.form.encoding,
            include: IncludeObject::from_request(call)?,
            columns_sent: false,
        })
    }

    /// A stored object in its storage version.
    pub(crate) fn decode(&self, stored: &Stored) -> Value {
        self.resource.decode(&stored.value, stored.at)
    }

    /// Whether a webhook has to convert what is shown.
    pub(crate) fn are_converted(&self) -> bool {
        self.resource.has_conversion_webhook()
    }

    /// Stored objects in the version that is shown.
    pub(crate) async fn in_version(&self, stored: Vec<Stored>) -> Result<Vec<Stored>, Status> {
        self.server.in_version(&self.resource, stored).await
    }

    /// Has the objects of a change converted, once for all who watch this version, before any
    /// other method is given the change. One that failed is converted again for the next.
    pub(crate) async fn convert(&self, change: &Change) -> Result<(), Status> {
        let derived = change.memo.get_or_init(Derived::default);
        let converted = derived.in_version(&self.resource.types.api_version);
        for (entry, place) in [
            (&change.before, &converted.before),
            (&change.now, &converted.now),
        ] {
            if let Some(entry) = entry {
                let convert = async || {
                    let mut all = self.in_version(vec![Stored::from(&**entry)]).await?;
                    Ok::<_, Status>(all.remove(0).value)
                };
                place.get_or_try_init(convert).await?;
            }
        }
        Ok(())
    }

    /// The bytes of an object of a change, in the version that is shown.
    fn value(&self, change: &Change, side: Side) -> Option<(Bytes, Revision)> {
        let entry = match side {
            Side::Before => change.before.as_ref()?,
            Side::Now => change.now.as_ref()?,
        };
        if !self.are_converted() {
            return Some((entry.value.clone(), entry.modified));
        }
        let derived = change.memo.get_or_init(Derived::default);
        let converted = derived.in_version(&self.resource.types.api_version);
        let place = match side {
            Side::Before => &converted.before,
            Side::Now => &converted.now,
        };
        Some((place.get()?.clone(), entry.modified))
    }

    fn decode_side(&self, change: &Change, side: Side) -> Option<Arc<Value>> {
        let (value, at) = self.value(change, side)?;
        Some(Arc::new(self.resource.decode(&value, at)))
    }

    /// What a change made of the object, decoded once for all.
    pub(crate) fn now(&self, change: &Change) -> Option<Arc<Value>> {
        if self.are_converted() {
            return self.decode_side(change, Side::Now);
        }
        let entry = change.now.as_ref()?;
        let derived = change.memo.get_or_init(Derived::default);
        let decode = || Arc::new(self.resource.decode(&entry.value, entry.modified));
        Some(Arc::clone(derived.now.get_or_init(decode)))
    }

    /// What the object was before a change, decoded once for all.
    pub(crate) fn before(&self, change: &Change) -> Option<Arc<Value>> {
        if self.are_converted() {
            return self.decode_side(change, Side::Before);
        }
        let entry = change.before.as_ref()?;
        let derived = change.memo.get_or_init(Derived::default);
        let decode = || Arc::new(self.resource.decode(&entry.value, entry.modified));
        Some(Arc::clone(derived.before.get_or_init(decode)))
    }

    /// The event of a change. A deletion shows the last state, at the revision of the deletion.
    pub(crate) fn of_change(&mut self, kind: EventType, change: &Change) -> Bytes {
        let side = match kind {
            EventType::Deleted => Side::Before,
            _ => Side::Now,
        };
        let Some((value, _)) = self.value(change, side) else {
            return Bytes::new();
        };
        let stored = Stored {
            value,
            at: change.revision,
        };
        if matches!(self.view, View::Table(_)) {
            let mut out = Vec::new();
            self.write(&mut out, kind, &stored);
            return out.into();
        }
        let derived = change.memo.get_or_init(Derived::default);
        let mut encoded = derived.encoded.lock();
        let api_version = self.resource.types.api_version.clone();
        let same = |own: &&Encoded| {
            own.kind == kind
                && own.view == self.view
                && own.encoding == self.encoding
                && own.api_version == api_version
        };
        if let Some(found) = encoded.iter().find(same) {
            return found.bytes.clone();
        }
        let mut out = Vec::new();
        self.write(&mut out, kind, &stored);
        let bytes = Bytes::from(out);
        encoded.push(Encoded {
            kind,
            view: self.view,
            encoding: self.encoding,
            api_version,
            bytes: bytes.clone(),
        });
        bytes
    }

    /// Writes the event of an object.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, kind: EventType, stored: &Stored) {
        if self.encoding == Encoding::Protobuf {
            let mut object = Vec::new();
            self.write_object(&mut object, stored);
            let object = serde_json::from_slice(&object).expect("objects are JSON of ours");
            return self.write_message(out, kind.as_str(), &object);
        }
        out.reserve(stored.value.len() + ENVELOPE);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_str().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        self.write_object(out, stored);
        out.extend_from_slice(b"}\n");
    }

    fn write_message(&self, out: &mut Vec<u8>, kind: &str, object: &Value) {
        // What has no message was never agreed to be sent as one.
        let event = protobuf::encode_event(&self.server.types, kind, object);
        out.extend(event.unwrap_or_default());
    }

    /// Writes an object as JSON.
    fn write_object(&mut self, out: &mut Vec<u8>, stored: &Stored) {
        match self.view {
            View::Whole => view::whole(
                out,
                &self.server,
                &self.resource,
                Some(&self.resource.types),
                stored,
            ),
            View::Metadata(version) | View::MetadataList(version) => {
                view::metadata(out, &self.resource, version, stored)
            }
            View::Table(version) => {
                // Columns come with the first event only.
                let columns = if self.columns_sent {
                    Value::Null
                } else {
                    table::columns(&self.resource)
                };
                self.columns_sent = true;
                let row = table::row(
                    &self.server,
                    &self.resource,
                    self.server.world.clock().wall(),
                    version,
                    self.include,
                    stored,
                );
                let mut metadata = Map::new();
                metadata.insert("resourceVersion".to_owned(), stored.at.to_string().into());
                let table = table::table(version, metadata, columns, vec![row]);
                out.extend_from_slice(&answer::to_bytes(&table));
            }
        }
    }

    /// A bookmark: all changes up to `at` have been sent.
    pub(crate) fn bookmark(&mut self, at: Revision, ends_initial_state: bool) -> Bytes {
        let metadata = if ends_initial_state {
            json!({"annotations": {INITIAL_EVENTS_END: "true"}})
        } else {
            json!({})
        };
        let stored = Stored {
            value: stored_form::encode(&json!({"metadata": metadata})),
            at,
        };
        let mut out = Vec::new();
        self.write(&mut out, EventType::Bookmark, &stored);
        out.into()
    }

    /// The event of a watch that cannot go on.
    pub(crate) fn failure(&self, status: &Status) -> Bytes {
        if self.encoding == Encoding::Protobuf {
            let mut out = Vec::new();
            self.write_message(&mut out, "ERROR", &status.to_json());
            return out.into();
        }
        let event = json!({"type": "ERROR", "object": status.to_json()});
        let mut out = Vec::from(answer::to_bytes(&event));
        out.push(b'\n');
        out.into()
    }
}
