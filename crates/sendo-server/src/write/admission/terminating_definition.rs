//! No custom resource is created while its definition is being deleted.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`:
//!   `forbidCreateAdmission`

use super::{Attributes, Mutate, Operation, Plugin};

pub(super) const FORBID_CREATE: Plugin = Plugin {
    name: "forbidCreateAdmission",
    handles: is_terminating,
    mutate: Some(Mutate::Now(|attributes, object| {
        let why = "create not allowed while custom resource definition is terminating";
        Err(attributes.forbid(object, why))
    })),
    validate: None,
};

fn is_terminating(attributes: &Attributes<'_>) -> bool {
    let custom = attributes.call.resource.custom.as_ref();
    attributes.operation == Operation::Create && custom.is_some_and(|custom| custom.terminating)
}
