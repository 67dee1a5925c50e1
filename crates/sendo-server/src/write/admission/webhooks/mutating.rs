//! Calls mutating webhooks one after the other, each with what the one before it has left.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go`: `Dispatch`, `callAttrMutatingHook`

use sendo_apimachinery::patch::JsonPatch;
use sendo_apimachinery::{Status, go_quote};
use serde_json::{Value, json};

use super::super::Attributes;
use super::super::expressions::Evaluator;
use super::super::versions::{Unknown, Versioned};
use super::answer::{AdmissionResponse, HookType};
use super::call::{self, Failure};
use super::{in_version, version_for};
use crate::state::admission::Reinvocation;
use crate::state::admission::hooks::{Hook, Hooks};

/// The name of this step in what is kept from the first round to the second.
const STEP: &str = "MutatingAdmissionWebhook";

/// Has every mutating webhook that the request concerns change the object.
pub(super) async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let hooks = attributes.call.server.hooks.read(Hooks::mutating).await?;
    if hooks.is_empty() {
        return Ok(());
    }
    let default = Reinvocation::default();
    let reinvocation = attributes.reinvocation.unwrap_or(&default);
    let mut evaluator = Evaluator::new(attributes);
    reinvocation.begin_step(STEP, object);
    for (index, hook) in hooks.iter().enumerate() {
        let Some(version) = version_for(attributes, object, hook, &mut evaluator).await? else {
            continue;
        };
        if !reinvocation.is_called(STEP, &hook.id) {
            continue;
        }
        let versioned = in_version(attributes, object, version).await?;
        let began = attributes.call.server.world.clock().now();
        let outcome = invoke(attributes, hook, &versioned).await;
        call::count(attributes, hook, HookType::Mutating, &outcome, began);
        let took = attributes.call.server.world.clock().now() - began;
        attributes.call.request.add_webhook_time(took);
        note_outcome(attributes, hook, index, &outcome);
        if let Ok(Patched::Changed(_)) = outcome {
            reinvocation.note_change(STEP);
        }
        if hook.is_reinvoked {
            reinvocation.note_repeatable(STEP, &hook.id);
        }
        match outcome {
            Ok(Patched::Same) => {}
            Ok(Patched::Read(new) | Patched::Changed(new)) => {
                let changed = versioned.to_request(attributes, new).await;
                *object = changed.map_err(Status::unclassified)?;
            }
            Err(Failure::Denied(status) | Failure::Refused(status)) => return Err(status),
            Err(Failure::Call(why)) => call::settle(attributes, hook, object, &why).await?,
        }
    }
    reinvocation.end_step(STEP, object);
    Ok(())
}

/// What a webhook has made of the object.
enum Patched {
    /// There was no patch.
    Same,
    /// The patch changes nothing; the object was read again.
    Read(Value),
    Changed(Value),
}

async fn invoke(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &Versioned,
) -> Result<Patched, Failure> {
    let answer = call::call(attributes, hook, versioned, HookType::Mutating).await?;
    if answer.patch.is_empty() {
        return Ok(Patched::Same);
    }
    let patch = read_patch(&answer)?;
    if patch.is_empty() {
        return Ok(Patched::Same);
    }
    if versioned.object.is_null() {
        let name = go_quote(&hook.name);
        return Err(Failure::Refused(Status::internal_error(format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        ))));
    }
    if answer.patch_type != "JSONPatch" {
        let found = go_quote(&answer.patch_type);
        return Err(Failure::Call(format!("unsupported patch type {found}")));
    }
    let mut patched = versioned.object.clone();
    patch
        .apply_or_explain(&mut patched)
        .map_err(|why| Failure::Refused(Status::internal_error(why)))?;
    let new = versioned
        .read(attributes, patched, Unknown::Dropped)
        .map_err(Failure::Refused)?;
    Ok(match new == versioned.object {
        true => Patched::Read(new),
        false => Patched::Changed(new),
    })
}

fn read_patch(answer: &AdmissionResponse) -> Result<JsonPatch, Failure> {
    let undecodable = |why: String| {
        Failure::Call(format!(
            "received undecodable patch in webhook response: {why}"
        ))
    };
    let body = serde_json::from_slice(&answer.patch);
    let body: Value = body.map_err(|error| undecodable(error.to_string()))?;
    JsonPatch::from_body(body).map_err(|status| undecodable(status.message))
}

/// Notes for the audit event what a webhook did.
fn note_outcome(
    attributes: &Attributes<'_>,
    hook: &Hook,
    index: usize,
    outcome: &Result<Patched, Failure>,
) {
    let request = attributes.call.request;
    let is_second = attributes.reinvocation.is_some_and(Reinvocation::is_second);
    let round = u8::from(is_second);
    let key = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
    if matches!(outcome, Err(Failure::Call(_))) && hook.ignores_failure {
        request.annotate(format!("failed-open.{key}"), hook.name.as_str());
    }
    let note = json!({
        "configuration": hook.configuration,
        "webhook": hook.name,
        "mutated": matches!(outcome, Ok(Patched::Changed(_))),
    });
    request.annotate(key, note.to_string());
}
