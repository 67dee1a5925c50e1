//! Preconditions: which object a client means, by uid and resourceVersion.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go`: `BeforeDelete`
//! - `staging/src/k8s.io/apiserver/pkg/storage/interfaces.go`: `Check`

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use crate::request::delete_options::DeleteOptions;
use crate::state::call::Call;

/// Refuses a deletion that is meant for another object, or another version of it
/// (`BeforeDelete` in `k8s.io/apiserver/pkg/registry/rest/delete.go`).
pub(super) fn check(
    call: &Call<'_>,
    name: &str,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else {
        return Ok(());
    };
    let (kind, found) = (call.resource.group_kind(), Meta::new(object));
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != found.uid()) {
        return Err(Status::uid_precondition(&kind, name, uid, found.uid()));
    }
    if let Some(version) = wanted
        .resource_version
        .as_deref()
        .filter(|version| *version != found.resource_version())
    {
        return Err(Status::version_precondition(
            &kind,
            name,
            version,
            found.resource_version(),
        ));
    }
    Ok(())
}

/// The refusal of a write that is meant for another incarnation of the object.
pub(super) fn wrong_uid(call: &Call<'_>, wanted: &str, found: &str) -> Status {
    failed(call, "UID", wanted, found)
}

/// The refusal of a write to an object whose `member` is not the one that was meant
/// (`Preconditions.Check` in `k8s.io/apiserver/pkg/storage/interfaces.go`).
pub(super) fn failed(call: &Call<'_>, member: &str, wanted: &str, found: &str) -> Status {
    // Kubernetes tells where its store has the object, without the root if it would only try to write.
    let root = match call.request.query.first("dryRun") {
        Some(_) => "",
        None => "/registry",
    };
    let why = format_args!(
        "StorageError: invalid object, Code: 4, Key: {root}{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {member} in precondition: {wanted}, {member} in object meta: {found}",
        storage_key(call)
    );
    Status::conflict(&call.resource.group_resource(), call.name(), why)
}

/// The key that Kubernetes has for the object of the path: built-in kinds lie there without their group.
fn storage_key(call: &Call<'_>) -> String {
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
