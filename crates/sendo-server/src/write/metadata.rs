//! What the server itself sets in an object's metadata: its identity and its version.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/meta.go`: `WipeObjectMetaSystemFields`,
//!   `FillObjectMetaSystemFields`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/create.go`: `CheckGeneratedNameError`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go`: `BeforeUpdate`
//! - `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`: `Create`, `Update`

use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::{GroupKind, Meta, MetaMut, Status};
use sendo_store::Revision;
use serde_json::Value;

use crate::catalog::storage::time_text;
use crate::request::query;
use crate::state::call::Call;

/// The most characters of a prefix that a generated name keeps.
const PREFIX_LIMIT: usize = 58;
const SUFFIX_LENGTH: usize = 5;

/// What no creator says of an object.
const OF_A_DELETION: [&str; 3] = [
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Takes out of a body what only the server says of a new object
/// (`WipeObjectMetaSystemFields`), and its field managers.
pub(super) fn wipe(object: &mut Value) {
    let mut meta = MetaMut::new(object);
    for member in ["managedFields", "uid", "creationTimestamp"] {
        meta.remove(member);
    }
    for member in OF_A_DELETION {
        meta.remove(member);
    }
}

/// Whether a new object is to be given a name.
pub(super) fn draws_name(object: &Value) -> bool {
    let meta = Meta::new(object);
    meta.name().is_empty() && !meta.generate_name().is_empty()
}

/// Sets what every new object has: name, uid, time of creation, and nothing of a
/// deletion (`FillObjectMetaSystemFields`).
pub(super) fn fill(call: &Call<'_>, object: &mut Value) {
    let random = call.server.world.random();
    let draws = draws_name(object);
    let mut meta = MetaMut::new(object);
    for member in OF_A_DELETION {
        meta.remove(member);
    }
    meta.set_uid(&random.uuid());
    meta.set_creation_timestamp(&time_text(call.now()));
    if draws {
        let prefix = meta.view().generate_name();
        let kept = prefix
            .char_indices()
            .nth(PREFIX_LIMIT)
            .map_or(prefix.len(), |(at, _)| at);
        let name = [&prefix[..kept], &random.name_suffix(SUFFIX_LENGTH)].concat();
        meta.set_name(&name);
    }
}

/// The version that a new object says it has, which only a dry run passes: Kubernetes
/// refuses it where it stores the object.
pub(super) fn sent_version(object: &Value, is_dry_run: bool) -> Result<Revision, Status> {
    let version = Meta::new(object).resource_version().parse().unwrap_or(0);
    match version == 0 || is_dry_run {
        true => Ok(Revision(version)),
        false => Err(Status::unclassified(
            "resourceVersion should not be set on objects to be created",
        )),
    }
}

/// The refusal of a name that is taken; one whose object is going says so, and one
/// that was generated that another may be free.
pub(super) fn taken(call: &Call<'_>, object: &Value, stored: &[u8]) -> Status {
    let (meta, resource) = (Meta::new(object), call.resource.group_resource());
    if !meta.generate_name().is_empty() {
        return Status::no_free_name(&resource, meta.name());
    }
    let mut status = Status::already_exists(&resource, meta.name());
    let stored: Value = serde_json::from_slice(stored).unwrap_or_default();
    if Meta::new(&stored).deletion_timestamp().is_some() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Compares the version that a changed object was made from with the stored one.
///
/// One that names none is taken for made from the stored one, if its kind allows that.
pub(super) fn check_version(
    call: &Call<'_>,
    new: &mut Value,
    stored: Revision,
) -> Result<(), Status> {
    let version = match Meta::new(new).resource_version() {
        "" => 0,
        text => query::parse_uint(text).map_err(Status::unclassified)?,
    };
    let resource = call.resource.group_resource();
    if version == 0 {
        if !call.resource.rules.allow_unconditional_update {
            let path = Path::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            let named = GroupKind::new(resource.group, resource.resource);
            return Err(Status::invalid(&named, call.name(), &[error]));
        }
        MetaMut::new(new).set_resource_version(&stored.to_string());
    } else if Revision(version) != stored {
        return Err(Status::modified(&resource, call.name()));
    }
    Ok(())
}

/// Brings back what no writer changes, before a kind's rules run.
///
/// Returns the field managers: they tell what was written, whatever the rules
/// restore of the rest. [`restore`] puts them back.
pub(super) fn set_aside(new: &mut Value, old: &Value) -> Option<Value> {
    let mut meta = MetaMut::new(new);
    meta.remove("selfLink");
    copy(&mut meta, Meta::new(old), "generation");
    meta.remove("managedFields")
}

/// Brings back what no writer changes, after a kind's rules have run.
pub(super) fn restore(new: &mut Value, old: &Value, managers: Option<Value>) {
    let was = Meta::new(old);
    let mut meta = MetaMut::new(new);
    match managers {
        Some(managers) => meta.set("managedFields", managers),
        None => {
            meta.remove("managedFields");
        }
    }
    if meta.view().uid().is_empty() {
        copy(&mut meta, was, "uid");
    }
    copy(&mut meta, was, "creationTimestamp");
    if was.deletion_timestamp().is_some() {
        copy(&mut meta, was, "deletionTimestamp");
    }
    if meta.view().deletion_grace_period_seconds().is_none() {
        copy(&mut meta, was, "deletionGracePeriodSeconds");
    }
}

fn copy(meta: &mut MetaMut<'_>, was: Meta<'_>, member: &str) {
    match was.get(member) {
        Some(value) => meta.set(member, value.clone()),
        None => {
            meta.remove(member);
        }
    }
}
