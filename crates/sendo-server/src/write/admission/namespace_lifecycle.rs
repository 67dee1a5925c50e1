//! NamespaceLifecycle: nothing is created in a namespace that is absent or being
//! deleted, and some namespaces cannot be deleted.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`:
//!   `Admit`

use sendo_apimachinery::status::Cause;
use sendo_apimachinery::{GroupResource, Meta, Status};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;

pub(super) const NAMESPACE_LIFECYCLE: Plugin = Plugin {
    name: "NamespaceLifecycle",
    handles,
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutate(attributes, object))
    })),
    validate: None,
};

/// Namespaces that are always there.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

fn handles(attributes: &Attributes<'_>) -> bool {
    match attributes.operation {
        // To ask what one may do in a namespace must not tell whether it is there.
        Operation::Create => {
            let review = ("authorization.k8s.io", "localsubjectaccessreviews", "");
            attributes.call.namespace().is_some() && !attributes.is_of(review.0, review.1, review.2)
        }
        Operation::Delete => attributes.is_of("", "namespaces", ""),
        Operation::Update | Operation::Connect => false,
    }
}

async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let call = attributes.call;
    if attributes.operation == Operation::Delete {
        return match IMMORTAL.contains(&call.name()) {
            true => Err(attributes.forbid(object, "this namespace may not be deleted")),
            false => Ok(()),
        };
    }
    let name = call.namespace().unwrap_or_default();
    let keys = Keys::new("", "namespaces", false);
    let Some(namespace) = lookup::get(call, &keys, None, name).await? else {
        let namespaces = GroupResource::new("", "namespaces");
        return Err(Status::not_found(&namespaces, name));
    };
    if namespace["status"]["phase"] != "Terminating"
        && Meta::new(&namespace).deletion_timestamp().is_none()
    {
        return Ok(());
    }
    let why = format_args!(
        "unable to create new content in namespace {name} because it is being terminated"
    );
    Err(attributes.forbid(object, why).with_cause(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".to_owned(),
    }))
}
