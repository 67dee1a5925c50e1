//! Validation of HorizontalPodAutoscalers, as `autoscaling/v2`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/autoscaling/validation/validation.go`: `ValidateHorizontalPodAutoscaler`,
//!   `ValidateHorizontalPodAutoscalerUpdate`, `ValidateHorizontalPodAutoscalerStatusUpdate`
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go`: `ParseGroupVersion`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::resources;
use crate::kinds::value::Read;

/// The largest stabilization window, in seconds.
const MAX_WINDOW: i64 = 3600;
/// The largest period of a scaling policy, in seconds.
const MAX_PERIOD: i64 = 1800;
const TYPES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];
/// The metric source fields, in the order Kubernetes validates them, each with its metric type.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

pub(super) fn create(autoscaler: &Value) -> Errors {
    let mut errors = check::new_metadata(autoscaler, Scope::Namespaced, names::dns1123_subdomain);
    spec(&mut errors, autoscaler.at("spec"), &Value::Null);
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    spec(&mut errors, new.at("spec"), old.at("spec"));
    errors
}

pub(super) fn status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    for key in ["currentReplicas", "desiredReplicas"] {
        check::non_negative(
            &mut errors,
            &Path::new("status").child(key),
            new.at("status").count(key),
        );
    }
    errors
}

fn spec(errors: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::new("spec");
    // The HPAScaleToZero feature allows 0; an update may keep it.
    let least = if old.number("minReplicas") == Some(0) {
        0
    } else {
        1
    };
    let (min, max) = (spec.number("minReplicas"), spec.count("maxReplicas"));
    if let Some(min) = min.filter(|min| *min < least) {
        let fault = format!("must be greater than or equal to {least}");
        errors.push(Error::invalid(&path.child("minReplicas"), min, fault));
    }
    let max_path = path.child("maxReplicas");
    if max == 0 {
        errors.push(Error::required(&max_path, "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(Error::invalid(
            &max_path,
            max,
            "must be greater than or equal to 1",
        ));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(Error::invalid(
            &max_path,
            max,
            "must be greater than or equal to `minReplicas`",
        ));
    }
    let (target, old_target) = (spec.at("scaleTargetRef"), old.at("scaleTargetRef"));
    let is_same = old.is_object()
        && ["apiVersion", "kind"]
            .iter()
            .all(|k| target.at(k) == old_target.at(k));
    let versions = match target.text("kind") {
        _ if is_same => Versions::Any,
        "ReplicationController" => Versions::All,
        _ => Versions::WithGroup,
    };
    reference(errors, &path.child("scaleTargetRef"), target, versions);
    metrics(errors, &path.child("metrics"), spec, old);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior").at(direction);
        if !rules.is_null() {
            scaling_rules(errors, &path.child("behavior").child(direction), rules);
        }
    }
}

/// Which values a reference's `apiVersion` may have.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Versions {
    /// Any text: the old object had an invalid apiVersion too.
    Any,
    /// A version of any group, including the core group.
    All,
    /// A version with a non-empty group.
    WithGroup,
}

fn reference(errors: &mut Errors, path: &Path, reference: &Value, versions: Versions) {
    for key in ["kind", "name"] {
        check::required_name(
            errors,
            &path.child(key),
            reference.text(key),
            names::path_segment,
        );
    }
    let version = reference.text("apiVersion");
    if let Some(fault) = version_fault(version, versions) {
        errors.push(Error::invalid(&path.child("apiVersion"), version, fault));
    }
}

fn version_fault(version: &str, versions: Versions) -> Option<String> {
    match version.matches('/').count() {
        _ if versions == Versions::Any => None,
        0 | 1 => {
            let has_group = version
                .split_once('/')
                .is_some_and(|(group, _)| !group.is_empty());
            let is_missing = versions == Versions::WithGroup && !has_group;
            is_missing.then(|| "apiVersion must specify API group".to_owned())
        }
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    }
}

fn metrics(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    let described = |metric: &Value| {
        metric
            .at("object")
            .at("describedObject")
            .text("apiVersion")
            .to_owned()
    };
    let mut before = old
        .items("metrics")
        .iter()
        .filter(|metric| metric.has("object"));
    let was_invalid =
        before.any(|metric| version_fault(&described(metric), Versions::All).is_some());
    let versions = if was_invalid {
        Versions::Any
    } else {
        Versions::All
    };
    for (i, metric) in spec.items("metrics").iter().enumerate() {
        self::metric(errors, &path.index(i), metric, versions);
    }
    let mut kinds = spec
        .items("metrics")
        .iter()
        .map(|metric| metric.text("type"));
    if spec.number("minReplicas") == Some(0)
        && !kinds.any(|kind| matches!(kind, "External" | "Object"))
    {
        let fault = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(path, fault));
    }
}

fn metric(errors: &mut Errors, path: &Path, metric: &Value, versions: Versions) {
    let kind = metric.text("type");
    let kind_path = path.child("type");
    if kind.is_empty() {
        errors.push(Error::required(
            &kind_path,
            "must specify a metric source type",
        ));
    }
    check::one_of(errors, &kind_path, kind, &TYPES);
    let present: Vec<&str> = SOURCES
        .iter()
        .map(|(key, _)| *key)
        .filter(|key| metric.has(key))
        .collect();
    if let Some(key) = present.first() {
        source(errors, &path.child(key), key, metric.at(key), versions);
    }
    let expected = SOURCES
        .iter()
        .find(|(_, of)| *of == kind)
        .map(|(key, _)| *key);
    match expected {
        Some(key) if !metric.has(key) => {
            let fault = "must populate information for the given metric source";
            errors.push(Error::required(&path.child(key), fault));
        }
        Some(_) => {}
        None => check::one_of(errors, &kind_path, kind, &TYPES),
    }
    if present.len() != 1 {
        for key in present.into_iter().filter(|key| Some(*key) != expected) {
            errors.push(Error::forbidden(
                &path.child(key),
                "must populate the given metric source only",
            ));
        }
    }
}

fn source(errors: &mut Errors, path: &Path, kind: &str, source: &Value, versions: Versions) {
    let (target, target_path) = (source.at("target"), path.child("target"));
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let utilization = target.has("averageUtilization");
    match kind {
        "resource" | "containerResource" => {
            named_resource(errors, path, kind, source);
            self::target(errors, &target_path, target);
            if !utilization && !average {
                let fault = "must set either a target raw value or a target utilization";
                errors.push(Error::required(
                    &target_path.child("averageUtilization"),
                    fault,
                ));
            }
            if utilization && average {
                let fault = "may not set both a target raw value and a target utilization";
                errors.push(Error::forbidden(&target_path.child("averageValue"), fault));
            }
        }
        _ => {
            if kind == "object" {
                reference(
                    errors,
                    &path.child("describedObject"),
                    source.at("describedObject"),
                    versions,
                );
            }
            identifier(
                errors,
                &path.child("metric").child("name"),
                source.at("metric").text("name"),
            );
            self::target(errors, &target_path, target);
            let missing = match kind {
                "pods" if !average => Some("must specify a positive target averageValue"),
                "object" if !value && !average => {
                    Some("must set either a target value or averageValue")
                }
                "external" if !value && !average => {
                    Some("must set either a target value for metric or a per-pod target")
                }
                _ => None,
            };
            if let Some(fault) = missing {
                errors.push(Error::required(&target_path.child("averageValue"), fault));
            }
            if kind == "external" && value && average {
                let fault = "may not set both a target value for metric and a per-pod target";
                errors.push(Error::forbidden(&target_path.child("value"), fault));
            }
        }
    }
}

fn named_resource(errors: &mut Errors, path: &Path, kind: &str, source: &Value) {
    let (name, name_path) = (source.text("name"), path.child("name"));
    if name.is_empty() {
        errors.push(Error::required(&name_path, "must specify a resource name"));
    } else if kind == "containerResource" {
        resources::container_name(errors, &name_path, name);
    }
    if kind == "containerResource" {
        let (container, path) = (source.text("container"), path.child("container"));
        match container {
            "" => errors.push(Error::required(&path, "must specify a container")),
            container => check::faults(errors, &path, container, names::dns1123_label(container)),
        }
    }
}

fn identifier(errors: &mut Errors, path: &Path, name: &str) {
    match name {
        "" => errors.push(Error::required(path, "must specify a metric name")),
        name => check::faults(errors, path, name, names::path_segment(name)),
    }
}

fn target(errors: &mut Errors, path: &Path, target: &Value) {
    let kind = target.text("type");
    if kind.is_empty() {
        errors.push(Error::required(
            &path.child("type"),
            "must specify a metric target type",
        ));
    }
    if !matches!(kind, "AverageValue" | "Utilization" | "Value") {
        let fault = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&path.child("type"), kind, fault));
    }
    for key in ["value", "averageValue"] {
        let amount = resources::amount(target.at(key));
        if target.has(key) && (amount.is_zero() || amount.is_negative()) {
            errors.push(Error::invalid(
                &path.child(key),
                amount.to_string(),
                "must be positive",
            ));
        }
    }
    if let Some(percent) = target
        .number("averageUtilization")
        .filter(|percent| *percent < 1)
    {
        errors.push(Error::invalid(
            &path.child("averageUtilization"),
            percent,
            "must be greater than 0",
        ));
    }
}

fn scaling_rules(errors: &mut Errors, path: &Path, rules: &Value) {
    let (window, window_path) = (
        rules.count("stabilizationWindowSeconds"),
        path.child("stabilizationWindowSeconds"),
    );
    if window < 0 {
        errors.push(Error::invalid(
            &window_path,
            window,
            "must be greater than or equal to zero",
        ));
    }
    if window > MAX_WINDOW {
        let fault = format!("must be less than or equal to {MAX_WINDOW}");
        errors.push(Error::invalid(&window_path, window, fault));
    }
    let policies = ["Disabled", "Max", "Min"];
    check::optional_one_of(
        errors,
        &path.child("selectPolicy"),
        rules.at("selectPolicy"),
        &policies,
    );
    let policies_path = path.child("policies");
    if rules.items("policies").is_empty() {
        errors.push(Error::required(
            &policies_path,
            "must specify at least one Policy",
        ));
    }
    for (i, policy) in rules.items("policies").iter().enumerate() {
        let path = policies_path.index(i);
        check::one_of(
            errors,
            &path.child("type"),
            policy.text("type"),
            &["Percent", "Pods"],
        );
        check::positive(errors, &path.child("value"), policy.count("value"));
        let period = policy.count("periodSeconds");
        check::positive(errors, &path.child("periodSeconds"), period);
        if period > MAX_PERIOD {
            let fault = format!("must be less than or equal to {MAX_PERIOD}");
            errors.push(Error::invalid(&path.child("periodSeconds"), period, fault));
        }
    }
    let tolerance = resources::amount(rules.at("tolerance"));
    if tolerance.is_negative() {
        let fault = "must be greater than or equal to 0";
        errors.push(Error::invalid(
            &path.child("tolerance"),
            tolerance.to_string(),
            fault,
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        let mut autoscaler = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a", "namespace": "n"}, "spec": spec});
        super::super::default(&mut autoscaler);
        create(&autoscaler).iter().map(Error::to_string).collect()
    }

    #[test]
    fn bounds_and_target_are_needed() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        assert_eq!(
            faults(json!({"maxReplicas": 3, "scaleTargetRef": target})),
            Vec::<String>::new()
        );
        assert_eq!(
            faults(
                json!({"minReplicas": 2, "maxReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "d"}})
            ),
            [
                "spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            ]
        );
    }

    #[test]
    fn a_metric_has_the_source_of_its_type() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let metric = json!({"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1}}});
        assert_eq!(
            faults(json!({"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]})),
            [
                "spec.metrics[0].pods: Required value: must populate information for the given metric source"
            ]
        );
    }
}
