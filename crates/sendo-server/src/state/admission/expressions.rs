//! Expressions of webhooks and policies, compiled when their configuration changes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/condition.go`: `CompileCondition`

use sendo_apimachinery::admission_expressions::{CONDITION, Environment};
use sendo_apimachinery::cel::{Composed, Program, Type};
use serde_json::Value;

/// An expression, ready to run.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) source: String,
    /// The program, or why there is none: validation has refused such an expression, unless it
    /// was stored by something else.
    pub(crate) program: Result<Program, String>,
}

impl Expression {
    pub(crate) fn compile(
        environment: &Environment,
        source: &str,
        wanted: &[Type],
        composed: Option<&Composed>,
    ) -> Self {
        Expression {
            source: source.to_owned(),
            program: environment.compile(source, wanted, composed),
        }
    }
}

/// The match conditions of a webhook or policy.
pub(crate) fn conditions(
    environment: &Environment,
    conditions: &Value,
    composed: Option<&Composed>,
) -> Vec<Expression> {
    let all = conditions.as_array().into_iter().flatten();
    all.map(|condition| {
        let source = condition["expression"].as_str().unwrap_or_default();
        Expression::compile(environment, source, CONDITION, composed)
    })
    .collect()
}
