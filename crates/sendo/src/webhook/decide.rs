//! What a handler decides about a review, whatever its types are.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;

use super::admission::{Admission, Change};
use super::declaration::Phase;
use super::denied::Denied;
use super::handler::{Decision, Defaults, Reviews, Validates};
use super::operations::Operation;
use super::patch::{json_patch, overlay};
use super::review::AdmissionRequest;
use crate::object::{Kind, Typed, short_type_name};

/// A handler whose types are known only to itself.
pub(super) trait Decide: Send + Sync {
    /// The operations of a patch, which are none if the object is left as it is.
    fn decide<'a>(
        &'a self,
        request: &'a Arc<AdmissionRequest>,
        cx: Admission,
    ) -> BoxFuture<'a, Result<Vec<Value>, Refusal>>;
}

/// Why there is no decision to let the request pass.
pub(super) enum Refusal {
    /// The handler refused, or failed.
    Denied(Denied),
    /// The object is not what it should be: the user's fault.
    Unreadable(String),
    /// The webhook is not for this.
    NotDeclared(String),
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Refusal::Denied(denied)
    }
}

/// Completes objects of kind `K`.
pub(super) struct Defaulter<K, H> {
    handler: H,
    kind: PhantomData<fn() -> K>,
}

impl<K, H> Defaulter<K, H> {
    pub(super) fn new(handler: H) -> Self {
        Defaulter {
            handler,
            kind: PhantomData,
        }
    }
}

impl<K: Typed, H: Defaults<K>> Decide for Defaulter<K, H> {
    fn decide<'a>(
        &'a self,
        request: &'a Arc<AdmissionRequest>,
        cx: Admission,
    ) -> BoxFuture<'a, Result<Vec<Value>, Refusal>> {
        Box::pin(async move {
            check_kind::<K>(request)?;
            let sent = needed("object", request.object.as_deref())?;
            let mut object: K = read("object", sent)?;
            let before = written(&object)?;
            self.handler.set_defaults(&mut object, cx).await?;
            let after = written(&object)?;
            if before == after {
                return Ok(Vec::new());
            }
            let sent = request.object();
            Ok(json_patch(&sent, &overlay(&sent, &before, &after)))
        })
    }
}

/// Decides about changes of kind `K`.
pub(super) struct Validator<K, H> {
    handler: H,
    kind: PhantomData<fn() -> K>,
}

impl<K, H> Validator<K, H> {
    pub(super) fn new(handler: H) -> Self {
        Validator {
            handler,
            kind: PhantomData,
        }
    }
}

impl<K: Typed, H: Validates<K>> Decide for Validator<K, H> {
    fn decide<'a>(
        &'a self,
        request: &'a Arc<AdmissionRequest>,
        cx: Admission,
    ) -> BoxFuture<'a, Result<Vec<Value>, Refusal>> {
        Box::pin(async move {
            check_kind::<K>(request)?;
            let new = || read("object", needed("object", request.object.as_deref())?);
            let old = || {
                read(
                    "oldObject",
                    needed("oldObject", request.old_object.as_deref())?,
                )
            };
            let change = match cx.operation {
                Operation::Create => Change::Create(new()?),
                Operation::Update => Change::Update {
                    old: old()?,
                    new: new()?,
                },
                Operation::Delete => Change::Delete(old()?),
                Operation::Connect => {
                    let why = "a connection has no object that could be validated";
                    return Err(Refusal::NotDeclared(why.to_owned()));
                }
            };
            self.handler.validate(change, cx).await?;
            Ok(Vec::new())
        })
    }
}

/// Decides about requests as they are described.
pub(super) struct Reviewer<H> {
    phase: Phase,
    handler: H,
}

impl<H> Reviewer<H> {
    pub(super) fn new(phase: Phase, handler: H) -> Self {
        Reviewer { phase, handler }
    }
}

impl<H: Reviews> Decide for Reviewer<H> {
    fn decide<'a>(
        &'a self,
        request: &'a Arc<AdmissionRequest>,
        cx: Admission,
    ) -> BoxFuture<'a, Result<Vec<Value>, Refusal>> {
        Box::pin(async move {
            let changed = match self.handler.review(request.clone(), cx).await? {
                Decision::Allowed => return Ok(Vec::new()),
                Decision::Changed(changed) => changed,
            };
            let sent = request.object();
            if self.phase == Phase::Validating || sent.is_null() {
                let why = "the webhook changed what it can only allow or refuse";
                return Err(Denied::failed(why).into());
            }
            Ok(json_patch(&sent, &changed))
        })
    }
}

fn check_kind<K: Typed>(request: &AdmissionRequest) -> Result<(), Refusal> {
    let (own, sent) = (Kind::of::<K>(), &request.kind);
    if (&own.group, &own.version, &own.kind) == (&sent.group, &sent.version, &sent.kind) {
        return Ok(());
    }
    let sent_as = match sent.group.is_empty() {
        true => sent.version.clone(),
        false => format!("{}/{}", sent.group, sent.version),
    };
    Err(Refusal::NotDeclared(format!(
        "this webhook is for {} of {}, and was sent {} of {sent_as}",
        own.kind,
        own.api_version(),
        sent.kind,
    )))
}

fn needed<'a>(member: &str, object: Option<&'a RawValue>) -> Result<&'a RawValue, Refusal> {
    let missing = || Refusal::NotDeclared(format!("the review has no `{member}`"));
    object.ok_or_else(missing)
}

fn read<K: Typed>(member: &str, object: &RawValue) -> Result<K, Refusal> {
    serde_json::from_str(object.get()).map_err(|error| {
        let name = short_type_name::<K>();
        Refusal::Unreadable(format!("`{member}` cannot be read as {name}: {error}"))
    })
}

fn written<K: Typed>(object: &K) -> Result<Value, Refusal> {
    serde_json::to_value(object).map_err(|error| Refusal::Denied(error.into()))
}
