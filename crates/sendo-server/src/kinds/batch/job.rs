//! Rules of Jobs.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/batch/job/storage/storage.go`: `Delete`
//! - `pkg/apis/batch/validation/validation.go`: `ValidateJob`, `validateGeneratedSelector`,
//!   `ValidateJobUpdate`, `ValidateJobSpecUpdate`, `validateCompletions`,
//!   `validatePodTemplateUpdate`
//! - `pkg/apis/batch/v1/defaults.go`: `SetDefaults_Job`
//! - `pkg/api/job/warnings.go`: `WarningsForJobSpec`
//! - `pkg/registry/batch/job/strategy.go`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use sendo_apimachinery::selector::LabelSelector;
use serde_json::{Map, Value};

use super::{job_spec, job_status};
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{
    Cx, Dependents, NAMESPACE, Rules, UnknownFields, internal, ordered, pod, workloads, writes,
};

/// Labels that select the pods of one Job. Each pair is the current label and its legacy name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

const ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
                       to remove them or set propagationPolicy=Orphan to suppress this warning";

pub(super) const RULES: Rules = Rules {
    default: |job| {
        default_labels(job);
        default_spec(job.object("spec"));
    },
    prepare_for_create,
    prepare_for_update: |cx, new, old| {
        drop_unserved(new);
        writes::spec_moves_generation(cx, new, old);
    },
    validate: |_, job| validate(job),
    validate_update: |_, new, old| {
        let mut errors = validate(new);
        errors.extend(validate_update(new, old));
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| job_status::validate_update(new, old),
    warnings_on_create: warnings,
    warnings_on_update: |new, old| match workloads::is_next_generation(new, old) {
        true => spec_warnings(&Path::new("spec"), new.at("spec")),
        false => Vec::new(),
    },
    // A Job without labels also takes the labels that were generated for its pod template.
    canonicalize: default_labels,
    selectable_fields: &[
        NAMESPACE,
        ("status.successful", |job| {
            job.at("status").count("succeeded").to_string()
        }),
    ],
    unknown_fields: UnknownFields::NotSupportedFor("Job"),
    allow_unconditional_update: true,
    dependents: Dependents::OrphanedWithWarning(ORPHANS),
    ..Rules::NEUTRAL
};

/// Copies the labels of the pod template to a Job without labels.
fn default_labels(job: &mut Value) {
    let template = job.at("spec").at("template");
    let labels = template.at("metadata").at("labels").clone();
    if labels.is_object() && job.at("metadata").entries("labels").next().is_none() {
        job.object("metadata").set("labels", labels);
    }
}

/// Sets the defaults of a Job's spec, including its pod template.
pub(super) fn default_spec(spec: &mut Value) {
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.set("completions", 1);
    }
    spec.default_to("parallelism", 1);
    let retries = if spec.has("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    spec.default_to("backoffLimit", retries);
    spec.default_to("completionMode", "NonIndexed");
    spec.default_to("suspend", false);
    let replacement = if spec.has("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    spec.default_to("podReplacementPolicy", replacement);
    spec.default_to("manualSelector", false);
    default_template(spec);
}

/// Sets the defaults that apply to a Job's spec both in a Job and in a CronJob's template.
pub(super) fn default_template(spec: &mut Value) {
    pod::defaults::template(spec.object("template"));
    if let Some(policy) = spec.existing("podFailurePolicy") {
        for rule in policy.items_mut("rules") {
            for pattern in rule.items_mut("onPodConditions") {
                pattern.default_if_zero("status", "True");
            }
        }
    }
}

fn prepare_for_create(cx: &Cx<'_>, job: &mut Value) {
    if !job.at("spec").is_set("manualSelector") {
        generate_selector(job);
    }
    writes::starts_without_status(cx, job);
    drop_unserved(job);
}

/// Generates a selector by the Job's uid. Labels that contradict it are kept for validation to
/// refuse.
fn generate_selector(job: &mut Value) {
    let name = job.at("metadata").text("name").to_owned();
    let uid = job.at("metadata").text("uid").to_owned();
    let spec = job.object("spec");
    let labels = spec.object("template").object("metadata").object("labels");
    for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for key in keys {
            labels.default_to(key, value.as_str());
        }
    }
    spec.object("selector")
        .object("matchLabels")
        .default_to(UID_LABELS[0], uid);
}

fn drop_unserved(job: &mut Value) {
    pod::prepare::drop_unserved(job.object("spec").object("template").object("spec"));
}

fn validate(job: &Value) -> Errors {
    let mut errors = check::new_metadata(job, Scope::Namespaced, names::dns1123_subdomain);
    generated_selector(&mut errors, job);
    spec_with_selector(&mut errors, job.at("spec"));
    let (name, spec) = (job.at("metadata").text("name"), job.at("spec"));
    if let Some(completions) = spec
        .number("completions")
        .filter(|completions| *completions > 0)
        && spec.text("completionMode") == "Indexed"
    {
        let last = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&last).is_empty() {
            let fault = format!("will not able to create pod with invalid DNS label: {last}");
            errors.push(Error::invalid(
                &Path::new("metadata").child("name"),
                name,
                fault,
            ));
        }
    }
    errors
}

