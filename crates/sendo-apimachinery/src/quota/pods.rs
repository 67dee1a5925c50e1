//! What pods use, what a quota demands of them, and their scopes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/quota/v1/evaluator/core/pods.go`
//! - `pkg/apis/core/v1/helper/helpers.go`: `IsExtendedResourceName`
//! - `pkg/apis/core/v1/helper/qos/qos.go`: `GetPodQOS`

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::ScopeRequirement;
use super::amounts::{self, Amounts};
use super::requirements::{self, List};
use crate::meta::Meta;

/// What can be limited of pods beside their count, huge pages and extended resources.
const NAMES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// What every container must say once it is limited. Later resources are not demanded.
const DEMANDED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

const REQUESTS: &str = "requests.";
/// The extended resources that classes of devices are.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Whether pods use something of that name.
pub(super) fn uses(name: &str) -> bool {
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || is_extended_for_quota(name)
}

/// Whether a limit is one of an extended resource.
pub(super) fn is_extended_for_quota(name: &str) -> bool {
    name.strip_prefix(REQUESTS)
        .is_some_and(|resource| !is_native(name) || resource.starts_with(DEVICE_CLASS))
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a container asks for a resource that some device plug-in or driver offers.
fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || (!is_native(name) && !name.starts_with(REQUESTS))
}

/// Refuses a pod whose containers leave open what is limited, unless it says it as a whole.
pub(super) fn check(limited: &BTreeSet<&str>, pod: &Value) -> Result<(), String> {
    if requirements::asks_as_a_whole(pod) {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            let said = compute(
                &amounts::read(&resources["requests"]),
                &amounts::read(&resources["limits"]),
            );
            let name = container["name"].as_str().unwrap_or_default();
            for resource in DEMANDED {
                if limited.contains(resource) && !said.contains_key(resource) {
                    missing.entry(resource).or_default().insert(name);
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let told = missing.into_iter().map(|(resource, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{resource} for: {}", containers.join(","))
    });
    let told: Vec<String> = told.collect();
    Err(format!("must specify {}", told.join("; ")))
}

/// What a pod uses; one that has ended uses nothing but its place in the store.
pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if !is_counted(pod, now) {
        return Amounts::new();
    }
    compute(
        &requirements::of_pod(pod, List::Requests),
        &requirements::of_pod(pod, List::Limits),
    )
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([amounts::one("pods")]);
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(resource) {
            usage.insert(resource.to_owned(), request.clone());
            usage.insert(format!("{REQUESTS}{resource}"), request.clone());
        }
        if let Some(limit) = limits.get(resource) {
            usage.insert(format!("limits.{resource}"), limit.clone());
        }
    }
    for (resource, request) in requests {
        if resource.starts_with("hugepages-") {
            usage.insert(resource.clone(), request.clone());
            usage.insert(format!("{REQUESTS}{resource}"), request.clone());
        }
        if is_extended(resource) {
            usage.insert(format!("{REQUESTS}{resource}"), request.clone());
        }
    }
    usage
}

/// Whether a pod has not ended: by its phase, or because the time it had to end has passed.
pub fn is_counted(pod: &Value, now: Timestamp) -> bool {
    if let Some("Failed" | "Succeeded") = pod["status"]["phase"].as_str() {
        return false;
    }
    let meta = Meta::new(pod);
    let deleted = meta.deletion_timestamp();
    let deleted = deleted.and_then(|time| time.parse::<Timestamp>().ok());
    let (Some(deleted), Some(grace)) = (deleted, meta.deletion_grace_period_seconds()) else {
        return true;
    };
    now <= deleted + Duration::from_secs(grace.max(0).unsigned_abs())
}

/// Whether a pod may run only for so long.
pub fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0)
}

pub(super) fn is_in_scope(pod: &Value, selector: &ScopeRequirement<'_>) -> bool {
    match selector.scope {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod["spec"]["priorityClassName"].as_str();
            selector.holds(class.filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        _ => false,
    }
}

/// Whether neither the pod nor a container asks for cpu or memory.
fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod["status"]["qosClass"]
        .as_str()
        .filter(|class| !class.is_empty())
    {
        return class == "BestEffort";
    }
    let asks = |resources: &Value| {
        let lists = [&resources["requests"], &resources["limits"]];
        let asked = lists
            .into_iter()
            .flat_map(|list| [&list["cpu"], &list["memory"]]);
        asked
            .map(amounts::amount)
            .any(|amount| !amount.is_zero() && !amount.is_negative())
    };
    let spec = &pod["spec"];
    if !spec["resources"].is_null() {
        return !asks(&spec["resources"]);
    }
    let lists = ["containers", "initContainers"];
    let lists = lists.iter().filter_map(|list| spec[list].as_array());
    !lists
        .flatten()
        .any(|container| asks(&container["resources"]))
}

fn reaches_other_namespaces(pod: &Value) -> bool {
    let is_named = |term: &Value| {
        let listed = term["namespaces"].as_array();
        listed.is_some_and(|namespaces| !namespaces.is_empty())
            || !term["namespaceSelector"].is_null()
    };
    let affinity = &pod["spec"]["affinity"];
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let list = |when: &str| affinity[kind][when].as_array().into_iter().flatten();
        let mut required = list("requiredDuringSchedulingIgnoredDuringExecution");
        let mut preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        required.any(is_named) || preferred.any(|term| is_named(&term["podAffinityTerm"]))
    })
}
