//! Rules of CronJobs.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/batch/validation/validation.go`: `ValidateCronJobCreate`, `ValidateCronJobUpdate`,
//!   `validateScheduleFormat`, `validateTimeZone`
//! - `pkg/apis/batch/v1/defaults.go`: `SetDefaults_CronJob`
//! - `pkg/registry/batch/cronjob/strategy.go`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::{job, job_spec, schedule};
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, ordered, pod, workloads, writes};

const ZONE_WARNING: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
    https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |cx, cron_job| {
        writes::starts_without_status(cx, cron_job);
        drop_unserved(cron_job);
    },
    prepare_for_update: |cx, new, old| {
        drop_unserved(new);
        writes::spec_moves_generation(cx, new, old);
    },
    validate: |_, cron_job| {
        let mut errors = check::new_metadata(cron_job, Scope::Namespaced, names::dns1123_subdomain);
        validate_spec(&mut errors, cron_job.at("spec"), &Value::Null);
        let name = cron_job.at("metadata").text("name");
        // The controller appends a time of eleven characters to the name of each Job.
        if name.len() > 52 {
            let path = Path::new("metadata").child("name");
            errors.push(Error::invalid(
                &path,
                name,
                "must be no more than 52 characters",
            ));
        }
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        validate_spec(&mut errors, new.at("spec"), old.at("spec"));
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    warnings_on_create: |cron_job| {
        let mut warnings = workloads::pod_name_warnings(cron_job);
        warnings.extend(template_warnings(cron_job));
        warnings
    },
    warnings_on_update: |new, old| {
        let mut warnings = Vec::new();
        if workloads::is_next_generation(new, old) {
            warnings.extend(template_warnings(new));
        }
        if new.at("spec").text("schedule").contains("TZ") {
            warnings.push(ZONE_WARNING.to_owned());
        }
        warnings
    },
    ..Rules::NEUTRAL
};

fn template_warnings(cron_job: &Value) -> Vec<String> {
    let path = Path::new("spec").child("jobTemplate").child("spec");
    let spec = cron_job.at("spec").at("jobTemplate").at("spec");
    job::spec_warnings(&path, spec)
}

fn default(cron_job: &mut Value) {
    let spec = cron_job.object("spec");
    spec.default_if_zero("concurrencyPolicy", "Allow");
    spec.default_to("suspend", false);
    spec.default_to("successfulJobsHistoryLimit", 3);
    spec.default_to("failedJobsHistoryLimit", 1);
    job::default_template(spec.object("jobTemplate").object("spec"));
}

fn validate_spec(errors: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::new("spec");
    schedule(errors, &path.child("schedule"), spec, old);
    check::non_negative(
        errors,
        &path.child("startingDeadlineSeconds"),
        spec.count("startingDeadlineSeconds"),
    );
    if spec.at("timeZone") != old.at("timeZone") {
        time_zone(errors, &path.child("timeZone"), spec.at("timeZone"));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    let policy = spec.text("concurrencyPolicy");
    check::required_one_of(errors, &path.child("concurrencyPolicy"), policy, &policies);
    let (job, job_path) = (
        spec.at("jobTemplate").at("spec"),
        path.child("jobTemplate").child("spec"),
    );
    job_spec::validate(errors, &job_path, job);
    if job.has("selector") {
        let shown = BadValue::Raw(ordered::selector(job.at("selector")));
        errors.push(Error::invalid(
            &job_path.child("selector"),
            shown,
            "`selector` will be auto-generated",
        ));
    }
    if job.is_set("manualSelector") {
        errors.push(Error::not_supported(
            &job_path.child("manualSelector"),
            true,
            &["nil", "false"],
        ));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        check::non_negative(errors, &path.child(key), spec.count(key));
    }
}

/// Validates a schedule. An update may keep a schedule with `TZ=`, which older versions accepted.
fn schedule(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    let text = spec.text("schedule");
    if text.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if let Some(fault) = schedule::fault(text) {
        errors.push(Error::invalid(path, text, fault));
    }
    let fault = match (old.text("schedule").contains("TZ"), text.contains("TZ")) {
        (true, true) if spec.has("timeZone") => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        (false, true) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        _ => return,
    };
    errors.push(Error::invalid(path, text, fault));
}

/// Validates that a time zone exists.
fn time_zone(errors: &mut Errors, path: &Path, zone: &Value) {
    let Some(zone) = zone.as_str() else { return };
    let part = |part: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
        (1..=14).contains(&part.len())
            && part.chars().all(fits)
            && !part.starts_with('-')
            && !matches!(part, "." | "..")
    };
    let mut refuse = |fault: &str| errors.push(Error::invalid(path, zone, fault));
    if zone.is_empty() {
        return refuse("timeZone must be nil or non-empty string");
    }
    if !zone.split('/').all(part) {
        return refuse(&format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("local") {
        refuse(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if let Some(fault) = schedule::zone_fault(zone) {
        refuse(&fault);
    }
}

fn drop_unserved(cron_job: &mut Value) {
    let job_spec = cron_job.object("spec").object("jobTemplate").object("spec");
    pod::prepare::drop_unserved(job_spec.object("template").object("spec"));
}