/// Validates the generated selector and the labels it selects by.
fn generated_selector(errors: &mut Errors, job: &Value) {
    let spec = job.at("spec");
    if spec.is_set("manualSelector") || !spec.has("selector") {
        return;
    }
    let (uid, name) = (
        job.at("metadata").text("uid"),
        job.at("metadata").text("name"),
    );
    check::required(errors, &Path::new("metadata").child("uid"), uid);
    let labels = spec.at("template").at("metadata").at("labels");
    let path = Path::new("spec")
        .child("template")
        .child("metadata")
        .child("labels");
    let expected = [
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
    ];
    for (key, value) in expected {
        let fault = format!("must be '{value}'");
        match labels.at(key).as_str() {
            None => errors.push(Error::required(&path.key(key), fault)),
            Some(found) if found != value => {
                errors.push(Error::invalid(&path.key(key), labels.clone(), fault));
            }
            Some(_) => {}
        }
    }
    let labels: Map<String, Value> = expected
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    if parsed(spec.at("selector")).is_some_and(|selector| !selector.matches(&labels)) {
        let shown = BadValue::Raw(ordered::selector(spec.at("selector")));
        let path = Path::new("spec").child("selector");
        errors.push(Error::invalid(
            &path,
            shown,
            "`selector` not auto-generated",
        ));
    }
}

fn parsed(selector: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(Some(selector).filter(|selector| !selector.is_null())).ok()
}

fn spec_with_selector(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    job_spec::validate(errors, &path, spec);
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.push(Error::required(&path.child("selector"), ""));
    } else {
        check::selector(errors, &path.child("selector"), selector);
    }
    let labels = spec.at("template").at("metadata").at("labels");
    let none = Map::new();
    if parsed(selector)
        .is_some_and(|selector| !selector.matches(labels.as_object().unwrap_or(&none)))
    {
        let path = path.child("template").child("metadata").child("labels");
        errors.push(Error::invalid(
            &path,
            labels.clone(),
            "`selector` does not match template `labels`",
        ));
    }
}

/// Validates an update. Most of the spec is immutable; the scheduling directives and resources of a
/// suspended Job may change.
fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (spec, old_spec, path) = (new.at("spec"), old.at("spec"), Path::new("spec"));
    spec_with_selector(&mut errors, spec);
    completions(&mut errors, &path.child("completions"), spec, old_spec);
    if spec.at("selector") != old_spec.at("selector") {
        let shown = BadValue::Raw(ordered::selector(spec.at("selector")));
        errors.push(Error::invalid(
            &path.child("selector"),
            shown,
            "field is immutable",
        ));
    }
    template(&mut errors, &path, spec, old);
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        let (path, new, old) = (path.child(key), spec.at(key), old_spec.at(key));
        match key {
            "podFailurePolicy" => unchanged(&mut errors, &path, "*PodFailurePolicy", new, old),
            "successPolicy" => unchanged(&mut errors, &path, "*SuccessPolicy", new, old),
            _ => check::immutable(&mut errors, &path, new, old),
        }
    }
    errors
}

/// Reports a change of an immutable field. `kind` is its internal Go type, for the message.
fn unchanged(errors: &mut Errors, path: &Path, kind: &str, new: &Value, old: &Value) {
    if new != old {
        let shown = internal::bad_value(kind, new);
        errors.push(Error::invalid(path, shown, "field is immutable"));
    }
}

/// Validates a change of `completions`, which an Indexed Job may make together with `parallelism`.
fn completions(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    if spec.text("completionMode") != "Indexed" {
        check::immutable(errors, path, spec.at("completions"), old.at("completions"));
        return;
    }
    let Some(completions) = spec.number("completions") else {
        return;
    };
    if Some(completions) != old.number("completions") && completions != spec.count("parallelism") {
        let fault = "can only be modified in tandem with spec.parallelism";
        errors.push(Error::invalid(path, completions, fault));
    }
}

