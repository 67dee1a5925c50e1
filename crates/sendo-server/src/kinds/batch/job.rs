//! Jobs.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Dependents, NAMESPACE, Rules, UnknownFields, pod, writes};

/// Labels that tell a job's pods from all others; each pair is the label of today and the one before it.
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
    prepare_for_status_update: writes::status_with_metadata,
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

/// A job without labels takes those of its template.
fn default_labels(job: &mut Value) {
    let template = job.at("spec").at("template");
    let labels = template.at("metadata").at("labels").clone();
    if labels.is_object() && job.at("metadata").entries("labels").next().is_none() {
        job.object("metadata").set("labels", labels);
    }
}

/// Fills in the spec of a job, its template included.
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

/// Fills in what a job's spec has wherever it stands, in a job or in the template of one.
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

/// Selects the job's own pods by its uid. Labels that say otherwise are left for validation to refuse.
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
}
