//! Validation of updates of a Job's status.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/batch/validation/validation.go`: `ValidateJobUpdateStatus`, `validateJobStatus`,
//!   `ValidateJobStatusUpdate`
//! - `pkg/registry/batch/job/strategy.go`: `getStatusValidationOptions`

use jiff::Timestamp;
use sendo_apimachinery::field::{BadValue, Error, Path};
use serde_json::Value;

use super::indexes;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::Read;

/// A Job with lookups in its status.
struct Job<'a> {
    spec: &'a Value,
    status: &'a Value,
}

impl<'a> Job<'a> {
    fn new(job: &'a Value) -> Self {
        Job {
            spec: job.at("spec"),
            status: job.at("status"),
        }
    }

    /// Whether the condition of a type has this status.
    fn has(&self, kind: &str, status: &str) -> bool {
        let mut conditions = self.status.items("conditions").iter();
        conditions
            .any(|condition| condition.text("type") == kind && condition.text("status") == status)
    }

    fn is(&self, kind: &str) -> bool {
        self.has(kind, "True")
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn is_indexed(&self) -> bool {
        self.spec.text("completionMode") == "Indexed"
    }
}

/// Validates an update of the status.
///
/// A rule that relates several fields of the status is applied only if the update changes one of
/// them, so that other fields of an inconsistent status can still be updated.
pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let path = Path::new("status");
    let (job, before) = (Job::new(new), Job::new(old));
    counts(&mut errors, &path, job.status);
    conditions(&mut errors, &path, &job, &before);
    finished(&mut errors, &path, &job, &before);
    indexes_of(&mut errors, &path, &job, &before);
    numbers(&mut errors, &path, &job, &before);
    contradictions(&mut errors, &path, &job);
    progress(&mut errors, &path, &job, &before);
    errors
}