fn template(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    let (template, status) = (spec.at("template"), old.at("status"));
    let mut old_template = old.at("spec").at("template").clone();
    let mut conditions = status.items("conditions").iter();
    let is_suspended =
        conditions.any(|c| c.text("type") == "Suspended" && c.text("status") == "True");
    let waits = old.at("spec").is_set("suspend");
    let may_change =
        waits && (!status.has("startTime") || is_suspended) && status.count("active") == 0;
    if may_change {
        copy_scheduling_directives(&mut old_template, template);
        copy_resources(&mut old_template, template);
        let (new, old) = (template.at("spec"), old_template.at("spec"));
        unchanged(errors, &path.child("template.spec"), "PodSpec", new, old);
    } else {
        let path = path.child("template");
        unchanged(errors, &path, "PodTemplateSpec", template, &old_template);
    }
}

/// Copies the mutable scheduling directives.
fn copy_scheduling_directives(old: &mut Value, new: &Value) {
    for key in ["annotations", "labels"] {
        old.object("metadata").copy_from(key, new.at("metadata"));
    }
    let (spec, new) = (old.object("spec"), new.at("spec"));
    for key in ["nodeSelector", "schedulingGates", "tolerations"] {
        spec.copy_from(key, new);
    }
    if spec.has("affinity") || new.has("affinity") {
        spec.object("affinity")
            .copy_from("nodeAffinity", new.at("affinity"));
        if spec.at("affinity").as_object().is_some_and(Map::is_empty) && !new.has("affinity") {
            spec.remove("affinity");
        }
    }
}

/// Copies the resources of containers that exist in both templates.
fn copy_resources(old: &mut Value, new: &Value) {
    for key in ["containers", "initContainers"] {
        let new = new.at("spec").items(key);
        let containers = old.object("spec").items_mut(key);
        if containers.len() != new.len() {
            continue;
        }
        for (container, new) in containers.iter_mut().zip(new) {
            if container.text("name") == new.text("name") {
                container.copy_from("resources", new);
            }
        }
    }
}

fn warnings(job: &Value) -> Vec<String> {
    let mut warnings = workloads::pod_name_warnings(job);
    warnings.extend(spec_warnings(&Path::new("spec"), job.at("spec")));
    warnings
}

/// Warnings for the Job spec at `path`.
pub(super) fn spec_warnings(path: &Path, spec: &Value) -> Vec<String> {
    let is_large = spec.text("completionMode") == "Indexed"
        && spec.count("completions") > 100_000
        && spec.count("parallelism") > 10_000;
    let mut warnings = Vec::new();
    if is_large {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
             10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template_path = path.child("template");
    let template = spec.at("template");
    warnings.extend(pod::warnings::of_template(&template_path, template));
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_runs_once_and_retries_six_times() {
        let mut spec = json!({});
        default_spec(&mut spec);
        spec.remove("template");
        assert_eq!(
            spec,
            json!({"backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "manualSelector": false,
                   "parallelism": 1, "podReplacementPolicy": "TerminatingOrFailed", "suspend": false})
        );
    }

    #[test]
    fn completions_are_not_made_up_beside_parallelism() {
        let mut spec = json!({"parallelism": 3, "backoffLimitPerIndex": 1});
        default_spec(&mut spec);
        assert!(!spec.has("completions"));
        assert_eq!(spec["backoffLimit"], i32::MAX);
    }

    #[test]
    fn pods_are_selected_by_the_jobs_uid() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {}});
        generate_selector(&mut job);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
                   "controller-uid": "u", "job-name": "j"})
        );
    }

    fn sound() -> Value {
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let mut job = json!({
            "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": {"template": template},
        });
        (RULES.default)(&mut job);
        generate_selector(&mut job);
        job
    }

    #[test]
    fn labels_of_another_job_are_refused() {
        let mut job = sound();
        assert_eq!(validate(&job), []);
        job["spec"]["template"]["metadata"]["labels"]["job-name"] = "other".into();
        assert_eq!(
            validate(&job)[0].field,
            "spec.template.metadata.labels[job-name]"
        );
    }

    #[test]
    fn only_a_suspended_job_may_move_to_other_nodes() {
        let mut old = sound();
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        assert_eq!(validate_update(&new, &old)[0].field, "spec.template");
        old["spec"]["suspend"] = true.into();
        assert_eq!(validate_update(&new, &old), []);
    }
}
