//! Evaluates the expressions of match conditions and policies, within their budget.
//!
//! The authoriser is asked between two evaluations of an expression, since only this side can
//! wait for it; what it answers counts for the whole step.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/activation.go`: `Evaluate`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`: `Match`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/authorizer/caching_authorizer.go`
//! - `staging/src/k8s.io/apiserver/pkg/cel/library/authz.go`: `Authorize`

use std::collections::BTreeMap;

use sendo_apimachinery::admission_expressions::{self as admission, MATCH_BUDGET};
use sendo_apimachinery::cel::{
    Activation, CALL_LIMIT, Check, CheckTarget, Composed, Decision, Fault, ResourceCheck,
    Value as Cel,
};
use sendo_apimachinery::{FieldSelector, status};
use serde_json::Value;

use super::versions::Versioned;
use super::{Attributes, request};
use crate::access::authorise::{self, Requested, ResourceAttributes};
use crate::catalog::Resource;
use crate::request::user::User;
use crate::state::admission::expressions::Expression;

/// What the expressions of a webhook or policy are about.
#[derive(Debug)]
pub(super) struct Inputs<'v> {
    versioned: &'v Versioned,
    request: Value,
    resource: ResourceCheck,
}

impl<'v> Inputs<'v> {
    /// The inputs of match conditions, which tell the resource of the request.
    pub(super) fn of_webhook(attributes: &Attributes<'_>, versioned: &'v Versioned) -> Self {
        Inputs::of_policy(attributes, versioned, attributes.call.resource)
    }

    /// The inputs of the expressions of a policy, which tell the resource that was matched.
    pub(super) fn of_policy(
        attributes: &Attributes<'_>,
        versioned: &'v Versioned,
        matched: &Resource,
    ) -> Self {
        let own = &attributes.call.resource.facts;
        let sample = match versioned.object.is_null() {
            true => &versioned.old,
            false => &versioned.object,
        };
        Inputs {
            request: request::describe(attributes, versioned, matched),
            resource: ResourceCheck {
                group: own.group.clone(),
                resource: own.plural.clone(),
                subresource: attributes.subresource().to_owned(),
                namespace: attributes.namespace(sample).to_owned(),
                name: attributes.name(&versioned.object).to_owned(),
                ..ResourceCheck::default()
            },
            versioned,
        }
    }

    /// The inputs with parameters and namespace; null where there is none.
    pub(super) fn with<'i>(
        &'i self,
        params: &'i Value,
        namespace: &'i Value,
    ) -> admission::Inputs<'i> {
        admission::Inputs {
            object: &self.versioned.object,
            old_object: &self.versioned.old,
            request: &self.request,
            params,
            namespace,
            resource: &self.resource,
        }
    }
}

/// Expressions have cost more than they may together.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "validation failed due to running out of cost budget, no further validation rules will be run"
)]
pub(super) struct OutOfBudget;

/// Evaluates expressions about one request, and keeps what the authoriser answers.
#[derive(Debug)]
pub(super) struct Evaluator<'e> {
    attributes: &'e Attributes<'e>,
    decisions: BTreeMap<Check, Decision>,
}

impl<'e> Evaluator<'e> {
    pub(super) fn new(attributes: &'e Attributes<'e>) -> Self {
        Evaluator {
            attributes,
            decisions: BTreeMap::new(),
        }
    }

    /// The value of an expression, or why it has none. What it costs, with the composed
    /// variables it uses, is taken from the budget.
    pub(super) async fn eval<'a>(
        &mut self,
        activation: &mut Activation<'a>,
        expression: &'a Expression,
        budget: &mut u64,
    ) -> Result<Result<Cel<'a>, String>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let outcome = loop {
            let outcome = activation.eval(program, CALL_LIMIT);
            match outcome.result {
                Err(Fault::Undecided(check)) => {
                    let decision = self.decide(&check).await;
                    activation.decide(*check, decision);
                }
                _ => break outcome,
            }
        };
        for cost in [activation.take_composed_cost(), outcome.cost] {
            *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
        }
        let source = &expression.source;
        Ok(outcome
            .result
            .map_err(|fault| format!("expression '{source}' resulted in error: {fault}")))
    }

    /// Whether all match conditions hold; what is wrong if one has no value, unless another one
    /// does not hold.
    pub(super) async fn matches(
        &mut self,
        inputs: admission::Inputs<'_>,
        composed: Option<&Composed>,
        conditions: &[Expression],
        ignores_failure: bool,
    ) -> Result<bool, String> {
        let failed = |why: String| match ignores_failure {
            true => Ok(false),
            false => Err(why),
        };
        let mut activation = inputs.activation(composed);
        let mut budget = MATCH_BUDGET;
        let (mut faults, mut holds) = (Vec::new(), true);
        for condition in conditions {
            match self.eval(&mut activation, condition, &mut budget).await {
                Err(fault) => return failed(fault.to_string()),
                Ok(Err(why)) => faults.push(why),
                Ok(Ok(value)) => holds &= !matches!(value, Cel::Bool(false)),
            }
        }
        match (holds, faults.is_empty()) {
            (true, false) => failed(status::aggregate(faults)),
            (holds, _) => Ok(holds),
        }
    }

    async fn decide(&mut self, check: &Check) -> Decision {
        if let Some(known) = self.decisions.get(check) {
            return known.clone();
        }
        let account;
        let user = match &check.account {
            None => self.attributes.user(),
            Some(own) => {
                account = User::service_account(&own.namespace, &own.name);
                &account
            }
        };
        let requested = match &check.target {
            CheckTarget::Path(path) => Requested::NonResource(path),
            CheckTarget::Resource(of) => Requested::Resource(ResourceAttributes {
                group: &of.group,
                resource: &of.resource,
                subresource: &of.subresource,
                namespace: &of.namespace,
                name: &of.name,
                // A selector that cannot be read narrows nothing.
                fields: FieldSelector::parse(&of.field_selector).unwrap_or_default(),
            }),
        };
        let asked = authorise::Attributes {
            user,
            verb: &check.verb,
            requested,
        };
        let access = &self.attributes.call.server.access;
        let decision = match authorise::decide(access, &asked).await {
            Ok(decision) => Decision {
                allowed: decision.is_allowed(),
                reason: decision.reason(),
                error: None,
            },
            Err(status) => Decision {
                error: Some(status.message),
                ..Decision::default()
            },
        };
        self.decisions.insert(check.clone(), decision.clone());
        decision
    }
}
