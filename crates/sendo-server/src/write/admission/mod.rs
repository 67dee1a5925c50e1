//! What is decided about a write beyond its kind's own rules.
//!
//! A write passes twice. First it is completed, step by step in the order of
//! Kubernetes' own; mutating policies and webhooks come last there. Then, once
//! its kind's rules have found nothing wrong with it, it is judged by what else
//! the cluster holds; validating policies, webhooks and quota come last there.

mod certificates;
mod default_classes;
mod default_toleration_seconds;
mod identity;
mod limit_ranger;
mod lookup;
mod namespace_lifecycle;
mod pod_resize;
mod pod_topology_labels;
mod priority;
mod runtime_class;
mod service_account;
mod storage;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use crate::call::Call;
use crate::rbac::grants;

pub(crate) use namespace_lifecycle::admit_delete;

/// Completes a new object, or refuses it.
pub(crate) async fn admit_create(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    namespace_lifecycle::check(call, Meta::of(object).name()).await?;
    match resource_of(call) {
        // What is no pod at all, validation tells.
        ("", "pods") if object["spec"].is_object() => {
            limit_ranger::admit_pod(call, object).await?;
            service_account::admit(call, object).await?;
            priority::admit(call, object).await?;
            default_toleration_seconds::admit(object);
            runtime_class::admit(call, object).await?;
            pod_topology_labels::admit(call, object).await?;
        }
        ("", "persistentvolumeclaims") => {
            default_classes::default_storage_class(call, object).await?;
            storage::protect(call, object, storage::CLAIM);
        }
        ("", "persistentvolumes") => storage::protect(call, object, storage::VOLUME),
        ("certificates.k8s.io", "certificatesigningrequests") => identity::admit(call, object),
        ("networking.k8s.io", "ingresses") => {
            default_classes::default_ingress_class(call, object).await?;
        }
        _ => {}
    }
    grants::confirm_create(call, object).await
}

/// Refuses a change that its writer may not make, though they may write the object.
pub(crate) async fn confirm_update(
    call: &Call<'_>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    if resource_of(call) == ("certificates.k8s.io", "certificatesigningrequests") {
        certificates::confirm_update(call, new, old).await?;
    }
    grants::confirm_update(call, new, old).await
}

/// Completes an object that is written again.
pub(crate) async fn admit_update(
    call: &Call<'_>,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    if resource_of(call) == ("", "pods") && new["spec"].is_object() {
        priority::admit_again(new, old);
        default_toleration_seconds::admit(new);
        pod_topology_labels::admit(call, new).await?;
    }
    Ok(())
}

/// Completes an object that is written through a subresource with rules of its own.
pub(crate) async fn admit_through(call: &Call<'_>, new: &mut Value) -> Result<(), Status> {
    if is_resize(call) && new["spec"].is_object() {
        limit_ranger::admit_pod(call, new).await?;
    }
    Ok(())
}

/// Judges what came of that, once the rules of the subresource have passed it.
pub(crate) async fn validate_through(
    call: &Call<'_>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    if is_resize(call) {
        limit_ranger::validate_pod(call, new).await?;
        pod_resize::validate(call, new, old).await?;
    }
    Ok(())
}

fn is_resize(call: &Call<'_>) -> bool {
    resource_of(call) == ("", "pods") && call.path.subresource.as_deref() == Some("resize")
}

/// Judges a new object that its kind's rules have passed.
pub(crate) async fn validate_create(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    match resource_of(call) {
        ("", "pods") => {
            limit_ranger::validate_pod(call, object).await?;
            runtime_class::validate(call, object).await
        }
        ("", "persistentvolumeclaims") => limit_ranger::validate_claim(call, object).await,
        ("scheduling.k8s.io", "priorityclasses") => priority::validate_class(call, object).await,
        _ => Ok(()),
    }
}

/// Judges a changed object that its kind's rules have passed.
pub(crate) async fn validate_update(
    call: &Call<'_>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    match resource_of(call) {
        ("", "persistentvolumeclaims") => {
            if Meta::of(old).deletion_timestamp().is_none() {
                limit_ranger::validate_claim(call, new).await?;
            }
            storage::validate_resize(call, new, old).await
        }
        ("scheduling.k8s.io", "priorityclasses") => priority::validate_class(call, new).await,
        _ => Ok(()),
    }
}

fn resource_of<'a>(call: &Call<'a>) -> (&'a str, &'a str) {
    if call.resource.custom.is_some() {
        return ("", "");
    }
    (&call.resource.facts.group, &call.resource.facts.plural)
}

/// The refusal of an object for a reason outside of it.
fn forbid(call: &Call<'_>, object: &Value, why: impl std::fmt::Display) -> Status {
    Status::forbidden(
        &call.resource.group_resource(),
        Meta::of(object).name(),
        why,
    )
}
