//! Evaluates one validating policy with one set of parameters.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`: `Validate`

use sendo_apimachinery::admission_expressions::{self as admission, BUDGET};
use sendo_apimachinery::cel::Value as Cel;

use super::super::expressions::Evaluator;
use crate::state::admission::policies::{Annotation, Policy, Validation};

/// How long a message may be that an expression makes, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What a policy says of a request.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// One for each validation, or one for all if the policy could not be evaluated.
    pub(super) decisions: Vec<Decision>,
    pub(super) annotations: Vec<Noted>,
}

/// What a validation says.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) message: String,
    /// Why the request is refused, in one word; empty for the usual reason.
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The request may pass.
    Admits,
    /// The request may pass although the validation has no value.
    Ignored,
    /// The validation does not hold.
    Denies,
    /// The validation has no value, and the request is refused.
    Failed,
}

/// What came of an audit annotation.
#[derive(Debug)]
pub(super) enum Noted {
    Value {
        key: String,
        value: String,
    },
    /// It has no value, and the request is refused.
    Failed(String),
}

/// Evaluates a policy.
pub(super) async fn validate(
    policy: &Policy,
    evaluator: &mut Evaluator<'_>,
    inputs: admission::Inputs<'_>,
) -> Verdict {
    let failed = |message: String| Decision::failed(policy, message);
    let all_failed = |message: String| Verdict {
        decisions: vec![failed(message)],
        annotations: Vec::new(),
    };
    let composed = Some(&policy.composed);
    if !policy.conditions.is_empty() {
        // Match conditions do not see the namespace.
        let inputs = admission::Inputs {
            namespace: &serde_json::Value::Null,
            ..inputs
        };
        let ignores = policy.ignores_failure;
        let matches = evaluator.matches(inputs, composed, &policy.conditions, ignores);
        match matches.await {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(why) => return all_failed(why),
        }
    }

    let mut activation = inputs.activation(composed);
    let mut budget = BUDGET;
    let mut results = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let result = evaluator.eval(&mut activation, &validation.expression, &mut budget);
        match result.await {
            Ok(result) => results.push(result),
            Err(fault) => return all_failed(fault.to_string()),
        }
    }
    let messages = messages(policy, evaluator, inputs, budget).await;
    let mut decisions = Vec::with_capacity(results.len());
    for (i, (validation, result)) in policy.validations.iter().zip(results).enumerate() {
        decisions.push(match (result, &messages) {
            (Err(why), _) => failed(why),
            (Ok(_), Err(why)) => failed(format!("failed messageExpression: {why}")),
            (Ok(Cel::Bool(true)), _) => Decision::admits(),
            (Ok(_), Ok(messages)) => denial(validation, messages[i].as_deref()),
        });
    }

    match annotations(policy, evaluator, inputs).await {
        Ok(annotations) => Verdict {
            decisions,
            annotations,
        },
        Err(why) => all_failed(why),
    }
}

impl Decision {
    fn admits() -> Self {
        Decision {
            outcome: Outcome::Admits,
            message: String::new(),
            reason: String::new(),
        }
    }

    /// What is decided if a validation has no value.
    fn failed(policy: &Policy, message: String) -> Self {
        Decision {
            outcome: match policy.ignores_failure {
                true => Outcome::Ignored,
                false => Outcome::Failed,
            },
            message,
            reason: String::new(),
        }
    }
}

/// The messages that expressions make, one for each validation; of those that have no value
/// there is none.
async fn messages(
    policy: &Policy,
    evaluator: &mut Evaluator<'_>,
    inputs: admission::Inputs<'_>,
    mut budget: u64,
) -> Result<Vec<Option<String>>, String> {
    let mut activation = inputs.activation(Some(&policy.composed));
    let mut messages = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let Some(expression) = &validation.message_expression else {
            messages.push(None);
            continue;
        };
        let result = evaluator.eval(&mut activation, expression, &mut budget);
        let result = result.await.map_err(|fault| fault.to_string())?;
        messages.push(match result {
            Ok(Cel::Text(text)) => Some(text.to_string()),
            Ok(_) => None,
            Err(why) => {
                tracing::debug!(policy = policy.name, "a message has no value: {why}");
                None
            }
        });
    }
    Ok(messages)
}

/// The refusal by a validation that does not hold.
fn denial(validation: &Validation, made: Option<&str>) -> Decision {
    let made = made.map(str::trim).unwrap_or_default();
    let is_sound = !made.is_empty() && made.len() <= LONGEST_MESSAGE && !made.contains('\n');
    let own = validation.message.trim();
    let message = match (is_sound, own.is_empty()) {
        (true, _) => made.to_owned(),
        (false, false) => own.to_owned(),
        (false, true) => format!("failed expression: {}", validation.expression.source.trim()),
    };
    Decision {
        outcome: Outcome::Denies,
        message,
        reason: match validation.reason.as_str() {
            "" => "Invalid".to_owned(),
            reason => reason.to_owned(),
        },
    }
}

async fn annotations(
    policy: &Policy,
    evaluator: &mut Evaluator<'_>,
    inputs: admission::Inputs<'_>,
) -> Result<Vec<Noted>, String> {
    let mut activation = inputs.activation(Some(&policy.composed));
    let mut budget = BUDGET;
    let mut noted = Vec::new();
    for Annotation { key, value } in &policy.annotations {
        let result = evaluator.eval(&mut activation, value, &mut budget).await;
        match result.map_err(|fault| fault.to_string())? {
            Ok(Cel::Text(text)) if !text.trim().is_empty() => noted.push(Noted::Value {
                key: key.clone(),
                value: text.trim().to_owned(),
            }),
            Ok(Cel::Text(_) | Cel::Null) => {}
            Ok(other) => {
                let (source, kind) = (&value.source, other.type_name());
                noted.push(Noted::Failed(format!(
                    "valueExpression '{source}' resulted in unsupported return type: {kind}. Return type must be \
                     either string or null."
                )));
            }
            Err(_) if policy.ignores_failure => {}
            Err(why) => noted.push(Noted::Failed(why)),
        }
    }
    Ok(noted)
}
