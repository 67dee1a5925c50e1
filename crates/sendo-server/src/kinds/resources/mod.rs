//! Names and quantities of compute resources, and validation of requests and limits.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateResourceName`,
//!   `validateContainerResourceName`, `ValidateResourceQuantityValue`,
//!   `ValidateContainerResourceRequirements`, `validateResourceClaimNames`, `validateOverhead`
//! - `pkg/apis/core/helper/helpers.go`: `IsStandardResourceName`, `IsIntegerResourceName`,
//!   `IsExtendedResourceName`, `IsNativeResource`, `IsOvercommitAllowed`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_ResourceList`

pub(super) mod pod_level;

use std::collections::{BTreeMap, BTreeSet};

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use sendo_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::Errors;
use super::value::{Read, Write};

const NEGATIVE: &str = "must be greater than or equal to 0";
const HUGE_PAGES: &str = "hugepages-";

/// The standard resource names, which have no domain.
pub(super) const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// Standard resources whose quantities are integers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The quantity in a JSON value, zero if there is none.
pub(crate) fn amount(value: &Value) -> Quantity {
    let read = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    read.unwrap_or_else(zero)
}

/// Whether two resource lists have equal quantities, in whatever notation.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    let amounts = |list: &Value| -> BTreeMap<String, Quantity> {
        let members = list.as_object().into_iter().flatten();
        members
            .map(|(name, value)| (name.clone(), amount(value)))
            .collect()
    };
    let (one, other) = (amounts(one), amounts(other));
    one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .all(|((name, amount), (other, theirs))| name == other && amount.cmp(theirs).is_eq())
}

/// The text of a quantity if it is fractional.
pub(super) fn fractional(value: &Value) -> Option<String> {
    let amount = amount(value);
    // A quantity too large to be expressed in thousandths has no fraction.
    let milli = amount.milli();
    (milli != i64::MAX && milli % 1000 != 0).then(|| amount.to_string())
}

fn zero() -> Quantity {
    Quantity::from_units(0, sendo_apimachinery::quantity::Format::Decimal)
}

/// Rounds the quantities of a list up to thousandths, the finest precision that is stored.
fn round_up(list: &mut Value) {
    for (_, value) in list.as_object_mut().into_iter().flatten() {
        let mut amount = amount(value);
        let before = amount.clone();
        amount.round_up_to_milli();
        if amount != before {
            *value = amount.to_string().into();
        }
    }
}

/// Applies [`round_up`] to the lists with these names.
pub(super) fn round_up_lists(object: &mut Value, names: &[&str]) {
    for name in names {
        if let Some(list) = object.existing(name) {
            round_up(list);
        }
    }
}

/// Applies [`round_up`] to requests and limits.
pub(super) fn round_up_requirements(resources: &mut Value) {
    round_up_lists(resources, &["limits", "requests"]);
}

/// Sets each missing request to the limit of the same resource.
pub(super) fn requests_from_limits(resources: &mut Value) {
    let limits: Vec<(String, Value)> = resources
        .entries("limits")
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    for (name, value) in limits {
        resources.object("requests").default_to(&name, value);
    }
}

pub(super) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether a resource is native: its name has no domain, or one below `kubernetes.io/`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is an extended resource: one with a domain that is not Kubernetes' own.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a resource may be overcommitted.
pub(super) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Validates a resource name.
pub(super) fn name(errors: &mut Errors, path: &Path, name: &str) {
    let faults = names::qualified_name(name);
    let is_standard =
        STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-");
    if !faults.is_empty() {
        super::check::faults(errors, path, name, faults);
    } else if !name.contains('/') && !is_standard {
        let fault = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(path, name, fault));
    }
}

