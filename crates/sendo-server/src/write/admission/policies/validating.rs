//! Has every validating policy decide about a request.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`: `Dispatch`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/policy_decision.go`: `reasonToCode`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/errors.go`: `ErrorType`

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::Status;
use sendo_apimachinery::status::{Cause, Reason};
use sendo_world::Moment;
use serde_json::{Value, json};

use super::super::Attributes;
use super::super::expressions::{self, Evaluator};
use super::super::matching::Version;
use super::super::versions::Versioned;
use super::validator::{self, Decision, Noted, Outcome};
use super::{ConfigurationFault, matching, namespace_object, parameters};
use crate::metrics::admission::PolicyCheck;
use crate::state::admission::policies::{Binding, Bound, Policies, Policy};

/// How long the value of an audit annotation may be, in bytes.
const LONGEST_ANNOTATION: usize = 10 * 1024;

/// Has every policy that is about the request decide. The first denial gives the answer.
pub(super) async fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let policies = attributes
        .call
        .server
        .policies
        .read(Policies::validating)
        .await?;
    if policies.is_empty() {
        return Ok(());
    }
    let mut dispatch = Dispatch {
        attributes,
        object,
        evaluator: Evaluator::new(attributes),
        denials: Vec::new(),
    };
    for bound in policies.iter() {
        dispatch.policy(bound).await?;
    }
    match dispatch.denials.into_iter().next() {
        Some(denial) => Err(denial.status(attributes, object)),
        None => Ok(()),
    }
}

/// A decision that refuses the request.
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn new(policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) -> Self {
        let by = match binding {
            Some(binding) => format!(" with binding '{}'", binding.name),
            None => String::new(),
        };
        Denial {
            message: format!(
                "ValidatingAdmissionPolicy '{}'{by} denied request: {message}",
                policy.name
            ),
            reason: reason.to_owned(),
        }
    }

    fn status(self, attributes: &Attributes<'_>, object: &Value) -> Status {
        let mut status = attributes.forbid(object, &self.message);
        (status.reason, status.code) = match self.reason.as_str() {
            "Forbidden" => (Reason::Forbidden, 403),
            "Unauthorized" => (Reason::Unauthorized, 401),
            "RequestEntityTooLarge" => (Reason::RequestEntityTooLarge, 413),
            _ => (Reason::Invalid, 422),
        };
        status.with_cause(Cause {
            message: self.message,
            ..Cause::default()
        })
    }
}

/// What policies have said so far.
struct Dispatch<'d> {
    attributes: &'d Attributes<'d>,
    object: &'d Value,
    evaluator: Evaluator<'d>,
    denials: Vec<Denial>,
}

