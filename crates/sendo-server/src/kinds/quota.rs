//! Validation of the spec of a ResourceQuota: resource names, scopes and the scope selector.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateResourceQuotaSpec`,
//!   `ValidateResourceQuotaResourceName`, `validateResourceQuotaScopes`,
//!   `validateScopedResourceSelectorRequirement`, `ValidateResourceQuotaUpdate`
//! - `pkg/apis/core/helper/helpers.go`: `IsStandardQuotaResourceName`,
//!   `IsResourceQuotaScopeValidForResource`
//! - `pkg/registry/core/resourcequota/strategy.go`: `WarningsOnCreate`

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::{self, Errors};
use super::ordered::{self, Ordered};
use super::resources;
use super::value::Read;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const EXCLUSIVE_SCOPES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["NotTerminating", "Terminating"],
];

const POD_RESOURCES: [&str; 7] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.memory",
];

pub(super) fn spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    amounts(errors, &path.child("hard"), spec.at("hard"));
    scopes(errors, &path.child("scopes"), spec);
    selector(
        errors,
        &path.child("scopeSelector").child("matchExpressions"),
        spec,
    );
}

/// Validates the resource names and quantities of a quota.
pub(super) fn amounts(errors: &mut Errors, path: &Path, amounts: &Value) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let path = path.key(name);
        resources::name(errors, &path, name);
        if !name.contains('/') && !is_standard(name) {
            errors.push(Error::invalid(
                &path,
                name.as_str(),
                "must be a standard resource for quota",
            ));
        }
        resources::value(errors, &path, name, amount);
    }
}

fn is_standard(name: &str) -> bool {
    (resources::STANDARD.contains(&name) && name != "storage")
        || resources::is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

/// Whether a scope applies to a resource.
fn applies_to(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "CrossNamespacePodAffinity"
        | "NotBestEffort"
        | "NotTerminating"
        | "PriorityClass"
        | "Terminating" => POD_RESOURCES.contains(&resource),
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn resources_outside<'a>(spec: &'a Value, scope: &'a str) -> impl Iterator<Item = &'a str> {
    let names = spec.entries("hard").map(|(name, _)| name);
    names.filter(move |name| is_standard(name) && !applies_to(scope, name))
}

fn scopes(errors: &mut Errors, path: &Path, spec: &Value) {
    let shown = || spec.at("scopes").clone();
    let scopes: Vec<&str> = check::texts(spec, "scopes").collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(Error::invalid(path, shown(), "unsupported scope"));
        }
        for _ in resources_outside(spec, scope) {
            errors.push(Error::invalid(
                path,
                shown(),
                "unsupported scope applied to resource",
            ));
        }
    }
    conflicts(errors, path, &scopes, spec);
}

fn conflicts(errors: &mut Errors, path: &Path, scopes: &[&str], spec: &Value) {
    for pair in EXCLUSIVE_SCOPES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(Error::invalid(
                path,
                spec.at("scopes").clone(),
                "conflicting scopes",
            ));
        }
    }
}

fn selector(errors: &mut Errors, path: &Path, spec: &Value) {
    let selector = spec.at("scopeSelector");
    let mut seen = Vec::new();
    for requirement in selector.items("matchExpressions") {
        let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(
                &path.child("scopeName"),
                scope,
                "unsupported scope",
            ));
        }
        for _ in resources_outside(spec, scope) {
            let fault = "unsupported scope applied to resource";
            errors.push(Error::invalid(path, internal(selector).bad_value(), fault));
        }
        let has_no_values =
            SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if has_no_values && operator != "Exists" {
            let fault = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                         ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                         ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(Error::invalid(&path.child("operator"), operator, fault));
        }
        let values = requirement.items("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let fault = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(Error::required(&path.child("values"), fault));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let fault = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(Error::invalid(
                    &path.child("values"),
                    values.to_vec(),
                    fault,
                ));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let fault = "not a valid selector operator";
                errors.push(Error::invalid(&path.child("operator"), operator, fault));
            }
        }
        seen.push(scope);
    }
    conflicts(errors, path, &seen, spec);
}

/// A scope selector as Kubernetes prints its internal struct in a message.
fn internal(selector: &Value) -> Ordered {
    let requirement = |requirement: &Value| {
        Ordered::new()
            .text("ScopeName", requirement.text("scopeName"))
            .text("Operator", requirement.text("operator"))
            .with("Values", requirement.at("values"))
            .finish()
    };
    let requirements = selector.items("matchExpressions").iter().map(requirement);
    Ordered::new().raw("MatchExpressions", ordered::list(requirements))
}

/// Validates that the scopes did not change.
pub(super) fn fixed_scopes(errors: &mut Errors, new: &Value, old: &Value) {
    let of = |spec: &Value| {
        let mut scopes: Vec<String> = check::texts(spec, "scopes").map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if of(new) != of(old) {
        let path = Path::new("spec").child("scopes");
        errors.push(Error::invalid(
            &path,
            new.at("scopes").clone(),
            "field is immutable",
        ));
    }
}

/// Warnings for requests that exceed the limits of the same quota, and so can never be used.
pub(super) fn warnings(quota: &Value) -> Vec<String> {
    let hard = quota.at("spec").at("hard");
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let (mut request, limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
        if !hard.has(&request) && resource != "ephemeral-storage" {
            request = resource.to_owned();
        }
        if !hard.has(&request) || !hard.has(&limit) {
            continue;
        }
        let (requested, limited) = (
            resources::amount(hard.at(&request)),
            resources::amount(hard.at(&limit)),
        );
        if requested > limited {
            warnings.push(format!(
                "ResourceQuota {request} ({requested}) should be less than {limit} ({limited})"
            ));
        }
    }
    warnings
}