fn counts(errors: &mut Errors, path: &Path, status: &Value) {
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        check::non_negative(errors, &path.child(key), status.count(key));
    }
    let uncounted = status.at("uncountedTerminatedPods");
    let mut seen: Vec<&str> = Vec::new();
    for list in ["succeeded", "failed"] {
        for (i, uid) in check::texts(uncounted, list).enumerate() {
            let path = path.child("uncountedTerminatedPods").child(list).index(i);
            if uid.is_empty() {
                errors.push(Error::invalid(&path, uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(Error::duplicate(&path, uid));
            } else {
                seen.push(uid);
            }
        }
    }
}

fn refuse_conditions(errors: &mut Errors, path: &Path, fault: impl Into<String>) {
    errors.push(Error::invalid(
        &path.child("conditions"),
        BadValue::Omitted,
        fault,
    ));
}

fn conditions(errors: &mut Errors, path: &Path, job: &Job<'_>, before: &Job<'_>) {
    let changed = |kind: &str| job.is(kind) != before.is(kind);
    let (completed, failed) = (changed("Complete"), changed("Failed"));
    let moved = |key: &str| job.status.at(key) != before.status.at(key);
    if (completed || failed) && job.is("Complete") && job.is("Failed") {
        refuse_conditions(
            errors,
            path,
            "cannot set Complete=True and Failed=true conditions",
        );
    }
    if (completed || changed("FailureTarget")) && job.is("Complete") && job.is("FailureTarget") {
        refuse_conditions(
            errors,
            path,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }
    let time_path = path.child("completionTime");
    let time = job.status.at("completionTime");
    if completed || moved("completionTime") {
        if !time.is_null() && !job.is("Complete") {
            let fault = "cannot set completionTime when there is no Complete=True condition";
            errors.push(Error::invalid(&time_path, time.clone(), fault));
        }
        if time.is_null() && job.is("Complete") {
            errors.push(Error::required(
                &time_path,
                "completionTime is required for Complete jobs",
            ));
        }
    }
    let moment = |key: &str| job.status.text(key).parse::<Timestamp>().ok();
    if (moved("startTime") || moved("completionTime"))
        && let (Some(start), Some(end)) = (moment("startTime"), moment("completionTime"))
        && end < start
    {
        let fault = "must be equal to or after `startTime`";
        errors.push(Error::invalid(&time_path, time.clone(), fault));
    }
    if (failed || moved("failedIndexes")) && job.is("Failed") && !job.is("FailureTarget") {
        let fault = "cannot set Failed=True condition without the FailureTarget=true condition";
        refuse_conditions(errors, path, fault);
    }
    let criteria = changed("SuccessCriteriaMet");
    if (completed || criteria) && job.is("Complete") && !job.is("SuccessCriteriaMet") {
        let fault =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        refuse_conditions(errors, path, fault);
    }
}

fn finished(errors: &mut Errors, path: &Path, job: &Job<'_>, before: &Job<'_>) {
    let ended = job.is_finished() != before.is_finished();
    let moved = |key: &str| job.status.at(key) != before.status.at(key);
    if !job.is_finished() {
        return;
    }
    let active = job.status.count("active");
    if (ended || active != before.status.count("active")) && active > 0 {
        errors.push(Error::invalid(
            &path.child("active"),
            active,
            "active>0 is invalid for finished job",
        ));
    }
    let never_started = job.spec.is_set("suspend") && job.spec.number("completions") == Some(0);
    if (ended || moved("startTime")) && !never_started && !job.status.has("startTime") {
        errors.push(Error::required(
            &path.child("startTime"),
            "startTime is required for finished job",
        ));
    }
    let uncounted = job.status.at("uncountedTerminatedPods");
    let is_empty = ["failed", "succeeded"]
        .iter()
        .all(|list| uncounted.items(list).is_empty());
    if (ended || moved("uncountedTerminatedPods")) && !is_empty {
        let shown = Ordered::new()
            .with("Succeeded", uncounted.at("succeeded"))
            .with("Failed", uncounted.at("failed"));
        let path = path.child("uncountedTerminatedPods");
        errors.push(Error::invalid(
            &path,
            shown.bad_value(),
            "must be empty for finished job",
        ));
    }
}

fn indexes_of(errors: &mut Errors, path: &Path, job: &Job<'_>, before: &Job<'_>) {
    let completed = job.status.text("completedIndexes");
    let failed = job.status.at("failedIndexes").as_str();
    let completed_moved = completed != before.status.text("completedIndexes");
    let failed_moved = failed != before.status.at("failedIndexes").as_str();
    let (completed_path, failed_path) =
        (path.child("completedIndexes"), path.child("failedIndexes"));
    let completions = job.spec.number("completions");
    let per_index = job.spec.has("backoffLimitPerIndex");
    if completed_moved && let Some(Err(fault)) = completions.map(|n| indexes::count(completed, n)) {
        let fault = format!("error parsing completedIndexes: {fault}");
        errors.push(Error::invalid(&completed_path, completed, fault));
    }
    if failed_moved
        && per_index
        && let (Some(text), Some(completions)) = (failed, completions)
        && let Err(fault) = indexes::count(text, completions)
    {
        errors.push(Error::invalid(
            &failed_path,
            text,
            format!("error parsing failedIndexes: {fault}"),
        ));
    }
    if completed_moved && !completed.is_empty() && !job.is_indexed() {
        let fault = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(Error::invalid(&completed_path, completed, fault));
    }
    if let Some(text) = failed.filter(|_| failed_moved && !per_index) {
        let fault = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(Error::invalid(&failed_path, text, fault));
    }
    if (failed_moved || completed_moved)
        && let (Some(text), Some(completions)) = (failed, completions)
        && let Some(common) = indexes::first_common(completed, text, completions)
    {
        let fault = format!("failedIndexes and completedIndexes overlap at index: {common}");
        errors.push(Error::invalid(&failed_path, text, fault));
    }
}

fn numbers(errors: &mut Errors, path: &Path, job: &Job<'_>, before: &Job<'_>) {
    let moved = |key: &str| job.status.at(key) != before.status.at(key);
    let ended = job.is_finished() != before.is_finished();
    let terminating = job.status.count("terminating");
    if (ended || moved("terminating")) && terminating > 0 && job.is_finished() {
        let fault = "terminating>0 is invalid for finished job";
        errors.push(Error::invalid(
            &path.child("terminating"),
            terminating,
            fault,
        ));
    }
    if let Some(ready) = job.status.number("ready")
        && (moved("ready") || moved("active"))
        && ready > job.status.count("active")
    {
        errors.push(Error::invalid(
            &path.child("ready"),
            ready,
            "cannot set more ready pods than active",
        ));
    }
}

fn contradictions(errors: &mut Errors, path: &Path, job: &Job<'_>) {
    for kind in ["Failed", "FailureTarget"] {
        if job.is("SuccessCriteriaMet") && job.is(kind) {
            let fault = format!("cannot set SuccessCriteriaMet=True and {kind}=true conditions");
            refuse_conditions(errors, path, fault);
        }
    }
    if job.spec.has("successPolicy") && !job.is("SuccessCriteriaMet") && job.is("Complete") {
        let fault =
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        refuse_conditions(errors, path, fault);
    }
}

/// Validates that a Job does not go back: terminal conditions stay, counters do not decrease, times
/// that are set do not change.
fn progress(errors: &mut Errors, path: &Path, job: &Job<'_>, before: &Job<'_>) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if before.is(kind) && !job.is(kind) {
            refuse_conditions(
                errors,
                path,
                format!("cannot disable the terminal {kind}=True condition"),
            );
        }
    }
    let scales_with_workers =
        job.is_indexed() && job.spec.at("completions") == job.spec.at("parallelism");
    for (key, may_shrink) in [("failed", false), ("succeeded", scales_with_workers)] {
        let count = job.status.count(key);
        if !may_shrink && count < before.status.count(key) {
            let fault = format!("cannot decrease the {key} counter");
            errors.push(Error::invalid(&path.child(key), count, fault));
        }
    }
    let (end, old_end) = (
        job.status.at("completionTime"),
        before.status.at("completionTime"),
    );
    if !end.is_null() && !old_end.is_null() && end != old_end {
        errors.push(Error::invalid(
            &path.child("completionTime"),
            end.clone(),
            "field is immutable",
        ));
    }
    let (start, old_start) = (job.status.at("startTime"), before.status.at("startTime"));
    let resumes = before.is("Suspended") && job.has("Suspended", "False");
    if !old_start.is_null() && start != old_start && !resumes && !job.spec.is_set("suspend") {
        let fault = "field is immutable for unsuspended job once set";
        errors.push(Error::invalid(
            &path.child("startTime"),
            start.clone(),
            fault,
        ));
    }
    if before.is("SuccessCriteriaMet") && !job.is("SuccessCriteriaMet") {
        refuse_conditions(
            errors,
            path,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
    }
    if before.is("Complete") && !before.is("SuccessCriteriaMet") && job.is("SuccessCriteriaMet") {
        let fault =
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        refuse_conditions(errors, path, fault);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(new: Value, old: Value) -> Vec<String> {
        let job = |status: Value| {
            json!({"metadata": {"name": "j", "namespace": "n", "resourceVersion": "1"},
                   "spec": {"completions": 1, "parallelism": 1, "completionMode": "NonIndexed"}, "status": status})
        };
        validate_update(&job(new), &job(old))
            .iter()
            .map(Error::to_string)
            .collect()
    }

    fn conditions(kinds: &[&str]) -> Value {
        kinds
            .iter()
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect()
    }

    #[test]
    fn a_job_completes_with_all_it_takes() {
        let start = "2026-01-01T00:00:00Z";
        let done = json!({"startTime": start, "completionTime": start, "succeeded": 1,
                          "conditions": conditions(&["SuccessCriteriaMet", "Complete"])});
        assert_eq!(
            faults(done.clone(), json!({"startTime": start})),
            Vec::<String>::new()
        );
        assert_eq!(
            faults(json!({"conditions": conditions(&["Complete"])}), json!({})),
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: \
                 cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
        assert!(
            faults(json!({"startTime": start}), done)[0]
                .contains("cannot disable the terminal Complete=True")
        );
    }
}
