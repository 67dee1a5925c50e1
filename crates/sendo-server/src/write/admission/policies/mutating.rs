//! Has every mutating policy change the object, each what the one before it has left.
//!
//! Which policies and bindings a request concerns is found before the first of them changes
//! anything; their match conditions see the object as it is then. A policy whose version the
//! object cannot be converted to has failed: its failure policy decides.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`: `Dispatch`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`: `dispatchInvocations`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/errors.go`: `ErrorType`

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
    let mut concerned = Concerned::default();
    for bound in policies.iter() {
        collect(attributes, object, bound, &mut concerned).await;
    }
    let Concerned {
        invocations,
        views,
        mut faults,
    } = concerned;
    if !invocations.is_empty() {
        run(attributes, object, &invocations, views, &mut faults).await?;
    }
    refusal(attributes, object, faults)
}

/// What is known before the first policy changes anything.
#[derive(Default)]
struct Concerned<'p> {
    invocations: Vec<Invocation<'p>>,
    /// The objects of the request in each version that a policy sees them in.
    views: Vec<Versioned>,
    faults: Vec<Fault>,
}

/// Finds what of a policy the request concerns.
async fn collect<'p>(
    attributes: &Attributes<'_>,
    object: &Value,
    bound: &'p Bound,
    concerned: &mut Concerned<'p>,
) {
    let policy = &*bound.policy;
    let Concerned {
        invocations,
        views,
        faults,
    } = concerned;
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
        if !views.iter().any(|view| view.is_of(&version)) {
            match Versioned::new(attributes, object, version.clone()).await {
                Ok(view) => views.push(view),
                Err(why) => {
                    fault(None, ConfigurationFault::Policy(why));
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
    mut views: Vec<Versioned>,
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
            Some(own) if own.is_of(&invocation.version) => own,
            Some(other) if is_patched => {
                *object = in_request(attributes, &other).await?;
                let view = Versioned::new(attributes, object, invocation.version.clone()).await;
                match view {
                    Ok(view) => view,
                    Err(why) => {
                        let fault = ConfigurationFault::Policy(why);
                        add(faults, invocation.policy, None, &fault.message(), false);
                        current = Some(other);
                        continue;
                    }
                }
            }
            // Nothing has changed since the request was converted.
            unchanged => {
                views.extend(unchanged);
                let own = views
                    .iter()
                    .position(|view| view.is_of(&invocation.version));
                views.swap_remove(own.expect("an invocation has its view"))
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
        *object = in_request(attributes, &last).await?;
    }
    reinvocation.end_step(STEP, object);
    Ok(())
}

/// The object that policies have changed, as the request has it.
async fn in_request(attributes: &Attributes<'_>, versioned: &Versioned) -> Result<Value, Status> {
    let changed = versioned.to_request(attributes, versioned.object.clone());
    let failed = |why| Status::internal_error(format!("failed to convert object: {why}"));
    changed.await.map_err(failed)
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
