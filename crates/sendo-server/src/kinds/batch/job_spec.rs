//! Validation of a Job's spec, in a Job or in a CronJob's template.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/batch/validation/validation.go`: `validateJobSpec`, `validatePodFailurePolicy`,
//!   `validatePodReplacementPolicy`, `validateSuccessPolicy`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::indexes;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::{self, Ordered};
use crate::kinds::pod;
use crate::kinds::value::Read;

const INDEXED_LIMIT: i64 = 100_000;
const HIGH_COMPLETIONS_LIMIT: i64 = 10_000;
const INDEXED_ONLY: &str = "requires indexed completion mode";
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Validates the spec at `path`, except its selector.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check::non_negative(errors, &path.child(key), spec.count(key));
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let fault = "when maxFailedIndexes is specified";
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), fault));
    }
    if let Some(manager) = spec.at("managedBy").as_str() {
        let path = path.child("managedBy");
        errors.extend(names::domain_prefixed_path(&path, manager));
        if manager.len() > 63 {
            errors.push(Error::too_long(&path, 63));
        }
    }
    completion_mode(errors, path, spec);
    if spec.has("podFailurePolicy") {
        failure_policy(errors, &path.child("podFailurePolicy").child("rules"), spec);
    }
    if spec.has("successPolicy") {
        success_policy(errors, &path.child("successPolicy"), spec);
    }
    if let Some(policy) = spec.at("podReplacementPolicy").as_str() {
        let supported: &[&str] = match spec.has("podFailurePolicy") {
            true => &["Failed"],
            false => &["Failed", "TerminatingOrFailed"],
        };
        check::one_of(
            errors,
            &path.child("podReplacementPolicy"),
            policy,
            supported,
        );
    }
    let template = spec.at("template");
    pod::validate::template(errors, &path.child("template"), template);
    restart_policy(
        errors,
        &path.child("template").child("spec").child("restartPolicy"),
        spec,
    );
}

fn completion_mode(errors: &mut Errors, path: &Path, spec: &Value) {
    let mode = spec.at("completionMode");
    check::optional_one_of(
        errors,
        &path.child("completionMode"),
        mode,
        &["NonIndexed", "Indexed"],
    );
    match mode.as_str() {
        Some("Indexed") => indexed(errors, path, spec),
        None | Some("NonIndexed") => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.number(key) {
                    errors.push(Error::invalid(&path.child(key), number, INDEXED_ONLY));
                }
            }
        }
        Some(_) => {}
    }
}

fn indexed(errors: &mut Errors, path: &Path, spec: &Value) {
    let (completions, parallelism) = (spec.number("completions"), spec.number("parallelism"));
    let failed = spec.number("maxFailedIndexes");
    if completions.is_none() {
        errors.push(Error::required(
            &path.child("completions"),
            "when completion mode is Indexed",
        ));
    }
    let mut refuse = |key: &str, number: i64, fault: String| {
        errors.push(Error::invalid(&path.child(key), number, fault));
    };
    if let Some(parallelism) = parallelism.filter(|parallelism| *parallelism > INDEXED_LIMIT) {
        let fault = format!(
            "must be less than or equal to {INDEXED_LIMIT} when completion mode is Indexed"
        );
        refuse("parallelism", parallelism, fault);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        refuse(
            "maxFailedIndexes",
            failed,
            "must be less than or equal to completions".to_owned(),
        );
    }
    if let Some(failed) = failed.filter(|failed| *failed > INDEXED_LIMIT) {
        refuse(
            "maxFailedIndexes",
            failed,
            format!("must be less than or equal to {INDEXED_LIMIT}"),
        );
    }
    if completions.is_none_or(|completions| completions <= INDEXED_LIMIT)
        || !spec.has("backoffLimitPerIndex")
    {
        return;
    }
    let bound = format!(
        "must be less than or equal to {HIGH_COMPLETIONS_LIMIT} when completions are above {INDEXED_LIMIT} and used with backoff limit \
         per index"
    );
    if failed.is_none() {
        let fault = format!("must be specified when completions is above {INDEXED_LIMIT}");
        errors.push(Error::required(&path.child("maxFailedIndexes"), fault));
    }
    for (key, number) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
        if let Some(number) = number.filter(|number| *number > HIGH_COMPLETIONS_LIMIT) {
            errors.push(Error::invalid(&path.child(key), number, bound.as_str()));
        }
    }
}

