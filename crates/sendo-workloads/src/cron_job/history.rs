//! The history of a CronJob: the newest finished Jobs are kept.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/cronjob/cronjob_controllerv2.go`: `cleanupFinishedJobs`, `removeOldestJobs`

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use sendo::ObjectExt;

use super::Sync;
use crate::job::finished_condition;

impl Sync<'_> {
    /// Deletes the oldest of the finished Jobs beyond the limits. What cannot be deleted is
    /// reported, and stays until the next sync.
    pub(super) async fn delete_old_jobs(&mut self) {
        let limits = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (condition, limit) in limits {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
                continue;
            };
            let ended = |job: &&Arc<Job>| {
                finished_condition(job).is_some_and(|finished| finished.type_ == condition)
            };
            let mut jobs: Vec<_> = self.jobs.iter().filter(ended).cloned().collect();
            jobs.sort_by_key(|job| {
                let started = job.status.as_ref().and_then(|s| s.start_time.as_ref());
                (
                    started.is_none(),
                    started.map(|time| time.0),
                    job.name().to_owned(),
                )
            });
            let surplus = jobs.len().saturating_sub(limit);
            for job in jobs
                .iter()
                .take(surplus)
                .filter(|job| !job.is_being_deleted())
            {
                if let Err(error) = self.delete(job).await {
                    tracing::debug!(job = %job.key(), %error, "a finished Job could not be deleted");
                }
            }
        }
    }
}