impl Dispatch<'_> {
    /// Notes that a policy could not be evaluated.
    fn fault(&mut self, policy: &Policy, binding: Option<&Binding>, fault: &ConfigurationFault) {
        if policy.ignores_failure {
            return;
        }
        let denial = Denial::new(policy, binding, &fault.message(), "");
        self.denials.push(denial);
    }

    async fn policy(&mut self, bound: &Bound) -> Result<(), Status> {
        let policy = &*bound.policy;
        let matched = matching::matched(self.attributes, self.object, &policy.constraints).await;
        let version = match matched {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(()),
            Err(why) => {
                self.fault(policy, None, &ConfigurationFault::Policy(why));
                return Ok(());
            }
        };
        let resource = match parameters::resource(self.attributes, policy) {
            Ok(resource) => resource,
            Err(why) => {
                self.fault(policy, None, &ConfigurationFault::Policy(why));
                return Ok(());
            }
        };
        let mut versioned = None;
        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in &bound.bindings {
            let params = match self.params(binding, resource.as_deref()).await {
                Ok(params) => params,
                Err(why) => {
                    self.fault(policy, Some(binding), &ConfigurationFault::Binding(why));
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let versioned = match &versioned {
                Some(versioned) => versioned,
                None => match Versioned::new(self.attributes, self.object, version.clone()).await {
                    Ok(made) => versioned.insert(made),
                    Err(why) => {
                        let why = format!("failed to convert object version: {why}");
                        self.fault(policy, Some(binding), &ConfigurationFault::Binding(why));
                        continue;
                    }
                },
            };
            self.binding(policy, binding, versioned, &params, &mut annotations)
                .await?;
        }
        for (key, values) in annotations {
            let key = format!("{}/{key}", policy.name);
            self.attributes
                .call
                .request
                .annotate(key, values.join(", "));
        }
        Ok(())
    }

    /// The parameters that a policy is evaluated with, each in turn; none if the binding is not
    /// about the request.
    async fn params(
        &self,
        binding: &Binding,
        resource: Option<&crate::catalog::Resource>,
    ) -> Result<Vec<Value>, String> {
        if let Some(resources) = &binding.resources {
            let matched: Option<Version> =
                matching::matched(self.attributes, self.object, resources).await?;
            if matched.is_none() {
                return Ok(Vec::new());
            }
        }
        parameters::of_binding(self.attributes, self.object, resource, binding).await
    }

    async fn binding(
        &mut self,
        policy: &Policy,
        binding: &Arc<Binding>,
        versioned: &Versioned,
        params: &[Value],
        annotations: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), Status> {
        let namespace = namespace_object(self.attributes, self.object).await?;
        let matched = &versioned.version.resource;
        let inputs = expressions::Inputs::of_policy(self.attributes, versioned, matched);
        for params in params {
            let inputs = inputs.with(params, &namespace);
            let began = self.attributes.call.server.world.clock().now();
            let verdict = validator::validate(policy, &mut self.evaluator, inputs).await;
            for (index, decision) in verdict.decisions.iter().enumerate() {
                self.decision(policy, binding, index, decision, began);
            }
            for noted in verdict.annotations {
                match noted {
                    Noted::Value { key, value } => {
                        let value = cut(&value, LONGEST_ANNOTATION).to_owned();
                        let values = annotations.entry(key).or_default();
                        if !values.contains(&value) {
                            values.push(value);
                        }
                    }
                    Noted::Failed(why) => {
                        self.count(policy, binding, Some(&why), "deny", began);
                        self.denials
                            .push(Denial::new(policy, Some(binding), &why, ""));
                    }
                }
            }
        }
        Ok(())
    }

    /// Does what a binding demands where its policy's validations are broken.
    fn decision(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        index: usize,
        decision: &Decision,
        began: Moment,
    ) {
        let message = &decision.message;
        let fault = Some(message.as_str());
        match decision.outcome {
            Outcome::Admits => return,
            Outcome::Ignored => return self.count(policy, binding, fault, "allow", began),
            Outcome::Denies | Outcome::Failed => {}
        }
        let request = self.attributes.call.request;
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => {
                    let denial = Denial::new(policy, Some(binding), message, &decision.reason);
                    self.denials.push(denial);
                    self.count(policy, binding, fault, "deny", began);
                }
                "Audit" => {
                    let note = failure_note(binding, index, message);
                    request.annotate(
                        "validation.policy.admission.k8s.io/validation_failure",
                        note,
                    );
                    self.count(policy, binding, fault, "audit", began);
                }
                "Warn" => {
                    request.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    ));
                    self.count(policy, binding, fault, "warn", began);
                }
                // Validation has refused others.
                _ => {}
            }
        }
    }

    fn count(
        &self,
        policy: &Policy,
        binding: &Binding,
        fault: Option<&str>,
        action: &str,
        began: Moment,
    ) {
        let server = self.attributes.call.server;
        server.metrics.admission.validating_policy(&PolicyCheck {
            policy: &policy.name,
            binding: &binding.name,
            fault,
            action,
            time: server.world.clock().now() - began,
        });
    }
}

/// What the audit log tells of a validation that is broken, in the order of Kubernetes' struct.
fn failure_note(binding: &Binding, index: usize, message: &str) -> String {
    format!(
        r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{index},"validationActions":{}}}]"#,
        json!(message),
        json!(binding.policy),
        json!(binding.name),
        json!(binding.actions),
    )
}

/// The beginning of a text, of so many bytes at most.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
