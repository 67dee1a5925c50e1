//! Has every mutating policy change the object, each what the one before it has left.
//!
//! Which policies and bindings a request concerns is found before the first of them changes
//! anything; their match conditions see the object as it is then.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`: `Dispatch`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`: `dispatchInvocations`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/errors.go`: `ErrorType`

use std::sync::Arc;

use sendo_apimachinery::admission_expressions::BUDGET;
use sendo_apimachinery::status::{Cause, Reason};
use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::super::Attributes;
use super::super::expressions::{self, Evaluator};
use super::super::matching::Version;
use super::super::versions::Versioned;
use super::patch::{self, Failure};
use super::{ConfigurationFault, matching, namespace_object, parameters};
use crate::metrics::admission::PolicyCheck;
use crate::state::admission::Reinvocation;
use crate::state::admission::policies::{Binding, Bound, Mutation, Policies, Policy};

/// The name of this step in what is kept from the first round to the second.
const STEP: &str = "MutatingAdmissionPolicy";

/// A policy with a binding and parameters that the request concerns.
struct Invocation<'p> {
    policy: &'p Policy,
    binding: &'p Binding,
    version: Version,
    params: Value,
}

/// Why a policy could not be evaluated, with the policy and its binding.
struct Fault {
    message: String,
    /// Whether the object is told to be at fault.
    is_invalid: bool,
}

/// Has every policy that the request concerns change the object.
pub(super) async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let policies = attributes
        .call
        .server
        .policies
        .read(Policies::mutating)
        .await?;
    if policies.is_empty() {
        return Ok(());
    }
    let mut faults = Vec::new();
    let mut invocations = Vec::new();
    for bound in policies.iter() {
        collect(attributes, object, bound, &mut invocations, &mut faults).await;
    }
    if !invocations.is_empty() {
        run(attributes, object, &invocations, &mut faults).await?;
    }
    refusal(attributes, object, faults)
}

/// Finds what of a policy the request concerns.
async fn collect<'p>(
    attributes: &Attributes<'_>,
    object: &Value,
    bound: &'p Bound,
    invocations: &mut Vec<Invocation<'p>>,
    faults: &mut Vec<Fault>,
) {
    let policy = &*bound.policy;
    let mut fault = |binding: Option<&Binding>, fault: ConfigurationFault| {
        add(faults, policy, binding, &fault.message(), false);
    };
    let version = match matching::matched(attributes, object, &policy.constraints).await {
        Ok(Some(version)) => version,
        Ok(None) => return,
        Err(why) => return fault(None, ConfigurationFault::Policy(why)),
    };
    let resource = match parameters::resource(attributes, policy) {
        Ok(resource) => resource,
        Err(why) => return fault(None, ConfigurationFault::Policy(why)),
    };
    for binding in &bound.bindings {
        if let Some(resources) = &binding.resources {
            match matching::matched(attributes, object, resources).await {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(why) => {
                    fault(Some(binding), ConfigurationFault::Binding(why));
                    continue;
                }
            }
        }
        let params = parameters::of_binding(attributes, object, resource.as_deref(), binding).await;
        match params {
            Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                policy,
                binding,
                version: version.clone(),
                params,
            })),
            Err(why) => fault(Some(binding), ConfigurationFault::Binding(why)),
        }
    }
}

/// Notes a fault, unless the policy ignores them.
fn add(
    faults: &mut Vec<Fault>,
    policy: &Policy,
    binding: Option<&Binding>,
    why: &str,
    is_invalid: bool,
) {
    if policy.ignores_failure {
        return;
    }
    let message = match binding {
        Some(binding) => format!(
            "policy '{}' with binding '{}' denied request: {why}",
            policy.name, binding.name
        ),
        None => format!("policy {} denied request: {why}", go_quote(&policy.name)),
    };
    faults.push(Fault {
        message,
        is_invalid,
    });
}

