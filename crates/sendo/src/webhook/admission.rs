//! What the handler of a webhook has at hand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::UserInfo;
use parking_lot::Mutex;
use sendo_world::{Clock, Timestamp, World};

use super::operations::Operation;
use super::review::AdmissionRequest;
use crate::cache::Listing;
use crate::client::{Client, Live};
use crate::object::{ObjectKey, Typed};
use crate::reader::Reader;

/// One request that is to be admitted: who asks for what, and the cache to look other objects up
/// in. Cheap to clone.
///
/// Reads come from the cache, which may be behind the API server: of two requests that exclude
/// each other, each may be admitted before the cache shows the other. What a webhook refuses so
/// is refused early, not for certain; the reconcile has to handle what slips through.
#[derive(Clone)]
pub struct Admission {
    pub(super) surroundings: Arc<Surroundings>,
    pub(super) request: Arc<AdmissionRequest>,
    pub(super) operation: Operation,
    pub(super) notes: Arc<Mutex<Notes>>,
}

/// What all calls of a webhook have in common.
pub(super) struct Surroundings {
    pub(super) reader: Reader,
    pub(super) client: Client,
    pub(super) world: World,
}

/// What a handler says beside its decision.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: BTreeMap<String, String>,
}

impl Admission {
    /// What the request does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Who sent the request.
    pub fn user(&self) -> &UserInfo {
        &self.request.user_info
    }

    /// Whether nothing will be stored. A handler that has effects elsewhere has none then.
    pub fn is_dry_run(&self) -> bool {
        self.request.dry_run == Some(true)
    }

    /// The request, as the API server describes it.
    pub fn request(&self) -> &AdmissionRequest {
        &self.request
    }

    /// Shows the user a warning, whatever is decided. One line of up to 256 characters.
    pub fn warn(&self, message: impl Into<String>) {
        self.notes.lock().warnings.push(message.into());
    }

    /// Has the API server record this in its audit log, under a key that it prefixes with the
    /// name of the webhook.
    pub fn audit(&self, key: impl Into<String>, value: impl Into<String>) {
        let mut notes = self.notes.lock();
        notes.audit_annotations.insert(key.into(), value.into());
    }

    /// The object under `key`, if the cache has it; of a kind that the webhook
    /// [`reads`](super::Webhook::reads).
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<Arc<K>> {
        self.surroundings.reader.get(key)
    }

    /// The cached objects of a kind that the webhook [`reads`](super::Webhook::reads).
    pub fn list<K: Typed>(&self) -> Listing<'static, K> {
        self.surroundings.reader.list()
    }

    /// Reads of the API server itself, past the cache. They take time from the request.
    pub fn live(&self) -> Live {
        self.surroundings.client.live()
    }

    /// The wall time.
    pub fn now(&self) -> Timestamp {
        self.clock().wall()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        self.surroundings.world.clock()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("uid", &self.request.uid)
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

/// A change of an object, as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<K> {
    /// An object is created.
    Create(K),
    /// An object is changed.
    Update {
        /// As it is.
        old: K,
        /// As it is to be.
        new: K,
    },
    /// An object is deleted.
    Delete(K),
}

impl<K> Change<K> {
    /// The object as it is; `None` for a creation.
    pub fn old(&self) -> Option<&K> {
        match self {
            Change::Create(_) => None,
            Change::Update { old, .. } | Change::Delete(old) => Some(old),
        }
    }

    /// The object as it is to be; `None` for a deletion.
    // The other half of `old`, and no constructor.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(&self) -> Option<&K> {
        match self {
            Change::Create(new) | Change::Update { new, .. } => Some(new),
            Change::Delete(_) => None,
        }
    }

    /// The object as it is to be, or the one that is deleted.
    pub fn object(&self) -> &K {
        match self {
            Change::Create(object) | Change::Delete(object) => object,
            Change::Update { new, .. } => new,
        }
    }
}
