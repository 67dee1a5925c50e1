//! Rules of LimitRanges and ResourceQuotas.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateLimitRange`, `validateLimitRangeTypeName`,
//!   `validateLimitRangeResourceName`, `ValidateResourceQuota`, `ValidateResourceQuotaUpdate`,
//!   `ValidateResourceQuotaStatusUpdate`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_LimitRangeItem`
//! - `pkg/registry/core/limitrange/strategy.go`
//! - `pkg/registry/core/resourcequota/strategy.go`

use std::collections::BTreeSet;

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use sendo_apimachinery::quantity::{Format, Quantity};
use serde_json::{Value, json};

use super::check::{self, Errors};
use super::value::{Read, Write};
use super::{Rules, quota, resources, writes};

/// The resource lists of a limit.
const LISTS: [&str; 5] = [
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

pub(super) const LIMIT_RANGE: Rules = Rules {
    default: |range| {
        for limit in range.object("spec").items_mut("limits") {
            default_limit(limit);
            resources::round_up_lists(limit, &LISTS);
        }
    },
    prepare_for_create: |cx, range| {
        if range.at("metadata").text("name").is_empty() {
            range.object("metadata").set("name", cx.random.uuid());
        }
    },
    validate: |_, range| validate_range(range),
    validate_update: |_, new, _| validate_range(new),
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const RESOURCE_QUOTA: Rules = Rules {
    default: |quota| {
        for part in ["spec", "status"] {
            if let Some(part) = quota.existing(part) {
                resources::round_up_lists(part, &["hard", "used"]);
            }
        }
    },
    prepare_for_create: |_, quota| quota.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    validate: |_, quota| {
        let mut errors = check::new_metadata(quota, Scope::Namespaced, names::dns1123_subdomain);
        quota::spec(&mut errors, quota.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        quota::spec(&mut errors, new.at("spec"));
        quota::fixed_scopes(&mut errors, new.at("spec"), old.at("spec"));
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        for list in ["hard", "used"] {
            quota::amounts(
                &mut errors,
                &Path::new("status").child(list),
                new.at("status").at(list),
            );
        }
        errors
    },
    warnings_on_create: quota::warnings,
    ..Rules::NEUTRAL
};

/// Sets the defaults of a container limit: the default limit is the maximum, the default request is
/// the default limit, else the minimum.
fn default_limit(limit: &mut Value) {
    if limit.text("type") != "Container" {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        let amounts: Vec<(String, Value)> = limit
            .entries(from)
            .map(|(name, amount)| (name.to_owned(), amount.clone()))
            .collect();
        for (name, amount) in amounts {
            limit.object(to).default_to(&name, amount);
        }
    }
}

fn validate_range(range: &Value) -> Errors {
    let mut errors = check::new_metadata(range, Scope::Namespaced, names::dns1123_subdomain);
    let path = Path::new("spec").child("limits");
    let mut seen: Vec<&str> = Vec::new();
    for (i, limit) in range.at("spec").items("limits").iter().enumerate() {
        let (path, kind) = (path.index(i), limit.text("type"));
        type_name(&mut errors, &path.child("type"), kind);
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        seen.push(kind);
        names_of_resources(&mut errors, &path, limit);
        for name in resource_names(limit) {
            order_of_amounts(&mut errors, &path, limit, &name);
        }
    }
    errors
}

fn type_name(errors: &mut Errors, path: &Path, kind: &str) {
    let faults = names::qualified_name(kind);
    if !faults.is_empty() {
        check::faults(errors, path, kind, faults);
    } else if !kind.contains('/') && !matches!(kind, "Container" | "PersistentVolumeClaim" | "Pod")
    {
        let fault = "must be a standard limit type or fully qualified";
        errors.push(Error::invalid(path, kind, fault));
    }
}

/// The resource lists of a limit in the order Kubernetes validates them. A limit of type `Pod` has
/// no defaults.
fn lists_of(limit: &Value) -> &'static [&'static str] {
    match limit.text("type") {
        "Pod" => &["max", "min", "maxLimitRequestRatio"],
        _ => &LISTS,
    }
}

fn resource_names(limit: &Value) -> BTreeSet<String> {
    let lists = lists_of(limit).iter();
    lists
        .flat_map(|list| limit.entries(list).map(|(name, _)| name.to_owned()))
        .collect()
}

fn names_of_resources(errors: &mut Errors, path: &Path, limit: &Value) {
    let kind = limit.text("type");
    for list in lists_of(limit) {
        if *list == "maxLimitRequestRatio" {
            if kind == "Pod" {
                no_defaults(errors, path, limit);
            }
            let has_storage = ["max", "min"]
                .iter()
                .any(|list| limit.at(list).has("storage"));
            if kind == "PersistentVolumeClaim" && !has_storage {
                let fault =
                    "either minimum or maximum storage value is required, but neither was provided";
                errors.push(Error::required(&path.child("limits"), fault));
            }
        }
        for (name, _) in limit.entries(list) {
            let path = path.child(list).key(name);
            match kind {
                "Container" | "Pod" => resources::container_name(errors, &path, name),
                _ => resources::name(errors, &path, name),
            }
        }
    }
}

fn no_defaults(errors: &mut Errors, path: &Path, limit: &Value) {
    for list in ["default", "defaultRequest"] {
        if limit.entries(list).next().is_some() {
            let fault = "may not be specified when `type` is 'Pod'";
            errors.push(Error::forbidden(&path.child(list), fault));
        }
    }
}

/// Validates for one resource that minimum ≤ default request ≤ default limit ≤ maximum, and that
/// the limit/request ratio is possible.
fn order_of_amounts(errors: &mut Errors, path: &Path, limit: &Value, name: &str) {
    let amount = |list: &str| {
        let is_validated = lists_of(limit).contains(&list) && limit.at(list).has(name);
        is_validated.then(|| resources::amount(limit.at(list).at(name)))
    };
    let (min, max) = (amount("min"), amount("max"));
    let (request, default) = (amount("defaultRequest"), amount("default"));
    let ratio = amount("maxLimitRequestRatio");
    // (smaller, its name, greater, its name, where it is reported, what is shown)
    let orders = [
        (&min, "min value", &max, "max value", "min", &min),
        (
            &min,
            "min value",
            &request,
            "default request value",
            "defaultRequest",
            &request,
        ),
        (
            &request,
            "default request value",
            &max,
            "max value",
            "defaultRequest",
            &request,
        ),
        (
            &request,
            "default request value",
            &default,
            "default limit value",
            "defaultRequest",
            &request,
        ),
        (
            &min,
            "min value",
            &default,
            "default value",
            "default",
            &min,
        ),
        (
            &default,
            "default value",
            &max,
            "max value",
            "default",
            &max,
        ),
    ];
    for (small, small_name, great, great_name, list, shown) in orders {
        if let (Some(small), Some(great), Some(shown)) = (small, great, shown)
            && small > great
        {
            let fault = format!("{small_name} {small} is greater than {great_name} {great}");
            errors.push(Error::invalid(
                &path.child(list).key(name),
                shown.to_string(),
                fault,
            ));
        }
    }
    let ratio_path = path.child("maxLimitRequestRatio").key(name);
    if let Some(ratio) = &ratio {
        if *ratio < Quantity::from_units(1, Format::Decimal) {
            let fault = format!("ratio {ratio} is less than 1");
            errors.push(Error::invalid(&ratio_path, ratio.to_string(), fault));
        }
        if let (Some(min), Some(max)) = (&min, &max) {
            let most = max.milli() as f64 / min.milli() as f64;
            if ratio.milli() as f64 / 1000.0 > most {
                let fault = format!("ratio {ratio} is greater than max/min = {most:.6}");
                errors.push(Error::invalid(&ratio_path, ratio.to_string(), fault));
            }
        }
    }
    if let (Some(default), Some(request)) = (&default, &request)
        && !resources::is_overcommittable(name)
        && default != request
    {
        let fault = format!(
            "default value {default} must equal to defaultRequest value {request} in {name}"
        );
        errors.push(Error::invalid(
            &path.child("defaultRequest").key(name),
            request.to_string(),
            fault,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_containers_become_their_defaults() {
        let mut limit =
            json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi", "cpu": "1"}});
        default_limit(&mut limit);
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(
            limit["defaultRequest"],
            json!({"cpu": "2", "memory": "1Mi"})
        );
        let mut of_pods = json!({"type": "Pod", "max": {"cpu": "2"}});
        default_limit(&mut of_pods);
        assert_eq!(of_pods, json!({"type": "Pod", "max": {"cpu": "2"}}));
    }

    #[test]
    fn bounds_come_in_order() {
        let mut range = json!({"metadata": {"name": "l", "namespace": "n"}, "spec": {"limits": [
            {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}});
        (LIMIT_RANGE.default)(&mut range);
        let found: Vec<String> = validate_range(&range)
            .iter()
            .map(Error::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": \
                 min value 2 is greater than default request value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1",
            ]
        );
    }
}
