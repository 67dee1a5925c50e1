//! Changing an object: what PUT, PATCH and the subresources have in common.

use bytes::Bytes;
use http::StatusCode;
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::meta::{FinalizerNames, validate_create, validate_update};
use sendo_apimachinery::{GroupKind, Meta, MetaMut, Status};
use sendo_store::{Entry, Error, Revision, Transaction};
use serde_json::Value;

use crate::answer::Answer;
use crate::authorise;
use crate::call::{Call, backend};
use crate::crd;
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::query;
use crate::view::{self, Stored};
use crate::wire;
use crate::write::admission;
use crate::write::allocation::{self, Claims};
use crate::write::create;
use crate::write::field_managers;
use crate::write::owner_references;
use crate::write::strategy::Strategy;

/// Puts the object of the body in place of the stored one.
pub(crate) async fn update(call: &Call<'_>) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Update)?;
    let object = decode::object(call, &options)?;
    decode::check_name(call, &object)?;
    replace(call, object, Strategy::Main, &options).await
}

/// Puts a decoded object of the request's version in place of the stored one, which must be there.
pub(crate) async fn replace_existing(
    call: &Call<'_>,
    object: Value,
    strategy: Strategy,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let stored = put(call, object, strategy, options).await?;
    view::object(call, StatusCode::OK, &stored)
}

/// Puts a decoded object of the request's version in place of the stored one, or creates it where the kind allows that.
pub(crate) async fn replace(
    call: &Call<'_>,
    object: Value,
    strategy: Strategy,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let creates = call.resource.rules.create_on_update;
    let to_create = creates.then(|| object.clone());
    let changed = put(call, object, strategy, options).await;
    match (changed, to_create) {
        (Err(status), Some(mut object)) if status.code == 404 && is_absent(call).await? => {
            let uid = Meta::of(&object).uid();
            if !uid.is_empty() {
                return Err(wrong_uid(call, uid, ""));
            }
            MetaMut::of(&mut object).remove("resourceVersion");
            authorise::demand_create(call).await?;
            let stored = create::insert_as_sent(call, object, options).await?;
            view::object(call, StatusCode::CREATED, &stored)
        }
        (changed, _) => view::object(call, StatusCode::OK, &changed?),
    }
}

async fn put(
    call: &Call<'_>,
    object: Value,
    strategy: Strategy,
    options: &WriteOptions,
) -> Result<Stored, Status> {
    let mut new = decode::to_storage(call, object);
    decode::place(call, &mut new)?;
    let uid = Meta::of(&new).uid().to_owned();
    change(call, strategy, options, |old| {
        let found = Meta::of(old).uid();
        if !uid.is_empty() && uid != found {
            return Err(wrong_uid(call, &uid, found));
        }
        let mut new = new.clone();
        owner_references::dedup(call, &mut new);
        field_managers::update_stored(call, old, &mut new);
        Ok(new)
    })
    .await
}

/// The refusal of a write that is meant for another incarnation of the object.
pub(crate) fn wrong_uid(call: &Call<'_>, wanted: &str, found: &str) -> Status {
    failed_precondition(call, "UID", wanted, found)
}

/// The refusal of a write to an object whose `member` is not the one that was meant.
pub(crate) fn failed_precondition(
    call: &Call<'_>,
    member: &str,
    wanted: &str,
    found: &str,
) -> Status {
    // Kubernetes tells where its store has the object, without the root if it would only try to write.
    let root = match call.request.query.first("dryRun") {
        Some(_) => "",
        None => "/registry",
    };
    let why = format_args!(
        "StorageError: invalid object, Code: 4, Key: {root}{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {member} in precondition: {wanted}, {member} in object meta: {found}",
        foreign_key(call)
    );
    Status::conflict(&call.resource.group_resource(), call.name(), why)
}

/// The key that Kubernetes has for the object of the path: built-in kinds lie there without their group.
fn foreign_key(call: &Call<'_>) -> String {
    let facts = &call.resource.facts;
    let own = |group: &str| match group {
        "" => facts.plural.clone(),
        group => format!("{group}/{}", facts.plural),
    };
    let folder = match (facts.group.as_str(), facts.plural.as_str()) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group @ ("apiextensions.k8s.io" | "apiregistration.k8s.io"), _) => own(group),
        (group, _) if call.resource.custom.is_some() => own(group),
        _ => own(""),
    };
    match call.namespace() {
        Some(namespace) => format!("/{folder}/{namespace}/{}", call.name()),
        None => format!("/{folder}/{}", call.name()),
    }
}

/// Whether there is nothing under the name of the path.
pub(crate) async fn is_absent(call: &Call<'_>) -> Result<bool, Status> {
    let key = call.key(call.name())?;
    Ok(call.stored(&key).await?.is_none())
}

