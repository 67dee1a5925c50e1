//! Rules of PriorityClasses and RuntimeClasses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/scheduling/validation/validation.go`: `ValidatePriorityClass`,
//!   `ValidatePriorityClassUpdate`
//! - `pkg/apis/scheduling/v1/helpers.go`: `SystemPriorityClasses`, `IsKnownSystemPriorityClass`
//! - `pkg/apis/scheduling/v1/defaults.go`
//! - `pkg/registry/scheduling/priorityclass/strategy.go`
//! - `pkg/apis/node/validation/validation.go`
//! - `pkg/api/node/util.go`: `GetWarningsForRuntimeClass`
//! - `pkg/registry/node/runtimeclass/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::check::{self, Errors};
use super::ordered::Ordered;
use super::pod::affinity;
use super::value::{Read, Write};
use super::{Rules, node, resources, writes};

/// The highest priority that users may define.
const HIGHEST: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";

/// The predefined system priority classes.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST + 1000),
    ("system-cluster-critical", 2 * HIGHEST),
];

pub(super) const PRIORITY_CLASS: Rules = Rules {
    default: |class| class.default_to("preemptionPolicy", "PreemptLowerPriority"),
    prepare_for_create: |_, class| writes::first_generation(class),
    validate: |_, class| validate_priority_class(class),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        if new.count("value") != old.count("value") {
            errors.push(Error::forbidden(
                &Path::new("value"),
                "may not be changed in an update.",
            ));
        }
        let path = Path::new("preemptionPolicy");
        check::immutable(
            &mut errors,
            &path,
            new.at("preemptionPolicy"),
            old.at("preemptionPolicy"),
        );
        errors
    },
    ..Rules::NEUTRAL
};

pub(super) const RUNTIME_CLASS: Rules = Rules {
    validate: |_, class| validate_runtime_class(class),
    validate_update: |_, new, old| {
        let mut errors = validate_runtime_class(new);
        errors.extend(check::changed_plain_metadata(new, old));
        check::immutable(
            &mut errors,
            &Path::new("handler"),
            new.at("handler"),
            old.at("handler"),
        );
        errors
    },
    warnings_on_create: runtime_class_warnings,
    warnings_on_update: |new, _| runtime_class_warnings(new),
    create_on_update: true,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

fn runtime_class_warnings(class: &Value) -> Vec<String> {
    let labels = class.at("scheduling").entries("nodeSelector");
    let reasons = labels.filter_map(|(label, _)| node::deprecated_label(label));
    reasons
        .map(|why| format!("scheduling.nodeSelector: {why}"))
        .collect()
}

fn validate_priority_class(class: &Value) -> Errors {
    let mut errors = check::new_metadata(class, Scope::Cluster, names::dns1123_subdomain);
    let name = class.at("metadata").text("name");
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(fault) = system_class_fault(class, name) {
            let fault = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {fault}"
            );
            errors.push(Error::forbidden(
                &Path::new("metadata").child("name"),
                fault,
            ));
        }
    } else if class.count("value") > HIGHEST {
        let fault = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(Error::forbidden(&Path::new("value"), fault));
    }
    if let Some(policy) = class.at("preemptionPolicy").as_str() {
        let policies = ["PreemptLowerPriority", "Never"];
        check::required_one_of(
            &mut errors,
            &Path::new("preemptionPolicy"),
            policy,
            &policies,
        );
    }
    errors
}

fn system_class_fault(class: &Value, name: &str) -> Option<String> {
    let Some((_, value)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.count("value") != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    class
        .is_set("globalDefault")
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn validate_runtime_class(class: &Value) -> Errors {
    let mut errors = check::new_plain_metadata(class, Scope::Cluster, names::dns1123_subdomain);
    check::required_name(
        &mut errors,
        &Path::new("handler"),
        class.text("handler"),
        names::dns1123_label,
    );
    let overhead = class.at("overhead");
    if !overhead.is_null() {
        resources::overhead(&mut errors, &Path::new("overhead"), overhead.at("podFixed"));
    }
    let (scheduling, path) = (class.at("scheduling"), Path::new("scheduling"));
    check::labels(
        &mut errors,
        &path.child("nodeSelector"),
        scheduling.at("nodeSelector"),
    );
    let (tolerations, path) = (scheduling.items("tolerations"), path.child("tolerations"));
    affinity::tolerations(&mut errors, &path, tolerations);
    let key = |toleration: &Value| {
        ["key", "operator", "value", "effect"].map(|key| toleration.text(key).to_owned())
    };
    for (i, toleration) in tolerations.iter().enumerate() {
        if tolerations[..i]
            .iter()
            .any(|other| key(other) == key(toleration))
        {
            let shown = Ordered::new()
                .text("Key", toleration.text("key"))
                .text("Operator", toleration.text("operator"))
                .text("Value", toleration.text("value"))
                .text("Effect", toleration.text("effect"))
                .with("TolerationSeconds", toleration.at("tolerationSeconds"));
            errors.push(Error::duplicate(&path.index(i), shown.bad_value()));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn high_priorities_are_kept_for_the_system() {
        let class = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value});
        for (name, value, faults) in [
            ("a", HIGHEST, 0),
            ("a", HIGHEST + 1, 1),
            ("system-node-critical", 2 * HIGHEST + 1000, 0),
            ("system-node-critical", 5, 1),
            ("system-mine", 5, 1),
        ] {
            assert_eq!(
                validate_priority_class(&class(name, value)).len(),
                faults,
                "{name} {value}"
            );
        }
    }
}
