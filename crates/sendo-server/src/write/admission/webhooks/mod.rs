//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: programs outside of the server
//! decide about requests.
//!
//! The webhooks of all configurations are kept from the store's changes
//! ([`crate::state::admission::hooks`]), so that a configuration counts for the request after
//! it. [`matching`] decides which of them are called and in which version they are sent the
//! object, [`review`] writes the AdmissionReview and reads its answer, [`mutating`] calls one
//! after the other, [`validating`] all at once. Requests about webhook configurations and
//! admission policies call none, for otherwise nobody could repair them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go`: `Dispatch`, `ShouldCallHook`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go`: `IsExemptAdmissionConfigurationResource`

mod answer;
mod call;
mod mutating;
mod review;
mod validating;

use sendo_apimachinery::Status;
use serde_json::Value;

use super::expressions::Evaluator;
use super::matching::Version;
use super::versions::Versioned;
use super::{Attributes, Mutate, Plugin, expressions, matching};
use crate::state::admission::hooks::{Hook, Hooks};
use crate::state::admission::policies::Policies;
use crate::state::call::Call;

pub(super) const MUTATING_ADMISSION_WEBHOOK: Plugin = Plugin {
    name: "MutatingAdmissionWebhook",
    handles,
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutating::mutate(attributes, object))
    })),
    validate: None,
};

pub(super) const VALIDATING_ADMISSION_WEBHOOK: Plugin = Plugin {
    name: "ValidatingAdmissionWebhook",
    handles,
    mutate: None,
    validate: Some(|attributes, object, _| Box::pin(validating::validate(attributes, object))),
};

/// Kinds whose objects no webhook may keep from being repaired.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

fn handles(attributes: &Attributes<'_>) -> bool {
    let facts = &attributes.call.resource.facts;
    facts.group != "admissionregistration.k8s.io" || !EXEMPT.contains(&facts.kind.as_str())
}

/// The version in which a webhook is called; `None` if it is not.
async fn version_for(
    attributes: &Attributes<'_>,
    object: &Value,
    hook: &Hook,
    evaluator: &mut Evaluator<'_>,
) -> Result<Option<Version>, Status> {
    // A namespace that is not there matters to those only that would be called.
    let in_namespace = matching::matches_namespace(attributes, object, &hook.namespaces).await;
    let may_match = !matches!(in_namespace, Ok(false))
        && matching::matches_object(attributes, object, &hook.objects);
    let equivalents = hook.matches_equivalents;
    let version = match may_match {
        true => matching::find_rule(attributes, object, &hook.rules, equivalents),
        false => None,
    };
    let Some(version) = version else {
        return Ok(None);
    };
    in_namespace?;
    if hook.conditions.is_empty() {
        return Ok(Some(version));
    }
    let versioned = in_version(attributes, object, version).await?;
    let inputs = expressions::Inputs::of_webhook(attributes, &versioned);
    let ignores_failure = hook.ignores_failure;
    let inputs = inputs.with(&Value::Null, &Value::Null);
    let matched = evaluator.matches(inputs, None, &hook.conditions, ignores_failure);
    match matched.await {
        Ok(true) => Ok(Some(versioned.version)),
        Ok(false) => Ok(None),
        Err(why) => {
            let resource = attributes.call.resource.group_resource();
            Err(Status::forbidden(&resource, attributes.name(object), why))
        }
    }
}

/// The objects of a request in the version that a webhook is called with.
///
/// Where they cannot be converted the request is refused, whatever the webhook's failure policy.
async fn in_version(
    attributes: &Attributes<'_>,
    object: &Value,
    version: Version,
) -> Result<Versioned, Status> {
    let versioned = Versioned::new(attributes, object, version).await;
    versioned.map_err(Status::internal_error)
}

/// Whether webhooks or policies may see the objects of a request, which then must be whole.
pub(crate) async fn are_configured(call: &Call<'_>) -> Result<bool, Status> {
    let server = call.server;
    let none = server.hooks.read(Hooks::is_empty).await?
        && server.policies.read(Policies::is_empty).await?;
    Ok(!none)
}