/// Changes the object that the path names.
///
/// `next` makes the new object of the old one, both in their storage version.
/// If somebody else writes meanwhile, it is asked again with what they left;
/// a resourceVersion in the new object then ends that with a conflict.
pub(crate) async fn change(
    call: &Call<'_>,
    strategy: Strategy,
    options: &WriteOptions,
    next: impl Fn(&Value) -> Result<Value, Status>,
) -> Result<Stored, Status> {
    loop {
        let entry = call.entry().await?;
        let old = call.decode(&entry);
        let mut new = next(&old)?;
        admission::confirm_update(call, &new, &old).await?;
        lock(call, &mut new, &entry)?;
        call.server.show(call.resource, &mut new);
        owner_references::dedup(call, &mut new);
        let mut claims = Claims::default();
        match strategy {
            Strategy::Main => {
                admission::admit_update(call, &mut new, &old).await?;
                claims = allocation::on_update(call, &mut new, &old).await?;
            }
            Strategy::Other(_) => admission::admit_through(call, &mut new).await?,
            Strategy::Status | Strategy::Unjudged => {}
        }
        let warnings = judge(call, strategy, &mut new, &old)?;
        match strategy {
            Strategy::Main => admission::validate_update(call, &new, &old).await?,
            Strategy::Other(_) => admission::validate_through(call, &new, &old).await?,
            Strategy::Status | Strategy::Unjudged => {}
        }
        let value = encode(call, &mut new, &old, &entry);
        for warning in warnings {
            call.request.warn(warning);
        }
        if value == entry.value {
            return Ok(Stored {
                value,
                at: entry.modified,
            });
        }
        if options.dry_run {
            return Ok(Stored {
                value,
                at: entry.modified,
            });
        }
        let gone = is_finished(&new, &old);
        let guarded = Transaction::new().unchanged(entry.key.clone(), entry.modified);
        let transaction = if gone {
            allocation::on_delete(call, &old).join(guarded.delete(entry.key.clone()))
        } else {
            claims.join(guarded.put(entry.key.clone(), value.clone()))
        };
        match call.server.store.commit(transaction).await {
            // What the last finalizer lets go was never stored in its last form.
            Ok(_) if gone => {
                return Ok(Stored {
                    value,
                    at: entry.modified,
                });
            }
            Ok(at) => return Ok(Stored { value, at }),
            Err(Error::Conflict { .. }) => {}
            Err(other) => return Err(backend(other)),
        }
    }
}

/// The bytes to store for the changed object.
///
/// A write that changes nothing but when its manager last wrote changes nothing.
fn encode(call: &Call<'_>, new: &mut Value, old: &Value, entry: &Entry) -> Bytes {
    let value = call.encode(new);
    let is_same = wire::differ_in_managers_only(&value, &entry.value)
        && field_managers::differ_in_time_only(new, old);
    if is_same { entry.value.clone() } else { value }
}

/// Compares the version that the new object was made from with the stored one.
fn lock(call: &Call<'_>, new: &mut Value, entry: &Entry) -> Result<(), Status> {
    let text = Meta::of(new).resource_version().to_owned();
    let version = match text.as_str() {
        "" => 0,
        text => query::parse_uint(text).map_err(Status::unclassified)?,
    };
    if version == 0 {
        if !call.resource.rules.allow_unconditional_update {
            let resource = call.resource.group_resource();
            let path = Path::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            let named = GroupKind::new(resource.group, resource.resource);
            return Err(Status::invalid(&named, call.name(), &[error]));
        }
        MetaMut::of(new).set_resource_version(&entry.modified.to_string());
    } else if Revision(version) != entry.modified {
        return Err(Status::modified(
            &call.resource.group_resource(),
            call.name(),
        ));
    }
    Ok(())
}

/// Restores what no writer may change, and refuses what is wrong with the rest.
fn judge(
    call: &Call<'_>,
    strategy: Strategy,
    new: &mut Value,
    old: &Value,
) -> Result<Vec<String>, Status> {
    let cx = call.cx();
    let was = Meta::of(old);
    let mut meta = MetaMut::of(new);
    meta.remove("selfLink");
    restore(&mut meta, was, "generation");
    let managers = meta.remove("managedFields");
    strategy.prepare(call.resource, &cx, new, old);

    let mut meta = MetaMut::of(new);
    // They tell what was written, whatever a door restores of the rest.
    match managers {
        Some(managers) => meta.set("managedFields", managers),
        None => {
            meta.remove("managedFields");
        }
    }
    if meta.view().uid().is_empty() {
        restore(&mut meta, was, "uid");
    }
    restore(&mut meta, was, "creationTimestamp");
    if was.deletion_timestamp().is_some() {
        restore(&mut meta, was, "deletionTimestamp");
    }
    if meta.view().deletion_grace_period_seconds().is_none() {
        restore(&mut meta, was, "deletionGracePeriodSeconds");
    }
    if let Strategy::Unjudged = strategy {
        return Ok(Vec::new());
    }
    let path = Path::new("metadata");
    let mut errors = validate_create(Meta::of(new), &call.resource.metadata_rules(), &path);
    errors.extend(validate_update(
        Meta::of(new),
        was,
        FinalizerNames::Any,
        &path,
    ));
    let verdict = strategy.validate(call.resource, &cx, new, old);
    errors.extend(verdict.errors);
    if call.resource.is_definition() {
        errors.extend(match strategy {
            Strategy::Main => crd::validate_update(new, old, &call.server.types),
            _ => crd::validate_status(new),
        });
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&call.kind_of(new), call.name(), &errors));
    }
    let tolerated = verdict.tolerated.iter().map(ToString::to_string);
    let own = match strategy {
        Strategy::Main => call.resource.warnings(new, Some(old)),
        _ => Vec::new(),
    };
    let warnings = tolerated.chain(own).collect();
    (call.resource.rules.canonicalize)(new);
    Ok(warnings)
}

fn restore(meta: &mut MetaMut<'_>, was: Meta<'_>, member: &str) {
    match was.get(member) {
        Some(value) => meta.set(member, value.clone()),
        None => {
            meta.remove(member);
        }
    }
}

/// Whether a change lets go of an object that waits for its deletion.
fn is_finished(new: &Value, old: &Value) -> bool {
    let waits = Meta::of(old).deletion_timestamp().is_some();
    let grace = Meta::of(old).deletion_grace_period_seconds().unwrap_or(0) == 0;
    let held = Meta::of(new).finalizers().next().is_some();
    let namespace_held = new["kind"] == "Namespace"
        && new["spec"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
    waits && grace && !held && !namespace_held
}