/// Validates the pod restart policy: `Always` is not allowed, since the pods of a Job must end.
fn restart_policy(errors: &mut Errors, path: &Path, spec: &Value) {
    match spec.at("template").at("spec").text("restartPolicy") {
        "" | "Always" => errors.push(Error::required(
            path,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        "Never" => {}
        policy @ "OnFailure" => {
            if spec.has("podFailurePolicy") {
                let fault = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(Error::invalid(path, policy, fault));
            }
        }
        policy => errors.push(Error::not_supported(path, policy, &["OnFailure", "Never"])),
    }
}

fn failure_policy(errors: &mut Errors, path: &Path, spec: &Value) {
    let rules = spec.at("podFailurePolicy").items("rules");
    if rules.len() > 20 {
        errors.push(Error::too_many(path, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        failure_action(errors, &path.child("action"), rule.text("action"), spec);
        let conditions = rule.items("onPodConditions");
        if rule.has("onExitCodes") {
            exit_codes(
                errors,
                &path.child("onExitCodes"),
                rule.at("onExitCodes"),
                spec,
            );
        }
        pod_conditions(errors, &path.child("onPodConditions"), conditions);
        let fault = match (rule.has("onExitCodes"), !conditions.is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(Error::invalid(&path, BadValue::Omitted, fault));
    }
}

fn failure_action(errors: &mut Errors, path: &Path, action: &str, spec: &Value) {
    if action.is_empty() {
        let values = ACTIONS.map(|action| format!("\"{action}\"")).join(" ");
        errors.push(Error::required(path, format!("valid values: [{values}]")));
    } else if action == "FailIndex" {
        if !spec.has("backoffLimitPerIndex") {
            let fault = "requires the backoffLimitPerIndex to be set";
            errors.push(Error::invalid(path, action, fault));
        }
    } else {
        check::one_of(errors, path, action, &ACTIONS);
    }
}

fn exit_codes(errors: &mut Errors, path: &Path, codes: &Value, spec: &Value) {
    let (operator, operator_path) = (codes.text("operator"), path.child("operator"));
    if operator.is_empty() {
        errors.push(Error::required(
            &operator_path,
            "valid values: [\"In\" \"NotIn\"]",
        ));
    } else {
        check::one_of(errors, &operator_path, operator, &["In", "NotIn"]);
    }
    if let Some(name) = codes.at("containerName").as_str() {
        let pod = spec.at("template").at("spec");
        let mut containers = pod
            .items("containers")
            .iter()
            .chain(pod.items("initContainers"));
        if !containers.any(|container| container.text("name") == name) {
            let fault = "must be one of the container or initContainer names in the pod template";
            errors.push(Error::invalid(&path.child("containerName"), name, fault));
        }
    }
    let values: Vec<i64> = codes
        .items("values")
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    let path = path.child("values");
    if values.is_empty() {
        let shown = codes.at("values").clone();
        errors.push(Error::invalid(
            &path,
            shown,
            "at least one value is required",
        ));
    } else if values.len() > 255 {
        errors.push(Error::too_many(&path, values.len(), 255));
    }
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(Error::invalid(
                &path.index(i),
                0,
                "must not be 0 for the In operator",
            ));
        }
        if values[..i].contains(value) {
            errors.push(Error::duplicate(&path.index(i), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(Error::invalid(&path, values, "must be ordered"));
    }
}

fn pod_conditions(errors: &mut Errors, path: &Path, patterns: &[Value]) {
    if patterns.len() > 20 {
        errors.push(Error::too_many(path, patterns.len(), 20));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        check::label_name(errors, &path.child("type"), pattern.text("type"));
        check::required_one_of(
            errors,
            &path.child("status"),
            pattern.text("status"),
            &["False", "True", "Unknown"],
        );
    }
}

fn success_policy(errors: &mut Errors, path: &Path, spec: &Value) {
    let rules = spec.at("successPolicy").items("rules");
    if spec.text("completionMode") != "Indexed" {
        let rule = |rule: &Value| {
            Ordered::new()
                .with("SucceededIndexes", rule.at("succeededIndexes"))
                .with("SucceededCount", rule.at("succeededCount"))
                .finish()
        };
        let shown = Ordered::new().raw("Rules", ordered::list(rules.iter().map(rule)));
        errors.push(Error::invalid(path, shown.bad_value(), INDEXED_ONLY));
        return;
    }
    let path = path.child("rules");
    if rules.is_empty() {
        let fault = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&path, fault));
    }
    if rules.len() > 20 {
        errors.push(Error::too_many(&path, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        success_rule(errors, &path.index(i), rule, spec.count("completions"));
    }
}

fn success_rule(errors: &mut Errors, path: &Path, rule: &Value, completions: i64) {
    if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
        let fault = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, fault));
    }
    let mut total = None;
    if let Some(text) = rule.at("succeededIndexes").as_str() {
        let path = path.child("succeededIndexes");
        if text.len() > 64 * 1024 {
            errors.push(Error::too_long(&path, 64 * 1024));
        }
        total = Some(indexes::count(text, completions).unwrap_or_else(|fault| {
            errors.push(Error::invalid(
                &path,
                text,
                format!("error parsing succeededIndexes: {fault}"),
            ));
            0
        }));
    }
    if let Some(count) = rule.number("succeededCount") {
        let path = path.child("succeededCount");
        check::non_negative(errors, &path, count);
        let bounds = [
            (Some(completions), "the number of specified completions"),
            (
                total,
                "the number of indexes in the specified succeededIndexes field",
            ),
        ];
        for (bound, what) in bounds {
            if let Some(bound) = bound.filter(|bound| count > *bound) {
                let fault = format!("must be less than or equal to {bound} ({what})");
                errors.push(Error::invalid(&path, count, fault));
            }
        }
    }
}
