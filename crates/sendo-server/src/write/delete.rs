//! DELETE: deleting an object at once, gracefully, or when its finalizers let go.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go`: `DeleteResource`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go`: `BeforeDelete`
//! - `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`: `Delete`,
//!   `deletionFinalizersForGarbageCollection`, `ShouldDeleteDuringUpdate`
//! - `pkg/registry/core/namespace/storage/storage.go`: `Delete`
//! - `pkg/registry/scheduling/priorityclass/storage/storage.go`: `Delete`

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use sendo_apimachinery::status::{self, Details};
use sendo_apimachinery::{Meta, MetaMut, Status};
use sendo_store::{Entry, Error, Revision, Transaction};
use serde_json::Value;

use super::Writer;
use super::allocation;
use crate::catalog::custom::deletion;
use crate::catalog::storage::{backend, time_text};
use crate::kinds::Dependents;
use crate::read::answer::ApiResponse;
use crate::read::view::{self, Stored};
use crate::request::delete_options::DeleteOptions;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::decode;

/// The finalizer that keeps an owner until its dependents are without it.
const ORPHAN: &str = "orphan";
/// The finalizer that keeps an owner until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a deletion: those of the body; without one, those of the query.
pub(crate) fn read_options(call: &Call<'_>) -> Result<DeleteOptions, Status> {
    let options = match decode::delete_options(call)? {
        Some(body) => {
            serde_json::from_value(body).map_err(|error| Status::bad_request(error.to_string()))?
        }
        None => DeleteOptions::from_query(&call.request.query)?,
    };
    options.check()?;
    Ok(options)
}

/// What came of a deletion.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The object is gone; this was its last state.
    Gone(Stored),
    /// The object stays until its grace has passed and its finalizers let go.
    Pending(Stored),
    /// The object was on its way out already, and nothing changed.
    Unchanged(Stored),
}

/// Deletes the object that the path names.
pub(crate) async fn delete(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = read_options(call)?;
    check_system_priority_class(call)?;
    if let Dependents::OrphanedWithWarning(text) = call.resource.rules.dependents
        && options.propagation_policy.is_none()
        && options.orphan_dependents.is_none()
    {
        call.request.warn(text);
    }
    let outcome = super::remove(call, call.name(), &options, Writer::Client).await?;
    let returns_object = call.resource.facts.returns_deleted;
    match outcome {
        Outcome::Gone(stored) if returns_object => view::saved(call, StatusCode::OK, stored).await,
        Outcome::Gone(stored) => Ok(done(call, &stored)),
        Outcome::Pending(stored) => {
            let accepted = options.orphan_dependents == Some(false);
            let code = if accepted {
                StatusCode::ACCEPTED
            } else {
                StatusCode::OK
            };
            view::saved(call, code, stored).await
        }
        Outcome::Unchanged(stored) if returns_object => {
            view::saved(call, StatusCode::OK, stored).await
        }
        Outcome::Unchanged(stored) => Ok(done(call, &stored)),
    }
}

/// Refuses the deletion of the classes that the cluster's own pods have
/// (`pkg/registry/scheduling/priorityclass/storage/storage.go`).
fn check_system_priority_class(call: &Call<'_>) -> Result<(), Status> {
    const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
    let resource = call.resource.group_resource();
    let is_class =
        (&*resource.group, &*resource.resource) == ("scheduling.k8s.io", "priorityclasses");
    if is_class && CRITICAL.contains(&call.name()) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(&resource, call.name(), why));
    }
    Ok(())
}

/// The Status of a deletion that succeeded.
fn done(call: &Call<'_>, stored: &Stored) -> ApiResponse {
    let object: Value =
        serde_json::from_slice(&stored.value).expect("stored objects are JSON of ours");
    ApiResponse::document(&status::success(&Details {
        name: Meta::new(&object).name().to_owned(),
        group: call.resource.facts.group.clone(),
        kind: call.resource.facts.plural.clone(),
        uid: Meta::new(&object).uid().to_owned(),
        ..Details::default()
    }))
}

/// What a deletion does next to a stored object.
pub(super) enum Step {
    /// Take it away.
    Delete,
    /// Mark it; it stays.
    Mark(Value),
    /// Mark it, then take it away: who watches sees both.
    MarkAndDelete(Value),
    /// Leave it as it is, it is on its way.
    Leave,
}

