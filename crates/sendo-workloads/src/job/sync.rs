//! One sync of a Job: what its pods have come to, and what follows from that.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/job_controller.go`: `syncJob`, `getNewFinishedPods`, `getFailJobMessage`,
//!   `pastBackoffLimitOnFailure`, `pastActiveDeadline`, `isPodFailed`, `onlyReplaceFailedPods`
//! - `pkg/controller/job/indexed_job_utils.go`: `calculateSucceededIndexes`,
//!   `calculateFailedIndexes`, `isIndexFailed`, `getPodsWithDelayedDeletionPerIndex`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::claim::Claim;
use sendo::{Context, EventSeverity::*, ObjectExt, Result, Selector};

use super::backoff::{self, Failures};
use super::conditions::{self, Cause, Outcome, SUSPENDED};
use super::indexes::{Indexes, completion_index, valid_index};
use super::metrics::JobMetrics;
use super::policy::{self, Verdict};
use super::{FINALIZER, is_tracked};
use crate::pods::control::{self, Failure};
use crate::pods::{self, BY_CONTROLLER, ORPHANS, Pod};

/// The failures of earlier pods of an index, on the pod that replaces them.
pub(super) const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that the pod failure policy ignores.
pub(super) const IGNORED_FAILURE_COUNT: &str =
    "batch.kubernetes.io/job-index-ignored-failure-count";

/// A Job with its pods, and the status that this sync makes of it.
pub(super) struct Sync<'a> {
    /// The Job as last read or written.
    pub(super) job: Job,
    pub(super) spec: JobSpec,
    /// The status to write.
    pub(super) status: JobStatus,
    pub(super) cx: &'a Context,
    pub(super) metrics: &'a JobMetrics,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) active: Vec<Arc<Pod>>,
    /// The number of active pods after this sync.
    pub(super) active_after: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) failures: Failures,
    /// The failures once they are in the written status.
    pub(super) recorded_failures: Option<Failures>,
    pub(super) indexes: Option<IndexedState>,
    pub(super) outcome: Option<Outcome>,
    /// What was done to pods, as metrics name it.
    pub(super) action: &'static str,
    /// After what time to sync again.
    pub(super) again: Option<Duration>,
}

/// What an indexed Job has come to.
pub(super) struct IndexedState {
    pub(super) completions: i32,
    /// The succeeded indexes in the status before this sync.
    pub(super) recorded: Indexes,
    pub(super) succeeded: Indexes,
    /// The failed indexes, if there is a backoff limit per index.
    pub(super) failed: Option<Indexes>,
    /// The pod that failed last of each index that waits for its backoff.
    pub(super) delayed: BTreeMap<i32, Arc<Pod>>,
}

impl<'a> Sync<'a> {
    /// Finds the pods of the Job, and counts those that have newly finished.
    pub(super) async fn begin(
        job: &Job,
        selector: &Selector,
        failures: Failures,
        metrics: &'a JobMetrics,
        cx: &'a Context,
    ) -> Result<Self> {
        let claim = Claim::new(job, selector, &BY_CONTROLLER, &ORPHANS).with_finalizer(FINALIZER);
        let mut pods = claim.claim(pods::is_active, cx).await?;
        pods.sort_by_key(|pod| (completion_index(pod), pod.name().to_owned()));
        let active: Vec<_> = pods
            .iter()
            .filter(|p| pods::is_active(p))
            .cloned()
            .collect();
        let count = |passes: &dyn Fn(&Pod) -> bool| {
            i32::try_from(pods.iter().filter(|pod| passes(pod)).count()).unwrap_or(i32::MAX)
        };
        let terminating = count(&pods::is_terminating);
        let ready = count(&|pod| pods::is_active(pod) && pods::is_ready(pod));
        let mut status = job.status.clone().unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        let mut sync = Sync {
            job: job.clone(),
            spec: job.spec.clone().unwrap_or_default(),
            status,
            cx,
            metrics,
            active_after: count(&pods::is_active),
            pods,
            active,
            ready,
            terminating,
            succeeded: 0,
            failed: 0,
            failures,
            recorded_failures: None,
            indexes: None,
            outcome: None,
            action: "reconciling",
            again: None,
        };
        sync.count();
        Ok(sync)
    }

