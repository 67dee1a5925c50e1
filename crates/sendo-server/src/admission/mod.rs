//! What is decided about a write beyond its kind's own rules.
//!
//! Built-in steps stand here in their order; policies, webhooks and quota have
//! their place between them and the store.

mod pods;

use sendo_apimachinery::status::Cause;
use sendo_apimachinery::{GroupResource, Meta, Status};
use sendo_store::At;
use serde_json::Value;

use crate::call::{Call, backend};
use crate::keys::Keys;

/// Namespaces that are always there.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Completes a new object, or refuses it.
pub(crate) async fn admit_create(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    check_place(call, Meta::of(object).name()).await?;
    if call.resource.is_core("pods") {
        pods::complete(call, object).await?;
    }
    Ok(())
}

/// Completes an object that is written again.
pub(crate) fn admit_update(call: &Call<'_>, new: &mut Value, old: &Value) {
    if call.resource.is_core("pods") {
        pods::complete_again(new, old);
    }
}

/// Refuses a creation where nothing may be created: in a namespace that is
/// absent or on its way out, of a kind that is.
async fn check_place(call: &Call<'_>, name: &str) -> Result<(), Status> {
    if call
        .resource
        .custom
        .as_ref()
        .is_some_and(|custom| custom.terminating)
    {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(
            &call.resource.group_resource(),
            name,
            why,
        ));
    }
    let Some(namespace) = call.namespace() else {
        return Ok(());
    };
    let namespaces = GroupResource::new("", "namespaces");
    let key = Keys::new("", "namespaces", false).object(None, namespace);
    let found = call
        .server
        .store
        .get(&key, At::Latest)
        .await
        .map_err(backend)?;
    let entry = found
        .entry
        .ok_or_else(|| Status::not_found(&namespaces, namespace))?;
    let object: Value =
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
    if object["status"]["phase"] != "Terminating"
        && Meta::of(&object).deletion_timestamp().is_none()
    {
        return Ok(());
    }
    let why = format_args!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    Err(
        Status::forbidden(&call.resource.group_resource(), name, why).with_cause(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }),
    )
}

/// Refuses the deletion of what must stay.
pub(crate) fn admit_delete(call: &Call<'_>, name: &str) -> Result<(), Status> {
    let resource = call.resource.group_resource();
    if resource == GroupResource::new("", "namespaces") && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            &resource,
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}