/// Writes what a deletion does, and what else is claimed with it. `None` if somebody else was
/// faster.
pub(super) async fn commit(
    call: &Call<'_>,
    entry: &Entry,
    step: Step,
    claims: Claims,
    options: &DeleteOptions,
) -> Result<Option<Outcome>, Status> {
    let guarded = |at: Revision| Transaction::new().unchanged(entry.key.clone(), at);
    let stored = |value: &Bytes, at: Revision| Stored {
        value: value.clone(),
        at,
    };
    let committed = match step {
        Step::Leave => {
            return Ok(Some(Outcome::Unchanged(stored(
                &entry.value,
                entry.modified,
            ))));
        }
        Step::Delete if options.is_dry_run() => {
            return Ok(Some(Outcome::Gone(stored(&entry.value, entry.modified))));
        }
        Step::Delete => {
            let freed = allocation::on_delete(call, &call.decode(entry));
            let delete = guarded(entry.modified).delete(entry.key.clone());
            let at = submit(call, claims.join(freed.join(delete))).await?;
            at.map(|at| Outcome::Gone(stored(&entry.value, at)))
        }
        Step::Mark(mut object) => {
            let value = call.encode(&mut object).await?;
            if options.is_dry_run() || value == entry.value {
                return Ok(Some(Outcome::Pending(stored(&value, entry.modified))));
            }
            let put = guarded(entry.modified).put(entry.key.clone(), value.clone());
            let at = submit(call, claims.join(put)).await?;
            at.map(|at| Outcome::Pending(stored(&value, at)))
        }
        Step::MarkAndDelete(mut object) => {
            let value = call.encode(&mut object).await?;
            if options.is_dry_run() {
                return Ok(Some(Outcome::Gone(stored(&value, entry.modified))));
            }
            // At once: between the two, the node would find the mark and delete the pod
            // itself, and a process that ends there would leave the mark alone. Kubernetes
            // commits twice and takes it for success if the pod has gone meanwhile
            // (apiserver v1.36, registry/generic/registry/store.go, `ignoreNotFound`);
            // one that had gone before it was marked is not found, there and here.
            let put = guarded(entry.modified).put(entry.key.clone(), value.clone());
            let freed = allocation::on_delete(call, &object);
            let delete = freed.join(Transaction::new().delete(entry.key.clone()));
            let at = submit(call, claims.join(put).then(delete)).await?;
            at.map(|at| Outcome::Gone(stored(&value, at)))
        }
    };
    Ok(committed)
}

/// Commits a transaction; `None` if what it rests on is not as it was.
async fn submit(call: &Call<'_>, transaction: Transaction) -> Result<Option<Revision>, Status> {
    match call.server.store.commit(transaction).await {
        Ok(at) => Ok(Some(at)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(backend(other)),
    }
}

/// The options that are in force, which admission sees: how long the object has to go is
/// decided by then (`BeforeDelete`).
pub(super) fn effective<'o>(
    call: &Call<'_>,
    object: &Value,
    options: &'o DeleteOptions,
) -> Cow<'o, DeleteOptions> {
    match grace(call, object, options) {
        Grace::Begins(seconds) => Cow::Owned(DeleteOptions {
            grace_period_seconds: Some(seconds),
            ..options.clone()
        }),
        Grace::None | Grace::Shortened { .. } | Grace::Pending => Cow::Borrowed(options),
    }
}