/// Validates a resource name that a container can request.
pub(super) fn container_name(errors: &mut Errors, path: &Path, resource: &str) {
    name(errors, path, resource);
    if !resource.contains('/') {
        let is_standard =
            matches!(resource, "cpu" | "ephemeral-storage" | "memory") || is_huge_page(resource);
        if !is_standard {
            errors.push(Error::invalid(
                path,
                resource,
                "must be a standard resource for containers",
            ));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.push(Error::invalid(
            path,
            resource,
            "doesn't follow extended resource name standard",
        ));
    }
}

/// Validates a quantity: not negative, and an integer for countable resources.
pub(super) fn value(errors: &mut Errors, path: &Path, resource: &str, value: &Value) {
    let amount = amount(value);
    if amount.is_negative() {
        errors.push(Error::invalid(path, amount.to_string(), NEGATIVE));
    }
    let is_counted = COUNTED.contains(&resource) || is_extended(resource);
    if is_counted && amount.milli() % 1000 != 0 {
        errors.push(Error::invalid(
            path,
            amount.to_string(),
            "must be an integer",
        ));
    }
}

/// Validates the resources of a container. `claims` are the names of the pod's resource claims.
pub(super) fn of_container(errors: &mut Errors, path: &Path, resources: &Value, claims: &[&str]) {
    requirements(errors, path, resources, container_name);
    claim_names(
        errors,
        &path.child("claims"),
        resources.items("claims"),
        claims,
    );
}

/// Validates the overhead of a pod, with the rules of limits.
pub(super) fn overhead(errors: &mut Errors, path: &Path, overhead: &Value) {
    let resources = serde_json::json!({"limits": overhead});
    requirements(errors, path, &resources, container_name);
}

type ValidateName = fn(&mut Errors, &Path, &str);

fn requirements(errors: &mut Errors, path: &Path, resources: &Value, validate_name: ValidateName) {
    let (limits, requests) = (resources.at("limits"), resources.at("requests"));
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (resource, limit) in resources.entries("limits") {
        let path = limits_path.key(resource);
        validate_name(errors, &path, resource);
        value(errors, &path, resource, limit);
        huge_pages(errors, &path, resource, limit);
    }
    for (resource, request) in resources.entries("requests") {
        let path = requests_path.key(resource);
        validate_name(errors, &path, resource);
        value(errors, &path, resource, request);
        if limits.has(resource) {
            within_limit(
                errors,
                &requests_path,
                resource,
                &amount(request),
                &amount(limits.at(resource)),
            );
        } else if !is_overcommittable(resource) {
            let fault = "Limit must be set for non overcommitable resources";
            errors.push(Error::required(&limits_path, fault));
        }
        huge_pages(errors, &path, resource, request);
    }
    let any = |wanted: fn(&str) -> bool| {
        [limits, requests].iter().any(|list| {
            list.as_object()
                .into_iter()
                .flatten()
                .any(|(name, _)| wanted(name))
        })
    };
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
}

fn within_limit(
    errors: &mut Errors,
    path: &Path,
    resource: &str,
    request: &Quantity,
    limit: &Quantity,
) {
    let must = if request != limit && !is_overcommittable(resource) {
        "equal to"
    } else if request > limit {
        "less than or equal to"
    } else {
        return;
    };
    let fault = format!("must be {must} {resource} limit of {limit}");
    errors.push(Error::invalid(path, request.to_string(), fault));
}

/// Validates that a quantity of huge pages is a multiple of the page size.
fn huge_pages(errors: &mut Errors, path: &Path, resource: &str, value: &Value) {
    let Some(size) = resource.strip_prefix(HUGE_PAGES) else {
        return;
    };
    let (size, amount) = (size.parse::<Quantity>(), amount(value));
    let is_whole = size.is_ok_and(|size| {
        let (size, milli) = (size.units(), size.milli());
        size > 0 && milli % 1000 == 0 && amount.units() % size == 0
    });
    if !is_whole {
        let fault = format!("{amount} is not positive integer multiple of {resource}");
        errors.push(Error::invalid(path, amount.to_string(), fault));
    }
}

fn claim_names(errors: &mut Errors, path: &Path, used: &[Value], claims: &[&str]) {
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    for (i, claim) in used.iter().enumerate() {
        let path = path.index(i);
        let (name, request) = (
            claim.text("name").to_owned(),
            claim.text("request").to_owned(),
        );
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if seen.contains(&(name.clone(), String::new())) {
            errors.push(Error::duplicate(&path, name.as_str()));
        } else {
            if !request.is_empty() {
                let faults = names::dns1123_label(&request);
                super::check::faults(errors, &path.child("request"), &request, faults);
            }
            let key = (name.clone(), request.clone());
            if seen.contains(&key) {
                errors.push(Error::duplicate(&path, format!("{name}/{request}")));
            } else if request.is_empty() {
                for _ in seen.iter().filter(|(other, _)| *other == name) {
                    errors.push(Error::duplicate(&path, name.as_str()));
                }
            }
            seen.insert(key);
        }
        if !claims.contains(&name.as_str()) {
            let mut error = Error::not_found(&path, name.as_str());
            let mut known = claims.to_vec();
            known.sort_unstable();
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            error.detail += &match known.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", known.join(", ")),
            };
            errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults_of(resources: Value) -> Vec<String> {
        let mut errors = Vec::new();
        of_container(&mut errors, &Path::new("r"), &resources, &[]);
        errors.iter().map(Error::to_string).collect()
    }

    #[test]
    fn requests_stay_within_limits() {
        let cases = [
            (
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
                None,
            ),
            (
                json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                Some(
                    "r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                ),
            ),
            (
                json!({"requests": {"example.dev/gpu": "1"}}),
                Some(
                    "r.limits: Required value: Limit must be set for non overcommitable resources",
                ),
            ),
            (
                json!({"limits": {"example.dev/gpu": "500m"}}),
                Some("r.limits[example.dev/gpu]: Invalid value: \"500m\": must be an integer"),
            ),
            (
                json!({"limits": {"cpu": "-1"}}),
                Some("r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"),
            ),
            (
                json!({"limits": {"pods": "1"}}),
                Some(
                    "r.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
                ),
            ),
            (
                json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}),
                Some(
                    "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": \
                     3Mi is not positive integer multiple of hugepages-2Mi",
                ),
            ),
        ];
        for (resources, expected) in cases {
            assert_eq!(faults_of(resources).first().map(String::as_str), expected);
        }
    }

    #[test]
    fn amounts_are_rounded_up_to_thousandths() {
        let mut list = json!({"cpu": "100n", "memory": "1Gi"});
        round_up(&mut list);
        assert_eq!(list, json!({"cpu": "1m", "memory": "1Gi"}));
    }
}
