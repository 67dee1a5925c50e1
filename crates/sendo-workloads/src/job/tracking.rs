//! Counts pods that have finished, and lets go of them once they are counted.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/job_controller.go`: `trackJobStatusAndRemoveFinalizers`,
//!   `canRemoveFinalizer`, `flushUncountedAndRemoveFinalizers`,
//!   `cleanUncountedPodsWithoutFinalizers`, `enactJobFinished`, `recordJobFinished`

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Context, EventSeverity::*, ObjectExt, Patch, Result, client};
use serde_json::json;

use super::conditions::{self, Outcome};
use super::indexes::{Indexes, completion_index, valid_index};
use super::sync::Sync;
use super::{FINALIZER, is_tracked};
use crate::pods::{self, Pod};

/// The maximum number of pods that are counted in one sync.
const MAX_UNCOUNTED: usize = 500;

/// Removes the finalizer from a pod. One that is gone has none.
pub(super) async fn remove_finalizer(pod: &Pod, cx: &Context) -> Result<(), client::Error> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": pod.uid().as_str(),
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    }}));
    match cx.client().patch(pod, patch).await {
        Ok(_) => Ok(()),
        // Another pod of its name conflicts with the uid.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

impl Sync<'_> {
    /// Writes which pods have finished, removes their finalizers, writes the counters, and the
    /// condition with which the Job ends, if all are counted.
    pub(super) async fn track(&mut self) -> Result<()> {
        let tracked = self.pods.iter().filter(|pod| is_tracked(pod));
        let mut tracked: BTreeSet<String> = tracked.map(|pod| pod.uid().to_string()).collect();
        move_to_counters(&mut self.status, &tracked);
        let (finished, all_counted) = self.record_finished();
        self.record_indexes();
        self.record_outcome();
        self.write().await?;

        let removals = finished.iter().map(|pod| remove_finalizer(pod, self.cx));
        let mut failure = None;
        for (pod, removed) in finished.iter().zip(join_all(removals).await) {
            match removed {
                Ok(()) => drop(tracked.remove(pod.uid().as_str())),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        move_to_counters(&mut self.status, &tracked);
        if let Some(failure) = failure {
            self.write().await?;
            return Err(failure.into());
        }
        let ended = all_counted && self.conclude();
        self.write().await?;
        if ended {
            self.report_end();
        }
        Ok(())
    }

    /// Adds pods that have finished to the uncounted ones of the status. Returns those whose
    /// finalizer may be removed then, and whether that is all of them.
    fn record_finished(&mut self) -> (Vec<Arc<Pod>>, bool) {
        let mut uncounted = self
            .status
            .uncounted_terminated_pods
            .take()
            .unwrap_or_default();
        let mut succeeded = uncounted.succeeded.take().unwrap_or_default();
        let mut failed = uncounted.failed.take().unwrap_or_default();
        let mut new_indexes = Vec::new();
        let mut finished = Vec::new();
        let mut all = true;
        for pod in self.pods.iter().filter(|pod| is_tracked(pod)) {
            if !self.may_release(pod) {
                continue;
            }
            finished.push(pod.clone());
            let uid = pod.uid().to_string();
            if failed.contains(&uid) {
                continue;
            }
            if pods::phase(pod) == "Succeeded" {
                match &self.indexes {
                    Some(indexes) => {
                        let index = valid_index(pod, indexes.completions);
                        let new = index.filter(|index| !indexes.recorded.contains(*index));
                        new_indexes.extend(new);
                    }
                    None if succeeded.contains(&uid) => {}
                    None => succeeded.push(uid),
                }
            } else if self.counts_as_failed(pod) {
                failed.push(uid);
            }
            if new_indexes.len() + succeeded.len() + failed.len() >= MAX_UNCOUNTED {
                all = false;
                break;
            }
        }
        if let Some(indexes) = &mut self.indexes {
            let new: Indexes = new_indexes.into_iter().collect();
            indexes.succeeded = indexes.recorded.union(&new);
        }
        uncounted.succeeded = Some(succeeded).filter(|list| !list.is_empty());
        uncounted.failed = Some(failed).filter(|list| !list.is_empty());
        self.status.uncounted_terminated_pods = Some(uncounted);
        (finished, all)
    }

    /// Whether the finalizer of the pod may be removed once the status counts it.
    fn may_release(&self, pod: &Pod) -> bool {
        let ends = self.job.is_being_deleted() || self.outcome.is_some();
        if ends || pods::phase(pod) == "Succeeded" {
            return true;
        }
        let is_delayed = || {
            let delayed = self.indexes.as_ref().map(|indexes| &indexes.delayed);
            let of_index = delayed.zip(completion_index(pod));
            let last = of_index.and_then(|(delayed, index)| delayed.get(&index));
            last.is_some_and(|last| last.uid() == pod.uid())
        };
        self.has_failed(pod) && !is_delayed()
    }

    fn counts_as_failed(&self, pod: &Pod) -> bool {
        let ends = matches!(self.outcome, Some(Outcome::Failure(_)));
        if !(self.has_failed(pod) || ends) || !self.has_valid_index(pod) {
            return false;
        }
        let verdict = self.verdict(pod);
        if let Some(action) = verdict.action() {
            self.metrics.policy_action(action);
        }
        verdict.counts()
    }

    fn record_indexes(&mut self) {
        let Some(indexes) = &self.indexes else {
            return;
        };
        let total = indexes.succeeded.len();
        self.status.succeeded = Some(total).filter(|total| *total > 0);
        let text = indexes.succeeded.to_string();
        self.status.completed_indexes = Some(text).filter(|text| !text.is_empty());
        self.status.failed_indexes = indexes.failed.as_ref().map(Indexes::to_string);
    }

    /// Records how the Job will end, while pods are still terminating.
    fn record_outcome(&mut self) {
        let Some(outcome) = &self.outcome else {
            return;
        };
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        if Outcome::recorded(conditions).is_some() {
            return;
        }
        let (type_, cause) = (outcome.interim(), outcome.cause());
        let now = self.cx.now();
        conditions::set(&mut self.status.conditions, type_, "True", cause, now);
    }

    /// Sets the condition with which the Job ends, if nothing is left to count or to wait for.
    fn conclude(&mut self) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.clone();
        let uncounted = uncounted.unwrap_or_default();
        let is_counted = uncounted.succeeded.is_none() && uncounted.failed.is_none();
        let Some(outcome) = self.outcome.as_ref().filter(|_| is_counted) else {
            return false;
        };
        if self.terminating > 0 {
            return false;
        }
        let now = self.cx.now();
        let (type_, cause) = (outcome.terminal(), outcome.cause());
        conditions::set(&mut self.status.conditions, type_, "True", cause, now);
        if matches!(outcome, Outcome::Success(_)) {
            self.status.completion_time = Some(Time(now));
        }
        true
    }

    fn report_end(&self) {
        let Some(outcome) = &self.outcome else {
            return;
        };
        let cause = outcome.cause();
        let result = match outcome {
            Outcome::Success(_) => {
                let wanted = self.spec.completions;
                if wanted.is_some_and(|wanted| self.status.succeeded.unwrap_or(0) > wanted) {
                    let message = "Too many succeeded pods running after completion count reached";
                    self.cx.event(Warning, "TooManySucceededPods", message);
                }
                self.cx.event(Normal, "Completed", "Job completed");
                "succeeded"
            }
            Outcome::Failure(_) => {
                self.cx.event(Warning, &cause.reason, cause.message.clone());
                "failed"
            }
        };
        self.metrics.finished(self.mode(), result, &cause.reason);
    }

    /// Writes the status if it differs from that of the Job.
    async fn write(&mut self) -> Result<()> {
        let before = self.job.status.clone().unwrap_or_default();
        if before == self.status {
            return Ok(());
        }
        self.job.status = Some(self.status.clone());
        self.job = self.cx.client().replace_status(&self.job).await?;
        self.recorded_failures = Some(self.failures);
        self.count_finished(&before);
        Ok(())
    }

    fn count_finished(&self, before: &JobStatus) {
        let (mode, metrics, now) = (self.mode(), self.metrics, &self.status);
        let grown = |now: Option<i32>, before: Option<i32>| now.unwrap_or(0) - before.unwrap_or(0);
        let succeeded = grown(now.succeeded, before.succeeded);
        metrics.pods_finished(mode, "succeeded", succeeded);
        metrics.pods_finished(mode, "failed", grown(now.failed, before.failed));
        if let Some(indexes) = &self.indexes {
            let limit = if indexes.failed.is_some() {
                "perIndex"
            } else {
                "global"
            };
            metrics.indexes_finished("succeeded", limit, succeeded);
            let failed = |status: &JobStatus| {
                let text = status.failed_indexes.as_deref().unwrap_or_default();
                Indexes::parse(text, indexes.completions).len()
            };
            metrics.indexes_finished("failed", limit, failed(now) - failed(before));
        }
    }
}

/// Moves uncounted pods that have no finalizer any more into the counters.
fn move_to_counters(status: &mut JobStatus, tracked: &BTreeSet<String>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let lists = [
        (&mut uncounted.succeeded, &mut status.succeeded),
        (&mut uncounted.failed, &mut status.failed),
    ];
    for (list, counter) in lists {
        let Some(pods) = list else {
            continue;
        };
        let before = pods.len();
        pods.retain(|uid| tracked.contains(uid));
        let gone = i32::try_from(before - pods.len()).unwrap_or(i32::MAX);
        if gone > 0 {
            *counter = Some(counter.unwrap_or(0) + gone);
        }
        list.take_if(|pods| pods.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_finalizer_moves_into_the_counter_once() {
        let mut status: JobStatus = serde_json::from_value(json!({
            "succeeded": 1,
            "uncountedTerminatedPods": {"succeeded": ["a", "b"], "failed": ["c"]},
        }))
        .expect("a status");
        let tracked: BTreeSet<String> = ["b".to_owned()].into();
        for _ in 0..2 {
            move_to_counters(&mut status, &tracked);
            assert_eq!((status.succeeded, status.failed), (Some(2), Some(1)));
            let left = json!(status.uncounted_terminated_pods);
            assert_eq!(left, json!({"succeeded": ["b"]}));
        }
    }
}
