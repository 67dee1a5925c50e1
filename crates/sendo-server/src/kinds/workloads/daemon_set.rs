//! Rules of DaemonSets.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidateDaemonSet`, `ValidateDaemonSetUpdate`,
//!   `ValidateDaemonSetStatusUpdate`
//! - `pkg/apis/apps/v1/defaults.go`: `SetDefaults_DaemonSet`
//! - `pkg/apis/apps/v1/conversion.go`: `Convert_apps_DaemonSet_To_v1_DaemonSet`,
//!   `Convert_v1_DaemonSet_To_apps_DaemonSet`
//! - `pkg/registry/apps/daemonset/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::parts;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, writes};

/// The annotation that holds `templateGeneration`, a field of older API versions that counts
/// changes of the template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) const RULES: Rules = Rules {
    default,
    field_annotation: Some(TEMPLATE_GENERATION),
    prepare_for_create: |cx, set| {
        super::create(cx, set);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    },
    prepare_for_update,
    validate: |_, set| {
        let mut errors = check::new_metadata(set, Scope::Namespaced, names::dns1123_subdomain);
        validate_spec(&mut errors, set.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        super::fixed_selector(&mut errors, new, old);
        validate_spec(&mut errors, new.at("spec"));
        errors
    },
    validate_status_update: |_, new, old| validate_status_update(new, old),
    warnings_on_create: super::template_warnings,
    warnings_on_update: |new, old| match template_generation(new) != template_generation(old) {
        true => super::template_warnings(new),
        false => Vec::new(),
    },
    prepare_for_status_update: |cx, new, old| {
        writes::status_with_metadata(cx, new, old);
        set_template_generation(new, template_generation(old));
    },
    ..Rules::NEUTRAL
};

fn default(set: &mut Value) {
    // The internal field is an integer, so the annotation is always present.
    set_template_generation(set, template_generation(set));
    let spec = set.object("spec");
    let strategy = spec.object("updateStrategy");
    strategy.default_if_zero("type", "RollingUpdate");
    let rolls = strategy.text("type") == "RollingUpdate";
    if rolls || strategy.has("rollingUpdate") {
        let rolling_update = strategy.object("rollingUpdate");
        rolling_update.default_to("maxUnavailable", i32::from(rolls));
        rolling_update.default_to("maxSurge", 0);
    }
    spec.default_to("revisionHistoryLimit", 10);
    pod::defaults::template(spec.object("template"));
}

fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    super::update(cx, new, old);
    let template = |set: &Value| set.at("spec").at("template").clone();
    let changed = template(new) != template(old);
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

fn template_generation(set: &Value) -> i64 {
    let annotation = set
        .at("metadata")
        .at("annotations")
        .text(TEMPLATE_GENERATION);
    annotation.parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.object("metadata").object("annotations");
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let template_path = path.child("template");
    check::selector(errors, &path.child("selector"), selector);
    if let Some(selector) = parts::parsed(selector) {
        parts::matching_labels(errors, &template_path, template, &selector);
    }
    if !selector.is_null() {
        parts::not_empty(errors, &path.child("selector"), selector, "daemonset");
    }
    pod::validate::template(errors, &template_path, template);
    parts::runs_forever(errors, &template_path, template, "DaemonSet");
    check::non_negative(
        errors,
        &path.child("minReadySeconds"),
        spec.count("minReadySeconds"),
    );
    update_strategy(
        errors,
        &path.child("updateStrategy"),
        spec.at("updateStrategy"),
    );
    check::non_negative(
        errors,
        &path.child("revisionHistoryLimit"),
        spec.count("revisionHistoryLimit"),
    );
}

fn update_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling_update = strategy.at("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling_update.is_null() => {
            errors.push(Error::required(&rolling_path, ""))
        }
        "RollingUpdate" => self::rolling_update(errors, &rolling_path, rolling_update),
        kind => {
            let numbers = match rolling_update {
                Value::Null => "null".to_owned(),
                numbers => Ordered::new()
                    .with("MaxUnavailable", numbers.at("maxUnavailable"))
                    .with("MaxSurge", numbers.at("maxSurge"))
                    .finish(),
            };
            let shown = Ordered::new()
                .text("Type", kind)
                .raw("RollingUpdate", numbers);
            errors.push(Error::not_supported(
                path,
                shown.bad_value(),
                &["RollingUpdate", "OnDelete"],
            ));
        }
    }
}

/// Validates a rolling update: exactly one of `maxUnavailable` and `maxSurge` is not zero.
fn rolling_update(errors: &mut Errors, path: &Path, rolling_update: &Value) {
    let (unavailable, surge) = (
        rolling_update.at("maxUnavailable"),
        rolling_update.at("maxSurge"),
    );
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    parts::number_or_percent(errors, &unavailable_path, unavailable);
    parts::number_or_percent(errors, &surge_path, surge);
    parts::at_most_all(errors, &unavailable_path, unavailable);
    parts::at_most_all(errors, &surge_path, surge);
    match (parts::is_none(unavailable), parts::is_none(surge)) {
        (false, false) => {
            let fault = "may not be set when maxUnavailable is non-zero";
            errors.push(Error::invalid(&surge_path, surge.clone(), fault));
        }
        (true, true) => errors.push(Error::required(
            &unavailable_path,
            "cannot be 0 when maxSurge is 0",
        )),
        _ => {}
    }
}

fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let path = Path::new("status");
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    parts::counts(&mut errors, &path, new.at("status"), &counts);
    parts::collisions(&mut errors, &path, new, old);
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_daemon_set_replaces_one_pod_at_a_time() {
        let mut set = json!({});
        default(&mut set);
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
        );
    }

    #[test]
    fn a_rolling_update_is_completed_whatever_the_strategy() {
        let mut set =
            json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}});
        default(&mut set);
        assert_eq!(
            set["spec"]["updateStrategy"]["rollingUpdate"],
            json!({"maxSurge": 0, "maxUnavailable": 0})
        );
        let mut set = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        default(&mut set);
        assert_eq!(set["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        let random = sendo_world::Random::from_seed(1);
        let cx = Cx {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &random,
            api_version: "apps/v1",
            user: &crate::request::user::User::admin(),
        };
        let mut set = json!({"spec": {"template": {"spec": {}}}});
        (RULES.prepare_for_create)(&cx, &mut set);
        assert_eq!(template_generation(&set), 1);
        let mut new = set.clone();
        new["spec"]["minReadySeconds"] = 5.into();
        (RULES.prepare_for_update)(&cx, &mut new, &set);
        assert_eq!(
            (template_generation(&new), &new["metadata"]["generation"]),
            (1, &json!(2))
        );
        new["spec"]["template"]["spec"]["nodeName"] = "n".into();
        (RULES.prepare_for_update)(&cx, &mut new, &set);
        assert_eq!(template_generation(&new), 2);
    }
}
