//! MutatingAdmissionPolicy and ValidatingAdmissionPolicy: expressions decide about requests.
//!
//! The policies with their bindings are kept, compiled, from the store's changes
//! ([`crate::state::admission::policies`]), so that a binding counts for the request after it.
//! [`matching`] decides which of them a request concerns and in which version they see its
//! objects, [`parameters`] finds what a binding evaluates its policy with, [`mutating`] changes
//! the object, [`validating`] decides. Requests about policies and bindings concern none, for
//! otherwise nobody could repair them, and neither do reviews, which keep nothing.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go`: `Dispatch`
//! - `pkg/kubeapiserver/admission/exclusion/resources.go`: `Excluded`

mod matching;
mod mutating;
mod parameters;
mod patch;
mod validating;
mod validator;

use std::sync::Arc;

use sendo_apimachinery::Status;
use serde_json::{Map, Value};

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use sendo_apimachinery::GroupResource;

pub(super) const MUTATING_ADMISSION_POLICY: Plugin = Plugin {
    name: "MutatingAdmissionPolicy",
    // A deletion has no object that could be changed.
    handles: |attributes| attributes.operation != Operation::Delete && handles(attributes),
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutating::mutate(attributes, object))
    })),
    validate: None,
};

pub(super) const VALIDATING_ADMISSION_POLICY: Plugin = Plugin {
    name: "ValidatingAdmissionPolicy",
    handles,
    mutate: None,
    validate: Some(|attributes, object, _| Box::pin(validating::validate(attributes, object))),
};

/// Resources that no policy is about.
const EXEMPT: [(&str, &str); 10] = [
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
    ),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

fn handles(attributes: &Attributes<'_>) -> bool {
    let facts = &attributes.call.resource.facts;
    let own = (facts.group.as_str(), facts.plural.as_str());
    !EXEMPT.contains(&own)
}

/// What a policy could not be evaluated for, because of itself or of a binding.
#[derive(Debug)]
enum ConfigurationFault {
    Policy(String),
    Binding(String),
}

impl ConfigurationFault {
    fn message(&self) -> String {
        match self {
            ConfigurationFault::Policy(why) => format!("failed to configure policy: {why}"),
            ConfigurationFault::Binding(why) => format!("failed to configure binding: {why}"),
        }
    }
}

/// The members of a namespace's metadata that expressions see.
const NAMESPACE_METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

/// The namespace of a request, as expressions see it. Null for what is in none, and for a
/// namespace itself.
async fn namespace_object(attributes: &Attributes<'_>, object: &Value) -> Result<Value, Status> {
    let name = attributes.namespace(object);
    if name.is_empty() || attributes.kind_in(attributes.call.resource).kind == "Namespace" {
        return Ok(Value::Null);
    }
    let keys = Keys::new("", "namespaces", false);
    let found: Option<Arc<Value>> = lookup::get(attributes.call, &keys, None, name).await?;
    let Some(found) = found else {
        let resource = GroupResource::new("", "namespaces");
        return Err(Status::not_found(&resource, name));
    };
    let known = |of: &Value| {
        let members = of.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| NAMESPACE_METADATA.contains(&name.as_str()));
        Value::Object(
            members
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    };
    let mut shown = Map::new();
    shown.insert("metadata".to_owned(), known(&found["metadata"]));
    for part in ["spec", "status"] {
        let part_of = found.get(part).cloned();
        shown.insert(
            part.to_owned(),
            part_of.unwrap_or_else(|| Value::Object(Map::new())),
        );
    }
    Ok(Value::Object(shown))
}
