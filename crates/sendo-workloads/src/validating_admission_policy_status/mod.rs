//! Checks the expressions of ValidatingAdmissionPolicies against the schemas of the kinds that they
//! match, and reports in their status what does not fit.
//!
//! What is found is a hint for their authors: it changes nothing in what a policy decides. Each
//! generation of a policy is checked once, with what was served at that time.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/validatingadmissionpolicystatus/controller.go`: `reconcile`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go`: `Check`,
//!   `CheckExpression`

mod kinds;

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use sendo::{Action, Context, Controller, ObjectExt, Patch, Result};
use sendo_apimachinery::admission_expressions::Environment;
use sendo_apimachinery::cel::Type;
use serde_json::{Value, json};

use kinds::{DeclaredKind, Schemas};

/// The field manager of the status.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";

/// The controller of the status of policies.
pub fn controller() -> Controller {
    Controller::new::<ValidatingAdmissionPolicy>()
        .named("validatingadmissionpolicy-status-controller")
        .workers(5)
        .reconcile(sync)
}

async fn sync(policy: Arc<ValidatingAdmissionPolicy>, cx: Context) -> Result<Action> {
    let generation = policy.metadata.generation.unwrap_or_default();
    let status = policy.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    if generation <= observed.unwrap_or_default() {
        return Ok(Action::done());
    }
    let warnings = check(&json!(policy.spec), &cx).await;
    let mut checking = json!({});
    if !warnings.is_empty() {
        checking["expressionWarnings"] = warnings.into();
    }
    let patch = Patch::Apply {
        object: json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy.name()},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        }),
        force: true,
    };
    let client = cx.client().with_field_manager(FIELD_MANAGER);
    match client.patch_status(&*policy, patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// What does not fit in the validations of a policy and in the messages of these.
async fn check(spec: &Value, cx: &Context) -> Vec<Value> {
    let mut schemas = Schemas::new(cx);
    let matched = kinds::matched(spec, &mut schemas).await;
    let params = kinds::of_params(spec, &mut schemas).await;
    let checker = Checker {
        matched,
        params,
        variables: texts(&spec["variables"], ["name", "expression"]),
    };
    let mut warnings = Vec::new();
    let validations = texts(&spec["validations"], ["expression", "messageExpression"]);
    for (i, (expression, message)) in validations.into_iter().enumerate() {
        for (field, source) in [("expression", expression), ("messageExpression", message)] {
            if source.is_empty() {
                continue;
            }
            let issues = checker.issues(source);
            if !issues.is_empty() {
                warnings.push(json!({
                    "fieldRef": format!("spec.validations[{i}].{field}"),
                    "warning": issues.join("\n"),
                }));
            }
        }
    }
    warnings
}

/// Two members of each item of a list; empty where they are absent.
fn texts<'a>(list: &'a Value, members: [&str; 2]) -> Vec<(&'a str, &'a str)> {
    let items = list.as_array().into_iter().flatten();
    let text = |item: &'a Value, member: &str| item[member].as_str().unwrap_or_default();
    items
        .map(|item| (text(item, members[0]), text(item, members[1])))
        .collect()
}

/// What expressions are checked with.
struct Checker<'a> {
    matched: Vec<DeclaredKind>,
    /// The type of the parameters; `None` if there are none.
    params: Option<Type>,
    variables: Vec<(&'a str, &'a str)>,
}

impl Checker<'_> {
    /// What does not fit in an expression, for each kind.
    fn issues(&self, source: &str) -> Vec<String> {
        let issues = self.matched.iter().filter_map(|matched| {
            let mut environment = Environment::new(false);
            environment.object = matched.declared.clone();
            environment.params = self.params.clone();
            let composed = environment.compose(self.variables.iter().copied());
            let issues = environment.check(source, &composed).err()?;
            Some(format!("{}: {issues}\n", matched.shown()))
        });
        issues.collect()
    }
}

#[cfg(test)]
mod tests {
    use sendo_apimachinery::GroupVersionKind;

    use super::*;

    fn checker(schema: Value) -> Checker<'static> {
        let declared = kinds::declare(&schema).expect("an object");
        let kind = GroupVersionKind::new("example.dev", "v1", "Widget");
        Checker {
            matched: vec![DeclaredKind { kind, declared }],
            params: None,
            variables: vec![("size", "object.spec.size")],
        }
    }

    #[test]
    fn fields_and_types_that_a_kind_does_not_have_are_told() {
        let checker = checker(json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        }}));
        let fits = [
            "object.spec.size < 3",
            "object.metadata.name == 'a' && oldObject == null",
            "variables.size > 1",
            "'a text is no condition, which is not looked at here'",
        ];
        for source in fits {
            assert_eq!(checker.issues(source), [""; 0], "{source}");
        }
        assert_eq!(
            checker.issues("object.spec.sise < 3"),
            [
                "example.dev/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'sise'\n \
              | object.spec.sise < 3\n | ...........^\n"
            ]
        );
        let issues = checker.issues("variables.size == 'a'");
        assert!(
            issues[0].contains("no matching overload for '_==_'"),
            "{issues:?}"
        );
    }
}
