//! Deletion, and what comes of it.

use std::future::IntoFuture;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use kube::core::Status;
use serde::Serialize;
use serde_json::value::RawValue;

use super::kind::KindClient;
use crate::object::{Object, ObjectExt, ObjectKey, Uid};
use crate::transport::{Error, Request};

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Done,
    /// The object is marked: finalizers or a grace period keep it for now.
    Begun,
    /// It was not there, or another object has its name.
    NotThere,
}

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They are collected afterwards.
    Background,
    /// They are collected first; the object waits for it.
    Foreground,
    /// They stay.
    Orphan,
}

/// A deletion to be sent with `.await`.
///
/// By default it has the uid of the object it was made with as its condition,
/// and the server's own choice of grace period and propagation.
#[must_use = "a deletion is sent when it is awaited"]
pub struct Delete<K> {
    client: KindClient<K>,
    key: ObjectKey,
    seen_at: u64,
    options: Options,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
    #[serde(skip_serializing_if = "Preconditions::is_empty")]
    preconditions: Preconditions,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

impl Preconditions {
    fn is_empty(&self) -> bool {
        self.uid.is_none() && self.resource_version.is_none()
    }
}

impl<K: Object> Delete<K> {
    pub(super) fn new(
        client: KindClient<K>,
        key: ObjectKey,
        uid: Option<Uid>,
        seen_at: u64,
    ) -> Self {
        let preconditions = Preconditions {
            uid: uid.map(|uid| uid.to_string()),
            resource_version: None,
        };
        Delete {
            client,
            key,
            seen_at,
            options: Options {
                api_version: "v1",
                kind: "DeleteOptions",
                grace_period_seconds: None,
                propagation_policy: None,
                preconditions,
            },
        }
    }

    /// Gives the object this many seconds to end; 0 takes it away at once.
    pub fn grace_period(mut self, seconds: u32) -> Self {
        self.options.grace_period_seconds = Some(seconds);
        self
    }

    /// Chooses what becomes of the objects it owns.
    pub fn propagation(mut self, policy: Propagation) -> Self {
        self.options.propagation_policy = Some(policy);
        self
    }

    /// Deletes the object only if it has not changed since this version, and
    /// fails with a conflict if it has.
    pub fn if_unchanged_since(mut self, version: u64) -> Self {
        self.options.preconditions.resource_version = Some(version.to_string());
        self
    }

    async fn send(self) -> Result<Deletion, Error> {
        let path = self.client.object_path(&self.key)?;
        let request = self
            .client
            .write(Method::DELETE, path)
            .json(&self.options)?;
        let uid = self.options.preconditions.uid.as_deref().map(Uid::from);
        match self.client.transport().send(&request).await {
            Ok(answer) => self.settle(&request, &answer, uid),
            Err(error) => {
                if !self.is_gone_after(&error).await {
                    return Err(error);
                }
                self.hide(uid, self.seen_at);
                Ok(Deletion::NotThere)
            }
        }
    }

    /// Whether the object meant is no more. A conflict may have come from its uid
    /// or from anything else: what the server's words leave open, a look decides.
    async fn is_gone_after(&self, error: &Error) -> bool {
        let conditions = &self.options.preconditions;
        let uid = conditions.uid.as_deref().map(Uid::from);
        if error.is_not_found() {
            return true;
        }
        let Some(uid) = uid.filter(|_| conditions.resource_version.is_none()) else {
            return false;
        };
        if !error.is_conflict() || error.means_gone() {
            return error.means_gone();
        }
        // Without the right to look, the conflict is all that is known.
        let found = self.client.live_get(&self.key).await;
        found.is_ok_and(|found| found.is_none_or(|object| object.uid() != uid))
    }

    /// The answer is the object if it stays for a while, and for some kinds also
    /// if it does not; a Status else.
    fn settle(
        &self,
        request: &Request,
        answer: &Bytes,
        uid: Option<Uid>,
    ) -> Result<Deletion, Error> {
        #[derive(serde::Deserialize)]
        struct Named<'a> {
            kind: Option<&'a str>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        let named: Named<'_> =
            serde_json::from_slice(answer).map_err(|cause| request.codec_error(&cause))?;
        // A kind of one's own may be called Status; its status is then no text.
        let is_status = named.kind == Some("Status")
            && named
                .status
                .is_some_and(|status| status.get().starts_with('"'));
        if is_status {
            let status: Status =
                serde_json::from_slice(answer).map_err(|cause| request.codec_error(&cause))?;
            let named = status.details.map(|details| details.uid);
            let named = named.filter(|uid| !uid.is_empty());
            self.hide(uid.or(named.as_deref().map(Uid::from)), self.seen_at);
            return Ok(Deletion::Done);
        }
        let object: K =
            serde_json::from_slice(answer).map_err(|cause| request.codec_error(&cause))?;
        if object.is_being_deleted() && !is_gone(&object) {
            self.client.show(answer, &object);
            return Ok(Deletion::Begun);
        }
        self.hide(Some(object.uid()), object.version().max(self.seen_at));
        Ok(Deletion::Done)
    }

    fn hide(&self, uid: Option<Uid>, since: u64) {
        if let Some(uid) = uid {
            self.client.hide(&self.key, &uid, since);
        }
    }
}

impl<K: Object> IntoFuture for Delete<K> {
    type Output = Result<Deletion, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<K> std::fmt::Debug for Delete<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delete")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Whether an object as answered to a write is one that this write has ended:
/// marked for deletion, with nothing left that keeps it.
pub(super) fn is_gone<K: Object>(object: &K) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds == Some(0)
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
}
