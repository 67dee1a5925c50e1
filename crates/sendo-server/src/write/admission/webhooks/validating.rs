//! Calls validating webhooks, all at once.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go`: `Dispatch`

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sendo_apimachinery::Status;
use serde_json::Value;

use super::super::Attributes;
use super::super::expressions::Evaluator;
use super::super::versions::Versioned;
use super::answer::HookType;
use super::call::{self, Failure};
use super::{in_version, version_for};
use crate::state::admission::hooks::{Hook, Hooks};

/// Has every validating webhook that the request concerns decide about it.
///
/// All are waited for; the first that refuses gives the answer.
pub(super) async fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let hooks = attributes.call.server.hooks.read(Hooks::validating).await?;
    let mut evaluator = Evaluator::new(attributes);
    let mut invocations: Vec<(&Arc<Hook>, Arc<Versioned>)> = Vec::new();
    for hook in hooks.iter() {
        let Some(version) = version_for(attributes, object, hook, &mut evaluator).await? else {
            continue;
        };
        let known = invocations
            .iter()
            .find(|(_, versioned)| Arc::ptr_eq(&versioned.version.resource, &version.resource));
        let versioned = match known {
            Some((_, versioned)) => Arc::clone(versioned),
            None => Arc::new(in_version(attributes, object, version).await?),
        };
        invocations.push((hook, versioned));
    }
    let calls = invocations.iter().enumerate();
    let mut calls: FuturesUnordered<_> = calls
        .map(|(index, (hook, versioned))| invoke(attributes, hook, versioned, index))
        .collect();
    let began = attributes.call.server.world.clock().now();
    let mut first = Ok(());
    while let Some(verdict) = calls.next().await {
        first = first.and(verdict);
    }
    let took = attributes.call.server.world.clock().now() - began;
    attributes.call.request.add_webhook_time(took);
    first
}

async fn invoke(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &Versioned,
    index: usize,
) -> Result<(), Status> {
    let began = attributes.call.server.world.clock().now();
    let outcome = call::call(attributes, hook, versioned, HookType::Validating).await;
    call::count(attributes, hook, HookType::Validating, &outcome, began);
    match outcome {
        Ok(_) => Ok(()),
        Err(Failure::Denied(status) | Failure::Refused(status)) => Err(status),
        Err(Failure::Call(why)) => {
            if hook.ignores_failure {
                let key = format!(
                    "failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"
                );
                attributes.call.request.annotate(key, hook.name.as_str());
            }
            call::settle(attributes, hook, &versioned.object, &why).await
        }
    }
}
