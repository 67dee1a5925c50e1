//! Pod-level resources (`spec.resources` of a pod): defaults and validation.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validatePodResources`,
//!   `validatePodResourceConsistency`
//! - `pkg/apis/core/v1/defaults.go`: `defaultPodRequests`, `defaultHugePagePodLimits`
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `AggregateContainerRequests`,
//!   `AggregateContainerLimits`

use std::collections::BTreeMap;

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::{amount, claim_names, is_huge_page, name, requirements, zero};
use crate::kinds::check::Errors;
use crate::kinds::value::{Read, Write};

/// Sets the defaults of pod-level resources, if some limits or requests are set.
pub(in crate::kinds) fn default(spec: &mut Value) {
    let Some(resources) = spec
        .get("resources")
        .filter(|resources| !resources.is_null())
    else {
        return;
    };
    let has = |list: &str| resources.entries(list).next().is_some();
    if !has("limits") && !has("requests") {
        return;
    }
    for (name, limit) in aggregate(spec, "limits")
        .into_iter()
        .filter(|(name, _)| is_huge_page(name))
    {
        if !spec.at("resources").at("requests").has(&name) {
            spec["resources"]
                .object("limits")
                .default_to(&name, limit.to_string());
        }
    }
    if spec.at("resources").entries("limits").next().is_none() {
        return;
    }
    for (name, request) in aggregate(spec, "requests") {
        if matches!(name.as_str(), "cpu" | "memory") {
            spec["resources"]
                .object("requests")
                .default_to(&name, request.to_string());
        }
    }
    let limits: Vec<(String, Value)> = spec["resources"]
        .entries("limits")
        .filter(|(name, _)| is_pod_level(name))
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    for (name, limit) in limits {
        spec["resources"]
            .object("requests")
            .default_to(&name, limit);
    }
}

/// Validates pod-level resources.
pub(in crate::kinds) fn validate(errors: &mut Errors, path: &Path, spec: &Value, claims: &[&str]) {
    let resources = spec.at("resources");
    if resources.is_null() {
        return;
    }
    if spec.at("os").text("name") == "windows" {
        errors.push(Error::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources.has("claims") {
        let fault = "claims may not be set for Resources at pod-level";
        errors.push(Error::forbidden(&path.child("claims"), fault));
    }
    requirements(errors, path, resources, pod_name);
    let used = resources.items("claims");
    claim_names(errors, &path.child("claims"), used, claims);
    for (name, needed) in aggregate(spec, "requests") {
        let given = resources.at("requests").at(&name);
        if !given.is_null() && needed > amount(given) {
            let fault = format!(
                "must be greater than or equal to aggregate container requests of {needed}"
            );
            errors.push(Error::invalid(
                &path.child("requests").key(&name),
                amount(given).to_string(),
                fault,
            ));
        }
    }
    for (name, needed) in aggregate(spec, "limits")
        .into_iter()
        .filter(|(name, _)| is_huge_page(name))
    {
        let given = resources.at("limits").at(&name);
        if !given.is_null() && needed > amount(given) {
            let fault =
                format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.push(Error::invalid(
                &path.child("limits").key(&name),
                amount(given).to_string(),
                fault,
            ));
        }
    }
    for (i, container) in spec.items("containers").iter().enumerate() {
        for (name, limit) in container.at("resources").entries("limits") {
            let (of_pod, limit) = (resources.at("limits").at(name), amount(limit));
            if !of_pod.is_null() && limit > amount(of_pod) {
                let path = path.child("containers").index(i).key(name).child("limits");
                let fault = format!(
                    "must be less than or equal to pod limits of {}",
                    amount(of_pod)
                );
                errors.push(Error::invalid(&path, limit.to_string(), fault));
            }
        }
    }
}

fn pod_name(errors: &mut Errors, path: &Path, resource: &str) {
    let before = errors.len();
    name(errors, path, resource);
    if errors.len() == before && !is_pod_level(resource) {
        errors.push(Error::not_supported(
            path,
            resource,
            &["cpu", "hugepages-", "memory"],
        ));
    }
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

type Totals = BTreeMap<String, Quantity>;

/// The aggregate of the containers' resources: the larger of the sum of all containers and
/// sidecars, and of the most demanding init container with the sidecars started before it.
fn aggregate(spec: &Value, list: &str) -> Totals {
    let of = |container: &Value| -> Totals {
        let list = container.at("resources").entries(list);
        list.map(|(name, value)| (name.to_owned(), amount(value)))
            .collect()
    };
    let add = |totals: &mut Totals, more: &Totals| {
        for (name, amount) in more {
            totals
                .entry(name.clone())
                .and_modify(|total| total.add(amount))
                .or_insert_with(|| amount.clone());
        }
    };
    let raise = |totals: &mut Totals, other: Totals| {
        for (name, amount) in other {
            let total = totals.entry(name).or_insert_with(zero);
            if amount > *total {
                *total = amount;
            }
        }
    };
    let mut totals = Totals::new();
    for container in spec.items("containers") {
        add(&mut totals, &of(container));
    }
    let (mut sidecars, mut starting) = (Totals::new(), Totals::new());
    for container in spec.items("initContainers") {
        let mut needs = of(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut totals, &needs);
            add(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            add(&mut needs, &sidecars);
        }
        raise(&mut starting, needs);
    }
    raise(&mut totals, starting);
    totals
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_what_runs_side_by_side_or_starts_it() {
        let needs = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "containers": [{"resources": needs("1")}, {"resources": needs("2")}],
            "initContainers": [
                {"resources": needs("1"), "restartPolicy": "Always"},
                {"resources": needs("5")},
            ],
        });
        assert_eq!(aggregate(&spec, "requests")["cpu"].to_string(), "6");
    }

    #[test]
    fn pod_level_requests_follow_from_containers_then_limits() {
        let mut spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
        });
        default(&mut spec);
        assert_eq!(
            spec["resources"]["requests"],
            json!({"cpu": "1", "memory": "1Gi"})
        );
    }
}