/// Whether a graceful deletion is under way that this one leaves as it is.
pub(super) fn is_pending(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> bool {
    matches!(grace(call, object, options), Grace::Pending)
}

/// Decides what a deletion does to a stored object.
pub(super) fn step(call: &Call<'_>, mut object: Value, options: &DeleteOptions) -> Step {
    if call.resource.is_core("namespaces") {
        return namespace_step(call, object, options);
    }
    let now = call.now();
    if call.resource.is_definition() && Meta::new(&object).deletion_timestamp().is_none() {
        deletion::mark(&mut object, &time_text(now));
        return Step::Mark(object);
    }
    match grace(call, &object, options) {
        Grace::Pending => return Step::Leave,
        Grace::Shortened { until, seconds } => {
            let mut meta = MetaMut::new(&mut object);
            meta.set_deletion_timestamp(&time_text(until));
            meta.set("deletionGracePeriodSeconds", seconds);
            set_finalizers(call, &mut object, options);
            return mark(object, seconds);
        }
        Grace::Begins(seconds) => {
            let until = now + std::time::Duration::from_secs(seconds.unsigned_abs());
            let mut meta = MetaMut::new(&mut object);
            meta.set_deletion_timestamp(&time_text(until));
            meta.set("deletionGracePeriodSeconds", seconds);
            raise_generation(&mut meta);
            set_finalizers(call, &mut object, options);
            return mark(object, seconds);
        }
        Grace::None => {}
    }
    set_finalizers(call, &mut object, options);
    if Meta::new(&object).finalizers().next().is_none() {
        return Step::Delete;
    }
    mark_now(&mut object, now);
    Step::Mark(object)
}

fn mark(object: Value, seconds: i64) -> Step {
    let held = Meta::new(&object).finalizers().next().is_some();
    if seconds > 0 || held {
        Step::Mark(object)
    } else {
        Step::MarkAndDelete(object)
    }
}

/// Marks an object that goes as soon as its finalizers let go.
fn mark_now(object: &mut Value, now: Timestamp) {
    let mut meta = MetaMut::new(object);
    if meta.view().deletion_grace_period_seconds().is_none() {
        raise_generation(&mut meta);
    }
    let later = meta
        .view()
        .deletion_timestamp()
        .and_then(|text| text.parse::<Timestamp>().ok());
    if later.is_none_or(|later| later > now) {
        meta.set_deletion_timestamp(&time_text(now));
    }
    meta.set("deletionGracePeriodSeconds", 0);
}

/// The first step of a deletion changes what the object is to become.
fn raise_generation(meta: &mut MetaMut<'_>) {
    let generation = meta.view().generation();
    if generation > 0 {
        meta.set_generation(generation + 1);
    }
}

/// How gracefully an object goes.
enum Grace {
    /// Its kind knows no grace, or the deletion that began set none.
    None,
    /// It begins now, with so many seconds.
    Begins(i64),
    /// It has begun and is made shorter.
    Shortened { until: Timestamp, seconds: i64 },
    /// It has begun and stays as it is.
    Pending,
}

fn grace(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> Grace {
    let Some(period) = call.resource.rules.grace_period else {
        return Grace::None;
    };
    let meta = Meta::new(object);
    let Some(deletion) = meta.deletion_timestamp() else {
        return Grace::Begins(period(object, options.grace_period_seconds));
    };
    let Some(left) = meta.deletion_grace_period_seconds() else {
        return Grace::None;
    };
    match (options.grace_period_seconds, deletion.parse::<Timestamp>()) {
        (Some(seconds), Ok(until)) if seconds < left => {
            let began = until - std::time::Duration::from_secs(left.unsigned_abs());
            Grace::Shortened {
                until: began + std::time::Duration::from_secs(seconds.max(0).unsigned_abs()),
                seconds,
            }
        }
        _ => Grace::Pending,
    }
}

/// Puts the finalizer on that the options ask for, and takes off the one they do not.
fn set_finalizers(call: &Call<'_>, object: &mut Value, options: &DeleteOptions) {
    let meta = Meta::new(object);
    let has = |finalizer| meta.finalizers().any(|own| own == finalizer);
    let by_default = if has(ORPHAN) {
        Some(ORPHAN)
    } else if has(FOREGROUND) {
        Some(FOREGROUND)
    } else if call.resource.rules.dependents == Dependents::Collected {
        None
    } else {
        Some(ORPHAN)
    };
    let wanted = match (
        options.orphan_dependents,
        options.propagation_policy.as_deref(),
    ) {
        (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
        (Some(false), _) | (None, Some("Background")) => None,
        (None, Some("Foreground")) => Some(FOREGROUND),
        _ => by_default,
    };
    if [ORPHAN, FOREGROUND]
        .iter()
        .all(|own| has(own) == (wanted == Some(*own)))
    {
        return;
    }
    let others = meta
        .finalizers()
        .filter(|own| ![ORPHAN, FOREGROUND].contains(own))
        .map(str::to_owned);
    let finalizers: Vec<String> = others.chain(wanted.map(str::to_owned)).collect();
    MetaMut::new(object).set_finalizers(finalizers);
}

/// A namespace first ends its contents: its own finalizers in the spec keep it.
fn namespace_step(call: &Call<'_>, mut object: Value, options: &DeleteOptions) -> Step {
    let now = call.now();
    if Meta::new(&object).deletion_timestamp().is_none() {
        set_finalizers(call, &mut object, options);
        MetaMut::new(&mut object).set_deletion_timestamp(&time_text(now));
        object["status"]["phase"] = "Terminating".into();
        return Step::Mark(object);
    }
    if object["spec"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
    {
        return Step::Mark(object);
    }
    set_finalizers(call, &mut object, options);
    if Meta::new(&object).finalizers().next().is_none() {
        return Step::Delete;
    }
    mark_now(&mut object, now);
    Step::Mark(object)
}

/// Whether a change lets go of an object that waits for its deletion
/// (`ShouldDeleteDuringUpdate`).
pub(super) fn is_finished(new: &Value, old: &Value) -> bool {
    let waits = Meta::new(old).deletion_timestamp().is_some();
    let grace = Meta::new(old).deletion_grace_period_seconds().unwrap_or(0) == 0;
    let held = Meta::new(new).finalizers().next().is_some();
    let namespace_held = new["kind"] == "Namespace"
        && new["spec"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
    waits && grace && !held && !namespace_held
}
