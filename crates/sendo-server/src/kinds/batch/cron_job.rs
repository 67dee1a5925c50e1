//! CronJobs.

use serde_json::Value;

use super::job;
use crate::kinds::value::Write;
use crate::kinds::{Rules, pod, writes};

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
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};

fn default(cron_job: &mut Value) {
    let spec = cron_job.object("spec");
    spec.default_if_zero("concurrencyPolicy", "Allow");
    spec.default_to("suspend", false);
    spec.default_to("successfulJobsHistoryLimit", 3);
    spec.default_to("failedJobsHistoryLimit", 1);
    job::default_template(spec.object("jobTemplate").object("spec"));
}

fn drop_unserved(cron_job: &mut Value) {
    let job_spec = cron_job.object("spec").object("jobTemplate").object("spec");
    pod::prepare::drop_unserved(job_spec.object("template").object("spec"));
}
