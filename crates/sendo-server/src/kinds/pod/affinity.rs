//! Validation of affinity, node selectors, tolerations and topology spread constraints.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateAffinity`, `ValidateNodeSelector`,
//!   `validatePodAffinityTerm`, `ValidateMatchLabelKeysAndMismatchLabelKeys`,
//!   `ValidateTolerations`, `validateTaintEffect`, `validateTopologySpreadConstraints`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be in the range 1-100";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn affinity(errors: &mut Errors, path: &Path, affinity: &Value) {
    let nodes = affinity.at("nodeAffinity");
    let nodes_path = path.child("nodeAffinity");
    if nodes.has(REQUIRED) {
        let path = nodes_path.child(REQUIRED);
        node_selector(errors, &path, nodes.at(REQUIRED), LabelValues::Validated);
    }
    for (i, term) in nodes.items(PREFERRED).iter().enumerate() {
        let path = nodes_path.child(PREFERRED).index(i);
        weight(errors, &path, term);
        node_selector_term(
            errors,
            &path.child("preference"),
            term.at("preference"),
            LabelValues::Ignored,
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, path) = (affinity.at(kind), path.child(kind));
        for (i, term) in pods.items(REQUIRED).iter().enumerate() {
            pod_term(errors, &path.child(REQUIRED).index(i), term);
        }
        for (i, term) in pods.items(PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            weight(errors, &path, term);
            pod_term(
                errors,
                &path.child("podAffinityTerm"),
                term.at("podAffinityTerm"),
            );
        }
    }
}

fn weight(errors: &mut Errors, path: &Path, term: &Value) {
    let weight = term.count("weight");
    if !(1..=100).contains(&weight) {
        errors.push(Error::invalid(&path.child("weight"), weight, WEIGHT));
    }
}

/// Whether the values of a selector are checked as label values.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum LabelValues {
    Validated,
    Ignored,
}

pub(crate) fn node_selector(
    errors: &mut Errors,
    path: &Path,
    selector: &Value,
    values: LabelValues,
) {
    let path = &path.child("nodeSelectorTerms");
    if selector.items("nodeSelectorTerms").is_empty() {
        errors.push(Error::required(
            path,
            "must have at least one node selector term",
        ));
    }
    for (i, term) in selector.items("nodeSelectorTerms").iter().enumerate() {
        node_selector_term(errors, &path.index(i), term, values);
    }
}

fn node_selector_term(errors: &mut Errors, path: &Path, term: &Value, values: LabelValues) {
    for (i, requirement) in term.items("matchExpressions").iter().enumerate() {
        node_requirement(
            errors,
            &path.child("matchExpressions").index(i),
            requirement,
            values,
        );
    }
    for (i, requirement) in term.items("matchFields").iter().enumerate() {
        field_requirement(errors, &path.child("matchFields").index(i), requirement);
    }
}

fn node_requirement(
    errors: &mut Errors,
    path: &Path,
    requirement: &Value,
    label_values: LabelValues,
) {
    let values = requirement.items("values");
    let values_path = path.child("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let fault = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&values_path, fault));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let fault = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&values_path, fault));
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let fault = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(Error::required(&values_path, fault));
            }
        }
        operator => {
            let fault = "not a valid selector operator";
            errors.push(Error::invalid(&path.child("operator"), operator, fault));
        }
    }
    check::label_name(errors, &path.child("key"), requirement.text("key"));
    if label_values == LabelValues::Validated {
        for (i, value) in check::texts(requirement, "values").enumerate() {
            check::faults(
                errors,
                &values_path.index(i),
                value,
                names::label_value(value),
            );
        }
    }
}

fn field_requirement(errors: &mut Errors, path: &Path, requirement: &Value) {
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if requirement.items("values").len() != 1 {
                let fault = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(Error::required(&path.child("values"), fault));
            }
        }
        operator => {
            let fault = "not a valid selector operator";
            errors.push(Error::invalid(&path.child("operator"), operator, fault));
        }
    }
    let key = requirement.text("key");
    if key != "metadata.name" {
        errors.push(Error::invalid(
            &path.child("key"),
            key,
            "not a valid field selector key",
        ));
        return;
    }
    for (i, value) in check::texts(requirement, "values").enumerate() {
        check::faults(
            errors,
            &path.child("values").index(i),
            value,
            names::dns1123_subdomain(value),
        );
    }
}

