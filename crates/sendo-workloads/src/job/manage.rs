//! Creates missing pods of a Job, and deletes surplus ones.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/job_controller.go`: `manageJob`, `activePodsForRemoval`,
//!   `getPodCreationInfoForIndependentIndexes`, `deleteJobPods`, `recordJobPodsCreationTotal`
//! - `pkg/controller/job/indexed_job_utils.go`: `firstPendingIndexes`,
//!   `appendDuplicatedIndexPodsForRemoval`, `addIndexFailureCountAnnotation`,
//!   `addCompletionIndexEnvVariable`, `podGenerateNameWithIndex`

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{self, Container, EnvVar, EnvVarSource, ObjectFieldSelector};
use sendo::{ObjectExt, slow_start};

use super::backoff;
use super::indexes::{COMPLETION_INDEX, Indexes, completion_index};
use super::sync::{FAILURE_COUNT, IGNORED_FAILURE_COUNT, Sync, annotated, failures_of_index};
use super::{FINALIZER, tracking};
use crate::pods::control::{self, Failure, from_template};
use crate::pods::{self, Pod};

/// The maximum number of pods created or deleted in one sync.
const MAX_PODS_PER_SYNC: usize = 500;
/// The longest name from which the server generates one.
const MAX_GENERATE_NAME: usize = 58;

