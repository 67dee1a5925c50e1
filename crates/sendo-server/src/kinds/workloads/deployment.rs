//! Rules of Deployments.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidateDeployment`, `ValidateDeploymentUpdate`,
//!   `ValidateDeploymentStatusUpdate`
//! - `pkg/apis/apps/v1/defaults.go`: `SetDefaults_Deployment`
//! - `pkg/registry/apps/deployment/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::parts;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, writes};

pub(super) const RULES: Rules = Rules {
    default,
    field_annotation: Some("deprecated.deployment.rollback.to"),
    prepare_for_create: super::create,
    prepare_for_update,
    validate: |_, deployment| validate(deployment),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        validate_spec(&mut errors, new.at("spec"));
        super::fixed_selector(&mut errors, new, old);
        errors
    },
    validate_status_update: |_, new, old| validate_status_update(new, old),
    warnings_on_create: super::creation_warnings,
    warnings_on_update: super::change_warnings,
    prepare_for_status_update: |_, new, old| {
        new.copy_from("spec", old);
        new.object("metadata")
            .copy_from("labels", old.at("metadata"));
    },
    ..Rules::NEUTRAL
};

fn default(deployment: &mut Value) {
    let spec = deployment.object("spec");
    spec.default_to("replicas", 1);
    let strategy = spec.object("strategy");
    strategy.default_if_zero("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling_update = strategy.object("rollingUpdate");
        rolling_update.default_to("maxUnavailable", "25%");
        rolling_update.default_to("maxSurge", "25%");
    }
    spec.default_to("revisionHistoryLimit", 10);
    spec.default_to("progressDeadlineSeconds", 600);
    pod::defaults::template(spec.object("template"));
}

/// Increments the generation if the spec or the annotations change: the Deployment controller
/// copies annotations to ReplicaSets.
fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    super::update(cx, new, old);
    let annotations = |deployment: &Value| deployment.at("metadata").at("annotations").clone();
    if annotations(new) != annotations(old) {
        writes::next_generation(new, old);
    }
}

fn validate(deployment: &Value) -> Errors {
    let mut errors = check::new_metadata(deployment, Scope::Namespaced, names::dns1123_subdomain);
    validate_spec(&mut errors, deployment.at("spec"));
    errors
}

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    check::non_negative(errors, &path.child("replicas"), spec.count("replicas"));
    parts::selector(
        errors,
        &path.child("selector"),
        spec.at("selector"),
        "deployment",
    );
    parts::template(errors, &path.child("template"), spec, "ReplicaSet");
    strategy(errors, &path.child("strategy"), spec.at("strategy"));
    for key in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        check::non_negative(errors, &path.child(key), spec.count(key));
    }
    if let Some(deadline) = spec.number("progressDeadlineSeconds")
        && deadline <= spec.count("minReadySeconds")
    {
        let fault = "must be greater than minReadySeconds";
        errors.push(Error::invalid(
            &path.child("progressDeadlineSeconds"),
            deadline,
            fault,
        ));
    }
}

fn strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling_update = strategy.at("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if !rolling_update.is_null() {
                let fault = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(Error::forbidden(&rolling_path, fault));
            }
        }
        "RollingUpdate" if rolling_update.is_null() => {
            let fault = "this should be defaulted and never be nil";
            errors.push(Error::required(&rolling_path, fault));
        }
        "RollingUpdate" => self::rolling_update(errors, &rolling_path, rolling_update),
        kind => {
            let shown = Ordered::new()
                .text("Type", kind)
                .raw("RollingUpdate", internal(rolling_update));
            errors.push(Error::not_supported(
                path,
                shown.bad_value(),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
}

/// The rolling update parameters as Kubernetes prints its internal struct in a message.
fn internal(rolling_update: &Value) -> String {
    if rolling_update.is_null() {
        return "null".to_owned();
    }
    let or_zero = |key: &str| match rolling_update.at(key) {
        Value::Null => 0.into(),
        value => value.clone(),
    };
    let text = Ordered::new().with("MaxUnavailable", &or_zero("maxUnavailable"));
    text.with("MaxSurge", &or_zero("maxSurge")).finish()
}

fn rolling_update(errors: &mut Errors, path: &Path, rolling_update: &Value) {
    let (unavailable, surge) = (
        rolling_update.at("maxUnavailable"),
        rolling_update.at("maxSurge"),
    );
    let unavailable_path = path.child("maxUnavailable");
    parts::number_or_percent(errors, &unavailable_path, unavailable);
    parts::number_or_percent(errors, &path.child("maxSurge"), surge);
    if parts::is_none(unavailable) && parts::is_none(surge) {
        let fault = "may not be 0 when `maxSurge` is 0";
        errors.push(Error::invalid(
            &unavailable_path,
            unavailable.clone(),
            fault,
        ));
    }
    parts::at_most_all(errors, &unavailable_path, unavailable);
}

fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (status, path) = (new.at("status"), Path::new("status"));
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    parts::counts(&mut errors, &path, status, &counts);
    let of_replicas = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    parts::parts_of_replicas(&mut errors, &path, status, &of_replicas);
    parts::available_are_ready(&mut errors, &path, status, "readyReplicas");
    parts::collisions(&mut errors, &path, new, old);
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_rolls_a_quarter_at_a_time() {
        let mut deployment = json!({"spec": {}});
        default(&mut deployment);
        deployment["spec"].remove("template");
        assert_eq!(
            deployment["spec"],
            json!({
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            })
        );
    }

    #[test]
    fn recreate_gets_no_numbers() {
        let mut deployment = json!({"spec": {"strategy": {"type": "Recreate"}}});
        default(&mut deployment);
        assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    fn sound() -> Value {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let mut deployment = json!({
            "metadata": {"name": "d", "namespace": "n", "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        });
        default(&mut deployment);
        deployment
    }

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut deployment = sound();
        change(&mut deployment["spec"]);
        validate(&deployment).iter().map(Error::to_string).collect()
    }

    #[test]
    fn the_selector_matches_the_template() {
        assert_eq!(faults(|_| {}), Vec::<String>::new());
        assert_eq!(
            faults(|spec| spec["selector"] = json!({"matchLabels": {"a": "c"}})),
            [
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"
            ]
        );
        assert_eq!(
            faults(|spec| spec["selector"] = json!({})),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
        );
    }

    #[test]
    fn something_must_roll() {
        let rolling = |unavailable: Value, surge: Value| {
            faults(|spec| {
                spec["strategy"]["rollingUpdate"] =
                    json!({"maxUnavailable": unavailable, "maxSurge": surge})
            })
        };
        assert_eq!(rolling(json!(1), json!(0)), Vec::<String>::new());
        assert_eq!(
            rolling(json!("0%"), json!(0)),
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"
            ]
        );
        assert_eq!(rolling(json!("101%"), json!(0)).len(), 1);
    }

    #[test]
    fn an_unknown_strategy_shows_its_struct() {
        let found = faults(|spec| spec["strategy"] = json!({"type": "Sometimes"}));
        assert_eq!(
            found,
            [
                "spec.strategy: Unsupported value: {\"Type\":\"Sometimes\",\"RollingUpdate\":null}: \
              supported values: \"Recreate\", \"RollingUpdate\""
            ]
        );
    }

    #[test]
    fn the_selector_is_fixed() {
        let old = sound();
        let mut new = old.clone();
        new["spec"]["selector"] = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let mut errors = Vec::new();
        super::super::fixed_selector(&mut errors, &new, &old);
        assert!(
            errors[0].to_string().ends_with("field is immutable"),
            "{}",
            errors[0]
        );
    }
}
