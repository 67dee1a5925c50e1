//! Calls one webhook about a request.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go`: `callAttrMutatingHook`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go`: `callHook`
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/error.go`: `ErrCallingWebhook`

use bytes::Bytes;
use sendo_apimachinery::{LabelSelector, Meta, Status, go_quote};
use sendo_world::Moment;
use serde_json::Value;

use super::super::versions::Versioned;
use super::super::{Attributes, Operation, lookup};
use super::answer::{self, AdmissionResponse, HookType};
use super::review;
use crate::catalog::keys::Keys;
use crate::metrics::admission::WebhookResult;
use crate::state::admission::hooks::Hook;
use crate::webhook::CallError;

/// Why a request does not pass a webhook.
#[derive(Debug)]
pub(super) enum Failure {
    /// The webhook could not be asked, or gave no answer that could be read: the webhook's
    /// failure policy decides.
    Call(String),
    /// The webhook refuses the request.
    Denied(Status),
    /// The request is refused, because the server cannot do what the webhook answered.
    Refused(Status),
}

/// Counts the call of a webhook that began at `began`.
pub(super) fn count<T>(
    attributes: &Attributes<'_>,
    hook: &Hook,
    hook_type: HookType,
    outcome: &Result<T, Failure>,
    began: Moment,
) {
    let server = attributes.call.server;
    let result = match outcome {
        Ok(_) => WebhookResult::Allowed,
        Err(Failure::Denied(status)) => WebhookResult::Denied(status.code),
        Err(Failure::Refused(_)) => WebhookResult::ServerFailed,
        Err(Failure::Call(_)) if hook.ignores_failure => WebhookResult::CallIgnored(UNAVAILABLE),
        Err(Failure::Call(_)) => WebhookResult::CallFailed(UNAVAILABLE),
    };
    let kind = match hook_type {
        HookType::Mutating => "admit",
        HookType::Validating => "validating",
    };
    let (operation, took) = (
        attributes.operation.as_str(),
        server.world.clock().now() - began,
    );
    let counted = &server.metrics.admission;
    counted.webhook(&hook.name, kind, operation, result, took);
}

/// The code that a call is counted with that brought no answer.
const UNAVAILABLE: u16 = 503;

/// The webhook's decision that the request may pass.
pub(super) async fn call(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &Versioned,
    hook_type: HookType,
) -> Result<AdmissionResponse, Failure> {
    let request = attributes.call.request;
    if attributes.is_dry_run() && !hook.takes_dry_run {
        let name = go_quote(&hook.name);
        return Err(Failure::Refused(Status::bad_request(format!(
            "admission webhook {name} does not support dry run"
        ))));
    }
    let version = crate::webhook::review::version(&hook.review_versions).ok_or_else(|| {
        Failure::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        )
    })?;
    let server = attributes.call.server;
    let uid = server.world.random().uuid();
    let body = review::review(attributes, versioned, version, &uid).to_string();
    let posted = server
        .webhooks
        .post(&hook.client, hook.timeout, Bytes::from(body))
        .await;
    let body = posted.map_err(|error| {
        Failure::Call(match error {
            CallError::Configuration(why) => format!("could not get REST client: {why}"),
            CallError::Call(why) | CallError::Response(why) => {
                format!("failed to call webhook: {why}")
            }
        })
    })?;
    let review = answer::read(&body, version)
        .map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    let answer = answer::verify(&review, version, &uid, hook_type)
        .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))?;
    for (key, value) in &answer.audit_annotations {
        request.annotate(format!("{}/{key}", hook.name), value.as_str());
    }
    for warning in &answer.warnings {
        request.warn(warning.as_str());
    }
    match answer.allowed {
        true => Ok(answer),
        false => {
            let refusal = answer::denial(&hook.name, &answer.status);
            Err(Failure::Denied(refusal))
        }
    }
}

/// What becomes of a request whose webhook could not be called.
pub(super) async fn settle(
    attributes: &Attributes<'_>,
    hook: &Hook,
    object: &Value,
    why: &str,
) -> Result<(), Status> {
    let name = go_quote(&hook.name);
    let why = format!("failed calling webhook {name}: {why}");
    if hook.ignores_failure {
        tracing::warn!(
            webhook = hook.name,
            configuration = hook.configuration,
            "a webhook could not be called, and the request passes: {why}"
        );
        return Ok(());
    }
    warn_of_deadlock(attributes, hook, object).await;
    Err(Status::internal_error(why))
}

/// Logs that a webhook stands in the way of the pods that would answer for it: the answer of
/// Kubernetes does not tell.
async fn warn_of_deadlock(attributes: &Attributes<'_>, hook: &Hook, pod: &Value) {
    let Some(service) = &hook.client.service else {
        return;
    };
    let namespace = attributes.namespace(pod);
    let creates_pod = attributes.operation == Operation::Create && attributes.is_of("", "pods", "");
    if !creates_pod || namespace != service.namespace {
        return;
    }
    let keys = Keys::new("", "services", true);
    let found = lookup::get(attributes.call, &keys, Some(namespace), &service.name).await;
    let Ok(Some(found)) = found else {
        return;
    };
    let Some(wanted) = found["spec"]["selector"].as_object() else {
        return;
    };
    let wanted = wanted
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    if LabelSelector::equal_to(wanted).matches(&Meta::new(pod)) {
        tracing::warn!(
            webhook = hook.name,
            configuration = hook.configuration,
            pod = Meta::new(pod).name(),
            namespace,
            "a webhook that does not answer keeps a pod of its own Service from being created: exempt the \
             namespace with its namespaceSelector, or delete the configuration until the pod runs"
        );
    }
}