impl Sync<'_> {
    /// Brings the number of active pods to the parallelism, as far as there is work left.
    pub(super) async fn manage(&mut self) -> Result<(), Failure> {
        let active = self.active.len();
        let wanted = match self.is_suspended() {
            true => 0,
            false => self.wanted_active(),
        };
        let mut surplus = self.surplus(active.saturating_sub(wanted));
        surplus.truncate(MAX_PODS_PER_SYNC);
        if !surplus.is_empty() || self.is_suspended() {
            self.action = "pods_deleted";
            return self.delete_uncounted(&surplus).await;
        }
        let mut present = active;
        if self.replaces_only_failed() {
            present += usize::try_from(self.terminating).unwrap_or_default();
        }
        let missing = wanted.saturating_sub(present).min(MAX_PODS_PER_SYNC);
        if missing == 0 {
            self.action = "tracking";
            return Ok(());
        }
        self.action = "pods_created";
        self.create_missing(missing).await
    }

    /// How many pods should be active.
    fn wanted_active(&self) -> usize {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            // A work queue: once a pod has succeeded, no other one is started.
            None if self.succeeded > 0 => return self.active.len(),
            None => parallelism,
            Some(completions) => parallelism.min(completions - self.succeeded),
        };
        usize::try_from(wanted).unwrap_or_default()
    }

    /// The active pods to delete: those with an index that is invalid or that another one has, and
    /// further ones up to `at_least`.
    fn surplus(&self, at_least: usize) -> Vec<Arc<Pod>> {
        let mut left = self.active.clone();
        left.sort_by(|a, b| pods::deletion_order(a, b));
        let mut surplus = Vec::new();
        if self.is_indexed() {
            let completions = self.spec.completions.unwrap_or(0);
            // Of pods with the same index the last one in the order of deletion is kept.
            let mut taken = Indexes::default();
            let mut kept = Vec::new();
            for pod in left.into_iter().rev() {
                let index = completion_index(&pod).filter(|index| *index < completions);
                match index.filter(|index| !taken.contains(*index)) {
                    Some(index) => {
                        taken = taken.union(&Indexes::from_iter([index]));
                        kept.push(pod);
                    }
                    None => surplus.push(pod),
                }
            }
            kept.reverse();
            left = kept;
        }
        let more = at_least.saturating_sub(surplus.len()).min(left.len());
        surplus.extend(left.drain(..more));
        surplus
    }

    /// Deletes pods that shall not count as failed.
    async fn delete_uncounted(&mut self, surplus: &[Arc<Pod>]) -> Result<(), Failure> {
        let cx = self.cx;
        let deletions = surplus.iter().map(|pod| async move {
            tracking::remove_finalizer(pod, cx)
                .await
                .map_err(Failure::Delete)?;
            control::delete(pod, cx).await
        });
        let mut failure = None;
        for (pod, result) in surplus.iter().zip(join_all(deletions).await) {
            match result {
                Ok(()) => self.count_deleted(pod),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn create_missing(&mut self, missing: usize) -> Result<(), Failure> {
        let limited_per_index = self.spec.backoff_limit_per_index.is_some();
        if !limited_per_index {
            let delay = self.failures.remaining(self.cx.now());
            if !delay.is_zero() {
                self.sync_again_in(delay);
                return Ok(());
            }
        }
        let pods: Vec<v1::Pod> = match self.is_indexed() {
            false => vec![self.pod(); missing],
            true => {
                let indexes = self.pending_indexes(missing);
                let due = match limited_per_index {
                    true => self.due_indexes(&indexes),
                    false => indexes,
                };
                due.into_iter()
                    .map(|index| self.indexed_pod(index))
                    .collect()
            }
        };
        let cx = self.cx;
        let create = |pod: v1::Pod| async move { control::create(&pod, cx).await.map(drop) };
        let created = slow_start(pods, create).await;
        self.active_after += i32::try_from(created.succeeded).unwrap_or(i32::MAX);
        let reason = self.creation_reason();
        let metrics = self.metrics;
        metrics.pods_created(reason, "succeeded", created.succeeded);
        metrics.pods_created(reason, "failed", created.failed);
        created.into_result()
    }

    fn creation_reason(&self) -> &'static str {
        let only_failed = self.spec.pod_replacement_policy.as_deref() == Some("Failed");
        match (only_failed, self.failed > 0) {
            (true, true) => "recreate_failed",
            (false, failed) if failed || self.terminating > 0 => "recreate_terminating_or_failed",
            _ => "new",
        }
    }

    /// The first indexes that need a pod.
    fn pending_indexes(&self, count: usize) -> Vec<i32> {
        let Some(indexes) = &self.indexes else {
            return Vec::new();
        };
        let of = |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> Indexes {
            pods.filter_map(|pod| completion_index(pod)).collect()
        };
        let mut taken = indexes.succeeded.union(&of(&mut self.active.iter()));
        if self.replaces_only_failed() {
            let mut terminating = self.pods.iter().filter(|pod| pods::is_terminating(pod));
            taken = taken.union(&of(&mut terminating));
        }
        if let Some(failed) = &indexes.failed {
            taken = taken.union(failed);
        }
        taken.first_missing(count, indexes.completions)
    }

    /// Those of the indexes whose backoff is over. If there are none, the next sync is when the
    /// first one is.
    fn due_indexes(&mut self, indexes: &[i32]) -> Vec<i32> {
        let now = self.cx.now();
        let delay = |index: &i32| {
            let delayed = self.indexes.as_ref().and_then(|own| own.delayed.get(index));
            delayed.map_or(Duration::ZERO, |pod| {
                let failures = u32::try_from(failures_of_index(pod) + 1).unwrap_or(1);
                backoff::remaining(failures, backoff::finished_at(pod), now)
            })
        };
        let delays: Vec<(i32, Duration)> = indexes.iter().map(|i| (*i, delay(i))).collect();
        let due = delays.iter().filter(|(_, delay)| delay.is_zero());
        let due: Vec<i32> = due.map(|(index, _)| *index).collect();
        if due.is_empty()
            && let Some(next) = delays.iter().map(|(_, delay)| *delay).min()
        {
            self.sync_again_in(next);
        }
        due
    }

    /// A pod of the Job.
    fn pod(&self) -> v1::Pod {
        let mut pod = from_template(&self.job, &self.spec.template);
        let finalizers = pod.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        pod
    }

    /// A pod with a completion index.
    fn indexed_pod(&self, index: i32) -> v1::Pod {
        let mut pod = self.pod();
        let name = self.job.name();
        let suffix = format!("-{index}-");
        let prefix = &name[..name.floor_char_boundary(MAX_GENERATE_NAME - suffix.len())];
        pod.metadata.generate_name = Some(prefix.to_owned() + &suffix);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(COMPLETION_INDEX.to_owned(), index.to_string());
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
        if self.spec.backoff_limit_per_index.is_some() {
            let (failures, ignored) = self.failures_before(index);
            annotations.insert(FAILURE_COUNT.to_owned(), failures.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED_FAILURE_COUNT.to_owned(), ignored.to_string());
            }
        }
        if let Some(spec) = &mut pod.spec {
            spec.hostname = Some(format!("{name}-{index}"));
            let init = spec.init_containers.iter_mut().flatten();
            init.chain(&mut spec.containers)
                .for_each(add_index_variable);
        }
        pod
    }

    /// The failures of earlier pods of the index: those that count, and those that are ignored.
    fn failures_before(&self, index: i32) -> (i32, i32) {
        let indexes = self.indexes.as_ref();
        let Some(replaced) = indexes.and_then(|indexes| indexes.delayed.get(&index)) else {
            return (0, 0);
        };
        let before = (
            annotated(replaced, FAILURE_COUNT),
            annotated(replaced, IGNORED_FAILURE_COUNT),
        );
        match self.verdict(replaced).counts() {
            true => (before.0 + 1, before.1),
            false => (before.0, before.1 + 1),
        }
    }
}

/// Adds the environment variable with the index of the pod, if the container has none of its name.
fn add_index_variable(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|known| known.name == NAME) {
        return;
    }
    variables.push(EnvVar {
        name: NAME.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
}