async fn run(
    attributes: &Attributes<'_>,
    object: &mut Value,
    invocations: &[Invocation<'_>],
    faults: &mut Vec<Fault>,
) -> Result<(), Status> {
    let default = Reinvocation::default();
    let reinvocation = attributes.reinvocation.unwrap_or(&default);
    reinvocation.begin_step(STEP, object);
    let namespace = namespace_object(attributes, object).await?;
    let mut evaluator = Evaluator::new(attributes);
    let mut current: Option<Versioned> = None;
    let mut is_patched = false;
    for invocation in invocations {
        let mut versioned = match current.take() {
            Some(own) if Arc::ptr_eq(&own.version.resource, &invocation.version.resource) => own,
            other => {
                if let Some(other) = other {
                    let changed = other.to_request(attributes, other.object.clone());
                    *object = changed.await?;
                }
                Versioned::new(attributes, object, invocation.version.clone()).await?
            }
        };
        let outcome = invoke(
            attributes,
            &mut evaluator,
            reinvocation,
            invocation,
            &mut versioned,
            &namespace,
            faults,
        );
        is_patched |= outcome.await?;
        current = Some(versioned);
    }
    if is_patched && let Some(last) = current {
        reinvocation.note_change(STEP);
        let changed = last.to_request(attributes, last.object.clone());
        *object = changed.await?;
    }
    reinvocation.end_step(STEP, object);
    Ok(())
}

/// Has one policy change the object; whether it has, if only to what it was.
async fn invoke(
    attributes: &Attributes<'_>,
    evaluator: &mut Evaluator<'_>,
    reinvocation: &Reinvocation,
    invocation: &Invocation<'_>,
    versioned: &mut Versioned,
    namespace: &Value,
    faults: &mut Vec<Fault>,
) -> Result<bool, Status> {
    let Invocation {
        policy,
        binding,
        params,
        ..
    } = invocation;
    if !policy.conditions.is_empty() {
        let inputs = expressions::Inputs::of_webhook(attributes, versioned);
        let inputs = inputs.with(params, &Value::Null);
        let (composed, ignores) = (Some(&policy.composed), policy.ignores_failure);
        let matches = evaluator.matches(inputs, composed, &policy.conditions, ignores);
        match matches.await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                add(faults, policy, Some(binding), &why, true);
                return Ok(false);
            }
        }
    }
    let key = invocation.key();
    if !reinvocation.is_called(STEP, &key) {
        return Ok(false);
    }
    let before = versioned.object.clone();
    let mut is_patched = false;
    // What there is no object for changes none.
    let mutations = policy.mutations.iter().filter(|_| !before.is_null());
    for mutation in mutations {
        let server = attributes.call.server;
        let began = server.world.clock().now();
        let changed = change(
            attributes, evaluator, invocation, mutation, versioned, namespace,
        );
        let changed = changed.await;
        let fault = match &changed {
            Ok(_) => None,
            Err(Failure::Policy(why)) => Some(why.as_str()),
            Err(Failure::Refused(status)) => Some(status.message.as_str()),
        };
        server.metrics.admission.mutating_policy(&PolicyCheck {
            policy: &policy.name,
            binding: &binding.name,
            fault,
            action: "",
            time: server.world.clock().now() - began,
        });
        match changed {
            Ok(new) => {
                is_patched = true;
                versioned.object = new;
            }
            Err(Failure::Policy(why)) => add(faults, policy, Some(binding), &why, true),
            Err(Failure::Refused(status)) => return Err(status),
        }
    }
    if versioned.object != before {
        reinvocation.note_change(STEP);
    }
    if policy.is_reinvoked {
        reinvocation.note_repeatable(STEP, &key);
    }
    Ok(is_patched)
}

/// The object that a mutation makes of the current one.
async fn change(
    attributes: &Attributes<'_>,
    evaluator: &mut Evaluator<'_>,
    invocation: &Invocation<'_>,
    mutation: &Mutation,
    versioned: &Versioned,
    namespace: &Value,
) -> Result<Value, Failure> {
    if let Err(why) = &mutation.expression.program {
        return Err(Failure::Policy(why.clone()));
    }
    let matched = &invocation.version.resource;
    let inputs = expressions::Inputs::of_policy(attributes, versioned, matched);
    let inputs = inputs.with(&invocation.params, namespace);
    let mut activation = inputs.activation(Some(&invocation.policy.composed));
    let mut budget = BUDGET;
    let made = evaluator.eval(&mut activation, &mutation.expression, &mut budget);
    let made = made.await.map_err(|fault| fault.to_string())??;
    patch::apply(attributes, versioned, mutation.kind, &made)
}

impl Invocation<'_> {
    /// What tells it apart from others.
    fn key(&self) -> String {
        let params = Meta::new(&self.params);
        format!(
            "{}/{}/{}/{}",
            self.policy.name,
            self.binding.name,
            params.namespace(),
            params.name()
        )
    }
}

/// The refusal of a request that policies failed about: the first gives the message, all are
/// named in the details.
fn refusal(attributes: &Attributes<'_>, object: &Value, faults: Vec<Fault>) -> Result<(), Status> {
    let Some(first) = faults.first() else {
        return Ok(());
    };
    let mut status = attributes.forbid(object, "admission request denied by policy");
    status.message.clone_from(&first.message);
    if first.is_invalid {
        status.reason = Reason::Invalid;
    }
    for fault in faults {
        status = status.with_cause(Cause {
            message: fault.message,
            ..Cause::default()
        });
    }
    Err(status)
}
