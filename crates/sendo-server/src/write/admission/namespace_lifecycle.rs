//! Where objects may come and go: namespaces and kinds that are on their way out.

use sendo_apimachinery::status::Cause;
use sendo_apimachinery::{GroupResource, Meta, Status};

use super::lookup;
use crate::call::Call;
use crate::keys::Keys;

/// Namespaces that are always there.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// Priority classes that the cluster's own pods have.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Refuses a creation where nothing may be created: in a namespace that is
/// absent or on its way out, of a kind that is.
pub(super) async fn check(call: &Call<'_>, name: &str) -> Result<(), Status> {
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
    let keys = Keys::new("", "namespaces", false);
    let Some(object) = lookup::get(call, &keys, None, namespace).await? else {
        let namespaces = GroupResource::new("", "namespaces");
        return Err(Status::not_found(&namespaces, namespace));
    };
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
    let (kept, why): (&[&str], _) = match (&*resource.group, &*resource.resource) {
        ("", "namespaces") => (&IMMORTAL, "this namespace may not be deleted"),
        ("scheduling.k8s.io", "priorityclasses") => (
            &CRITICAL,
            "this is a system priority class and cannot be deleted",
        ),
        _ => return Ok(()),
    };
    if kept.contains(&name) {
        return Err(Status::forbidden(&resource, name, why));
    }
    Ok(())
}
