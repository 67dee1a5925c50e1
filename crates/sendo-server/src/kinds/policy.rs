//! Rules of PodDisruptionBudgets.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/policy/validation/validation.go`: `ValidatePodDisruptionBudget`,
//!   `ValidatePodDisruptionBudgetStatusUpdate`
//! - `pkg/registry/policy/poddisruptionbudget/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::{self, Errors};
use super::ordered::{self, Ordered};
use super::value::Read;
use super::workloads::parts;
use super::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    validate: |_, budget| validate(budget),
    validate_update: |_, new, _| validate(new),
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, _| {
        let mut errors = Vec::new();
        let (status, path) = (new.at("status"), Path::new("status"));
        check::conditions(
            &mut errors,
            &path.child("conditions"),
            status.items("conditions"),
        );
        let counts = [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ];
        parts::counts(&mut errors, &path, status, &counts);
        errors
    },
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

fn validate(budget: &Value) -> Errors {
    let mut errors = Vec::new();
    let (spec, path) = (budget.at("spec"), Path::new("spec"));
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|bound| spec.has(bound)) {
        let selector = match spec.at("selector") {
            Value::Null => "null".to_owned(),
            selector => ordered::selector(selector),
        };
        let shown = Ordered::new()
            .with("MinAvailable", spec.at("minAvailable"))
            .raw("Selector", selector)
            .with("MaxUnavailable", spec.at("maxUnavailable"))
            .with(
                "UnhealthyPodEvictionPolicy",
                spec.at("unhealthyPodEvictionPolicy"),
            );
        let fault = "minAvailable and maxUnavailable cannot be both set";
        errors.push(Error::invalid(&path, shown.bad_value(), fault));
    }
    for bound in bounds.into_iter().filter(|bound| spec.has(bound)) {
        parts::number_or_percent(&mut errors, &path.child(bound), spec.at(bound));
        parts::at_most_all(&mut errors, &path.child(bound), spec.at(bound));
    }
    check::selector(&mut errors, &path.child("selector"), spec.at("selector"));
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = spec.at("unhealthyPodEvictionPolicy");
    check::optional_one_of(
        &mut errors,
        &path.child("unhealthyPodEvictionPolicy"),
        policy,
        &policies,
    );
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_has_one_bound() {
        let faults = |spec: Value| -> Vec<String> {
            validate(&json!({"spec": spec}))
                .iter()
                .map(Error::to_string)
                .collect()
        };
        assert_eq!(faults(json!({"minAvailable": "50%"})), Vec::<String>::new());
        assert_eq!(
            faults(json!({"minAvailable": 1, "maxUnavailable": 1})),
            [
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\
              \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"
            ]
        );
        assert_eq!(
            faults(json!({"maxUnavailable": "101%"})),
            ["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"]
        );
    }
}
