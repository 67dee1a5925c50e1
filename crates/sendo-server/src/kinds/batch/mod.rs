//! The kinds of the API group `batch`: Jobs and CronJobs.

mod cron_job;
mod indexes;
mod job;
mod job_spec;
mod job_status;
mod schedule;

use super::Rules;

/// The rules of a kind of `batch`.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "CronJob" => const { &cron_job::RULES },
        "Job" => const { &job::RULES },
        _ => return None,
    })
}