fn pod_term(errors: &mut Errors, path: &Path, term: &Value) {
    for key in ["labelSelector", "namespaceSelector"] {
        check::selector(errors, &path.child(key), term.at(key));
    }
    for namespace in check::texts(term, "namespaces") {
        check::faults(
            errors,
            &path.child("namespace"),
            namespace,
            names::dns1123_label(namespace),
        );
    }
    label_keys(errors, path, term);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(Error::required(
            &path.child("topologyKey"),
            "can not be empty",
        ));
    }
    check::label_name(errors, &path.child("topologyKey"), key);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`, whose values the selector takes from the
/// pod's own labels.
fn label_keys(errors: &mut Errors, path: &Path, term: &Value) {
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let path = path.child(list);
        if !term.items(list).is_empty() && !term.has("labelSelector") {
            errors.push(Error::forbidden(
                &path,
                "must not be specified when labelSelector is not set",
            ));
            continue;
        }
        for (i, key) in check::texts(term, list).enumerate() {
            check::label_name(errors, &path.index(i), key);
        }
    }
    let selector = term.at("labelSelector");
    let mut seen: Vec<&str> = selector
        .entries("matchLabels")
        .map(|(key, _)| key)
        .collect();
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        let position = check::texts(term, "matchLabelKeys").position(|other| other == key);
        if let Some(i) = position.filter(|_| seen.contains(&key)) {
            let fault = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid(&path.index(i), key, fault));
        }
        seen.push(key);
    }
    for (i, key) in check::texts(term, "matchLabelKeys").enumerate() {
        if check::texts(term, "mismatchLabelKeys").any(|other| other == key) {
            let fault = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(Error::invalid(
                &path.child("matchLabelKeys").index(i),
                key,
                fault,
            ));
        }
    }
}

pub(crate) fn tolerations(errors: &mut Errors, path: &Path, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        let operator_path = path.child("operator");
        if !key.is_empty() {
            check::label_name(errors, &path.child("key"), key);
        } else if operator != "Exists" {
            let fault = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&operator_path, operator, fault));
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let fault = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(Error::invalid(&path.child("effect"), effect, fault));
        }
        match operator {
            "" | "Equal" => {
                let faults = names::label_value(value);
                if !faults.is_empty() {
                    errors.push(Error::invalid(&operator_path, value, faults.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let fault = "value must be empty when `operator` is 'Exists'";
                    errors.push(Error::invalid(&operator_path, value, fault));
                }
            }
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(Error::not_supported(&operator_path, operator, &known));
            }
            _ => errors.push(Error::not_supported(
                &operator_path,
                operator,
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() {
            taint_effect(errors, &path.child("effect"), effect);
        }
    }
}

/// Validates the effect of a taint or a toleration.
pub(crate) fn taint_effect(errors: &mut Errors, path: &Path, effect: &str) {
    check::one_of(errors, path, effect, &EFFECTS);
}

pub(super) fn spread(errors: &mut Errors, path: &Path, constraints: &[Value]) {
    let policies = ["Honor", "Ignore"];
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        let (key, action) = (
            constraint.text("topologyKey"),
            constraint.text("whenUnsatisfiable"),
        );
        check::positive(errors, &path.child("maxSkew"), constraint.count("maxSkew"));
        if key.is_empty() {
            errors.push(Error::required(
                &path.child("topologyKey"),
                "can not be empty",
            ));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        check::one_of(errors, &path.child("whenUnsatisfiable"), action, &actions);
        let mut later = constraints[i + 1..].iter();
        if later.any(|other| {
            other.text("topologyKey") == key && other.text("whenUnsatisfiable") == action
        }) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(Error::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = constraint.number("minDomains") {
            let path = path.child("minDomains");
            check::positive(errors, &path, domains);
            if action != "DoNotSchedule" {
                let fault = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.push(Error::invalid(&path, domains, fault));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            check::optional_one_of(
                errors,
                &path.child(policy),
                constraint.at(policy),
                &policies,
            );
        }
        label_keys(errors, &path, constraint);
        check::selector(
            errors,
            &path.child("labelSelector"),
            constraint.at("labelSelector"),
        );
    }
}