    /// Does the next step of the Job. Returns after what time to sync again.
    pub(super) async fn advance(&mut self) -> Result<Option<Duration>> {
        if self.status.start_time.is_none() && !self.is_suspended() {
            self.status.start_time = Some(Time(self.cx.now()));
        }
        self.outcome = Outcome::recorded(self.status.conditions.as_deref().unwrap_or_default());
        self.outcome = self.outcome.take().or_else(|| self.failure_of_policy());
        self.outcome = self.outcome.take().or_else(|| self.failure_of_limits());
        self.find_indexes();
        self.outcome = self.outcome.take().or_else(|| self.outcome_of_indexes());

        // A failure is reported in the status before the sync is tried again.
        let managed = match self.outcome.is_some() {
            true => self.delete_active().await,
            false => self.manage_and_conclude().await,
        };
        self.status.active = Some(self.active_after).filter(|active| *active > 0);
        self.status.ready = Some(self.ready);
        self.status.terminating = Some(self.terminating);
        self.track().await?;
        managed?;
        Ok(self.again)
    }

    /// The completion mode, as metrics name it.
    pub(super) fn mode(&self) -> &'static str {
        match self.is_indexed() {
            true => "Indexed",
            false => "NonIndexed",
        }
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether pods are replaced only when they have finished, rather than as soon as they are
    /// being deleted.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => pod.is_being_deleted() && !self.replaces_only_failed(),
        }
    }

    /// What the pod failure policy says about a failed pod.
    pub(super) fn verdict(&self, pod: &Pod) -> Verdict {
        let policy = self.spec.pod_failure_policy.as_ref();
        let rules = policy.map(|policy| policy.rules.as_slice());
        policy::verdict(rules.unwrap_or_default(), pod)
    }

    /// Whether the Job counts a pod that has finished: its index, if it needs one, is valid.
    pub(super) fn has_valid_index(&self, pod: &Pod) -> bool {
        let completions = self.spec.completions.unwrap_or(0);
        !self.is_indexed() || valid_index(pod, completions).is_some()
    }

    /// Syncs again after that time at the latest.
    pub(super) fn sync_again_in(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |known| known.min(delay)));
    }

    /// Counts the pods that have finished and are not counted in the status yet.
    fn count(&mut self) {
        let uncounted = self.status.uncounted_terminated_pods.clone();
        let uncounted = uncounted.unwrap_or_default();
        let (succeeded, failed) = (
            uncounted.succeeded.unwrap_or_default(),
            uncounted.failed.unwrap_or_default(),
        );
        let new = |known: &[String], passes: &dyn Fn(&Pod) -> bool| {
            let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
            let is_new = |pod: &&Arc<Pod>| {
                is_tracked(pod)
                    && !known.contains(pod.uid().as_str())
                    && self.has_valid_index(pod)
                    && passes(pod)
            };
            self.pods.iter().filter(is_new).cloned().collect::<Vec<_>>()
        };
        let new_succeeded = new(&succeeded, &|pod| pods::phase(pod) == "Succeeded");
        let new_failed = new(&failed, &|pod| self.has_failed(pod));
        let counted = new_failed.iter().filter(|pod| self.verdict(pod).counts());
        let counted = counted.count();
        let sum = |recorded: Option<i32>, new: usize, uncounted: usize| {
            recorded.unwrap_or(0) + i32::try_from(new + uncounted).unwrap_or(i32::MAX)
        };
        self.failed = sum(self.status.failed, counted, failed.len());
        self.succeeded = sum(self.status.succeeded, new_succeeded.len(), succeeded.len());
        self.failures = self.failures.with(&new_succeeded, &new_failed);
    }

    /// The failure that the pod failure policy demands.
    fn failure_of_policy(&self) -> Option<Outcome> {
        self.spec.pod_failure_policy.as_ref()?;
        let failed = self.pods.iter().filter(|pod| self.has_failed(pod));
        let mut messages = failed.filter_map(|pod| match self.verdict(pod) {
            Verdict::FailJob(message) => Some(message),
            _ => None,
        });
        let message = messages.next()?;
        Some(Outcome::Failure(Cause::new("PodFailurePolicy", message)))
    }

    /// The failure because of the backoff limit or the deadline.
    fn failure_of_limits(&mut self) -> Option<Outcome> {
        let limit = self.spec.backoff_limit.unwrap_or(i32::MAX);
        if self.failed > limit || self.restarted_too_often(limit) {
            let message = "Job has reached the specified backoff limit";
            return Some(Outcome::Failure(Cause::new(
                "BackoffLimitExceeded",
                message,
            )));
        }
        let deadline = self.spec.active_deadline_seconds?;
        let start = self.status.start_time.as_ref()?.0;
        if self.is_suspended() {
            return None;
        }
        let due = start + Duration::from_secs(deadline.try_into().unwrap_or_default());
        match Duration::try_from(due.duration_since(self.cx.now())) {
            Ok(left) if !left.is_zero() => {
                self.sync_again_in(left);
                None
            }
            _ => {
                let message = "Job was active longer than specified deadline";
                Some(Outcome::Failure(Cause::new("DeadlineExceeded", message)))
            }
        }
    }

    /// Whether containers that restart in place have done so up to the limit.
    fn restarted_too_often(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let unfinished = |pod: &&Arc<Pod>| matches!(pods::phase(pod), "Pending" | "Running");
        let statuses = self.pods.iter().filter(unfinished).flat_map(|pod| {
            let init = pods::init_container_statuses(pod).iter();
            init.chain(pods::container_statuses(pod))
        });
        let restarts: i32 = statuses.map(|status| status.restart_count).sum();
        restarts > 0 && restarts >= limit
    }

    /// Finds which indexes of an indexed Job have succeeded or failed.
    fn find_indexes(&mut self) {
        let Some(completions) = self.spec.completions.filter(|_| self.is_indexed()) else {
            return;
        };
        let recorded = self.status.completed_indexes.as_deref().unwrap_or_default();
        let recorded = Indexes::parse(recorded, completions);
        let tracked = self.pods.iter().filter(|pod| is_tracked(pod));
        let new = |passes: &dyn Fn(&Pod) -> bool| -> Indexes {
            let chosen = tracked.clone().filter(|pod| passes(pod));
            chosen
                .filter_map(|pod| valid_index(pod, completions))
                .collect()
        };
        let succeeded = recorded.union(&new(&|pod| pods::phase(pod) == "Succeeded"));
        self.succeeded = succeeded.len();
        let failed = self.spec.backoff_limit_per_index.map(|limit| {
            let before = self.status.failed_indexes.as_deref().unwrap_or_default();
            let new = new(&|pod| self.index_has_failed(pod, limit));
            Indexes::parse(before, completions).union(&new)
        });
        let delayed = self.delayed(&succeeded, failed.as_ref(), completions);
        self.indexes = Some(IndexedState {
            completions,
            recorded,
            succeeded,
            failed,
            delayed,
        });
    }

    /// Whether the failure of the pod is the last one that its index may have.
    fn index_has_failed(&self, pod: &Pod, limit: i32) -> bool {
        if !self.has_failed(pod) {
            return false;
        }
        match self.verdict(pod) {
            Verdict::FailIndex => true,
            verdict => verdict.counts() && annotated(pod, FAILURE_COUNT) >= limit,
        }
    }

    /// The pods whose replacements wait for a backoff of their own: they keep their finalizer
    /// meanwhile, since they record the failures of the index.
    fn delayed(
        &self,
        succeeded: &Indexes,
        failed: Option<&Indexes>,
        completions: i32,
    ) -> BTreeMap<i32, Arc<Pod>> {
        let mut delayed: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        let Some(failed) = failed else {
            return delayed;
        };
        let active: Indexes = self
            .active
            .iter()
            .filter_map(|p| completion_index(p))
            .collect();
        let tracked = self.pods.iter().filter(|pod| is_tracked(pod));
        for pod in tracked.filter(|pod| self.has_failed(pod)) {
            let Some(index) = valid_index(pod, completions) else {
                continue;
            };
            if [succeeded, failed, &active]
                .iter()
                .any(|set| set.contains(index))
            {
                continue;
            }
            let rank = |pod: &Pod| (failures_of_index(pod), backoff::finished_at(pod));
            let is_later =
                |known: &Arc<Pod>| rank(known).0 <= rank(pod).0 && rank(known).1 <= rank(pod).1;
            if delayed.get(&index).is_none_or(is_later) {
                delayed.insert(index, pod.clone());
            }
        }
        delayed
    }

    /// What follows from the indexes that have succeeded or failed.
    fn outcome_of_indexes(&self) -> Option<Outcome> {
        let indexes = self.indexes.as_ref()?;
        if let Some(failed) = &indexes.failed {
            let too_many = self
                .spec
                .max_failed_indexes
                .is_some_and(|max| failed.len() > max);
            if too_many {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                let cause = Cause::new("MaxFailedIndexesExceeded", message);
                return Some(Outcome::Failure(cause));
            }
            let done = failed.len() + indexes.succeeded.len() >= indexes.completions;
            if !failed.is_empty() && done {
                let cause = Cause::new("FailedIndexes", "Job has failed indexes");
                return Some(Outcome::Failure(cause));
            }
        }
        let policy = self.spec.success_policy.as_ref()?;
        let message = policy::success(policy, &indexes.succeeded, indexes.completions)?;
        Some(Outcome::Success(Cause::new("SuccessPolicy", message)))
    }

    /// Deletes the active pods of a Job that ends. As long as one is left, it does not end.
    async fn delete_active(&mut self) -> Result<(), Failure> {
        let active = std::mem::take(&mut self.active);
        let deletions = active.iter().map(|pod| control::delete(pod, self.cx));
        let results = join_all(deletions).await;
        let mut failure = None;
        for (pod, result) in active.iter().zip(results) {
            match result {
                Ok(()) => self.count_deleted(pod),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(failure) => {
                self.outcome = None;
                Err(failure)
            }
            None => Ok(()),
        }
    }

    /// An active pod has been deleted.
    pub(super) fn count_deleted(&mut self, pod: &Pod) {
        self.active_after -= 1;
        self.terminating += 1;
        self.ready -= i32::from(pods::is_ready(pod));
    }

    /// Creates and deletes pods of a Job that goes on, unless it is complete.
    async fn manage_and_conclude(&mut self) -> Result<(), Failure> {
        let goes_on = !self.job.is_being_deleted();
        let managed = match goes_on {
            true => self.manage().await,
            false => Ok(()),
        };
        let complete = self.active_after == 0
            && match self.spec.completions {
                None => self.succeeded > 0,
                Some(completions) => self.succeeded >= completions,
            };
        if complete {
            let message = "Reached expected number of succeeded pods";
            self.outcome = Some(Outcome::Success(Cause::new("CompletionsReached", message)));
        } else if goes_on {
            self.report_suspension();
        }
        managed
    }

    fn report_suspension(&mut self) {
        let now = self.cx.now();
        let suspended = self.is_suspended();
        let (status, reason, message) = match suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        let cause = Cause::new(reason, message);
        if !conditions::set(&mut self.status.conditions, SUSPENDED, status, &cause, now) {
            return;
        }
        let reason = if suspended { "Suspended" } else { "Resumed" };
        self.cx.event(Normal, reason, message);
        self.status.start_time = (!suspended).then_some(Time(now));
    }
}

/// The number in an annotation of a pod, 0 if it has none.
pub(super) fn annotated(pod: &Pod, annotation: &str) -> i32 {
    let text = pod.annotation(annotation);
    let number = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    i32::max(number, 0)
}

/// The failures of earlier pods of the index, ignored ones included.
pub(super) fn failures_of_index(pod: &Pod) -> i32 {
    annotated(pod, FAILURE_COUNT) + annotated(pod, IGNORED_FAILURE_COUNT)
}
