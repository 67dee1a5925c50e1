//! Creates and deletes the pods of a StatefulSet, in order or all at once.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set_control.go`: `updateStatefulSet`, `processReplica`,
//!   `processCondemned`, `runForAll`
//! - `pkg/controller/statefulset/stateful_pod_control.go`: `CreateStatefulPod`,
//!   `UpdateStatefulPod`, `DeleteStatefulPod`, `recordPodEvent`

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1;
use sendo::{Context, EventSeverity::*, ObjectExt, Patch, Result, slow_start};
use serde_json::{Map, Value, json};

use super::revisions::{self, Revisions};
use super::{claims, pod};
use crate::pods::{self, Pod};

/// The ordinals of the replicas.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i32> {
    let spec = set.spec.as_ref();
    let first = spec
        .and_then(|spec| spec.ordinals.as_ref()?.start)
        .unwrap_or(0);
    let count = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    first..first.saturating_add(count)
}

/// A StatefulSet with its pods.
pub(super) struct Sync<'a> {
    pub(super) set: &'a StatefulSet,
    pub(super) spec: StatefulSetSpec,
    pub(super) revisions: Revisions,
    pub(super) cx: &'a Context,
    /// All its pods.
    pub(super) pods: &'a [Arc<Pod>],
    /// A place for each replica, by ordinal.
    pub(super) replicas: Vec<Replica>,
    /// Pods whose ordinal is out of range, the highest first.
    condemned: Vec<Replica>,
    pub(super) min_ready: Duration,
    /// How many pods of the current revision this sync has deleted to update them.
    pub(super) replaced: i32,
}

/// The place of a replica.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) ordinal: i32,
    /// Its pod, if it exists.
    pub(super) pod: Option<Arc<Pod>>,
}

/// Whether a step leaves the next ones for a later sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Continue,
    Wait,
}

impl<'a> Sync<'a> {
    pub(super) fn new(
        set: &'a StatefulSet,
        revisions: Revisions,
        pods: &'a [Arc<Pod>],
        cx: &'a Context,
    ) -> Self {
        let spec = set.spec.clone().unwrap_or_default();
        let range = ordinals(set);
        let mut all: Vec<Replica> = pods
            .iter()
            .filter_map(|pod| {
                Some(Replica {
                    ordinal: pod::ordinal_in(set.name(), pod.name())?,
                    pod: Some(pod.clone()),
                })
            })
            .collect();
        all.sort_by_key(|replica| std::cmp::Reverse(replica.ordinal));
        let (present, condemned): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|replica| range.contains(&replica.ordinal));
        let replicas = range.map(|ordinal| {
            let known = present.iter().find(|replica| replica.ordinal == ordinal);
            let pod = known.and_then(|replica| replica.pod.clone());
            Replica { ordinal, pod }
        });
        let min_ready = spec.min_ready_seconds.unwrap_or(0).max(0);
        Sync {
            set,
            revisions,
            cx,
            pods,
            replicas: replicas.collect(),
            condemned,
            min_ready: Duration::from_secs(u64::from(min_ready.unsigned_abs())),
            spec,
            replaced: 0,
        }
    }

    /// Does the next steps: replicas that should exist first, then those that should not, then
    /// those of an old revision.
    pub(super) async fn advance(&mut self) -> Result<()> {
        if self.run_replicas().await? == Step::Wait {
            return Ok(());
        }
        for condemned in &self.condemned {
            let (ordinal, pod) = (condemned.ordinal, condemned.pod.as_deref());
            if !claims::are_owned_as_wanted(self.set, ordinal, pod, self.cx) {
                claims::set_owners(self.set, ordinal, pod, self.cx).await?;
            }
        }
        if self.run_condemned().await? == Step::Wait {
            return Ok(());
        }
        self.update().await
    }

    /// Whether pods are created and deleted one after the other.
    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    /// Whether the pod is ready for long enough.
    fn is_available(&self, pod: &Pod) -> bool {
        let wait = pods::available_in(pod, self.min_ready, self.cx.now());
        wait.is_some_and(|wait| wait.is_zero())
    }

    /// Whether a replica has no pod that is available and stays.
    pub(super) fn is_unavailable(&self, replica: &Replica) -> bool {
        let pod = replica.pod.as_ref();
        pod.is_none_or(|pod| !self.is_available(pod) || pod.is_being_deleted())
    }

    /// The time until the next pod becomes available that is ready already.
    pub(super) fn next_available_in(&self) -> Option<Duration> {
        let now = self.cx.now();
        let waits = self
            .pods
            .iter()
            .filter_map(|p| pods::available_in(p, self.min_ready, now));
        waits.filter(|wait| !wait.is_zero()).min()
    }

    async fn run_replicas(&self) -> Result<Step> {
        if self.is_ordered() {
            for replica in &self.replicas {
                if self.run_replica(replica).await? == Step::Wait {
                    return Ok(Step::Wait);
                }
            }
            return Ok(Step::Continue);
        }
        let run = |replica| async move { self.run_replica(replica).await.map(drop) };
        slow_start(&self.replicas, run).await.into_result()?;
        Ok(Step::Continue)
    }

    async fn run_replica(&self, replica: &Replica) -> Result<Step> {
        let (set, cx, ordinal) = (self.set, self.cx, replica.ordinal);
        let Some(pod) = &replica.pod else {
            if claims::is_stale(set, ordinal, cx) {
                return Ok(Step::Wait);
            }
            self.create(ordinal).await?;
            return Ok(match self.is_ordered() {
                true => Step::Wait,
                false => Step::Continue,
            });
        };
        if matches!(pods::phase(pod), "Failed" | "Succeeded") {
            if !pod.is_being_deleted() {
                self.delete(pod).await?;
            }
            return Ok(Step::Wait);
        }
        if pods::phase(pod) == "Pending" {
            claims::create(set, ordinal, cx).await?;
            claims::set_owners(set, ordinal, Some(pod), cx).await?;
        }
        if self.is_ordered() && (pod.is_being_deleted() || !self.is_available(pod)) {
            return Ok(Step::Wait);
        }
        self.repair(replica.ordinal, pod).await?;
        Ok(Step::Continue)
    }

    /// Creates the pod of a replica, with its claims.
    async fn create(&self, ordinal: i32) -> Result<()> {
        let pod = self.new_pod(ordinal);
        let created = self.create_with_claims(&pod, ordinal).await;
        match created {
            Err(error) if is_already_exists(&error) => Err(error),
            created => self.report("Create", pod.name(), created),
        }
    }

    async fn create_with_claims(&self, pod: &v1::Pod, ordinal: i32) -> Result<()> {
        claims::create(self.set, ordinal, self.cx).await?;
        self.cx.create(pod).await?;
        claims::set_owners(self.set, ordinal, None, self.cx).await
    }

    /// The pod of a replica: of the current revision, if the update leaves this replica out.
    fn new_pod(&self, ordinal: i32) -> v1::Pod {
        let strategy = self.spec.update_strategy.as_ref();
        let is_rolling = strategy.and_then(|s| s.type_.as_deref()) != Some("OnDelete");
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let kept = match rolling {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if is_rolling => {
                let status = self.set.status.as_ref();
                status
                    .and_then(|status| status.current_replicas)
                    .unwrap_or(0)
            }
            None => 0,
        };
        if ordinal < ordinals(self.set).start + kept {
            let template = self.revisions.current_template(self.set);
            return pod::new(self.set, &template, self.revisions.current.name(), ordinal);
        }
        let template = revisions::spec_template(self.set);
        pod::new(self.set, &template, self.revisions.update.name(), ordinal)
    }

    /// Gives a pod the labels by which it is known, and its claims their owners.
    async fn repair(&self, ordinal: i32, pod: &Arc<Pod>) -> Result<()> {
        let labels = pod::missing_identity(pod, ordinal);
        let owned = claims::are_owned_as_wanted(self.set, ordinal, Some(pod), self.cx);
        if labels.is_none() && owned {
            return Ok(());
        }
        let repaired = async {
            claims::set_owners(self.set, ordinal, Some(pod), self.cx).await?;
            let Some(labels) = labels else {
                return Ok(());
            };
            let labels = labels.map(|(name, value)| (name.to_owned(), Value::from(value)));
            let labels: Map<String, Value> = labels.into_iter().collect();
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            self.cx.patch(&**pod, patch).await?;
            Ok(())
        };
        self.report("Update", pod.name(), repaired.await)
    }

    async fn run_condemned(&self) -> Result<Step> {
        if !self.is_ordered() {
            let all = self
                .condemned
                .iter()
                .filter_map(|condemned| condemned.pod.clone());
            let staying: Vec<_> = all.filter(|pod| !pod.is_being_deleted()).collect();
            let delete = |pod| async move { self.delete(&pod).await };
            slow_start(staying, delete).await.into_result()?;
            return Ok(Step::Continue);
        }
        let first_unavailable = self.first_unavailable();
        let highest = self
            .condemned
            .first()
            .and_then(|condemned| condemned.pod.as_ref());
        let Some(highest) = highest else {
            return Ok(Step::Continue);
        };
        let is_first = first_unavailable == Some(highest.name());
        if !highest.is_being_deleted() && (self.is_available(highest) || is_first) {
            self.delete(highest).await?;
        }
        Ok(Step::Wait)
    }

    /// The name of the first pod that is not available: of the replicas, then of the condemned
    /// ones, by ordinal.
    fn first_unavailable(&self) -> Option<&str> {
        let all = self.replicas.iter().chain(self.condemned.iter().rev());
        let mut unavailable = all.filter(|replica| self.is_unavailable(replica));
        let first = unavailable.next()?.pod.as_ref()?;
        Some(first.name())
    }

    pub(super) async fn delete(&self, pod: &Arc<Pod>) -> Result<()> {
        let deleted = match self.cx.delete(&**pod).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        };
        self.report("Delete", pod.name(), deleted)
    }

    /// Records an event about what was done to a pod.
    fn report(&self, verb: &str, pod: &str, result: Result<()>) -> Result<()> {
        let set = self.set.name();
        match &result {
            Ok(()) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                let reason = format!("Successful{verb}");
                self.cx.event(Normal, &reason, message);
            }
            Err(error) => {
                let message =
                    format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
                self.cx.event(Warning, &format!("Failed{verb}"), message);
            }
        }
        result
    }
}

fn is_already_exists(error: &sendo::Error) -> bool {
    let error = error.downcast_ref::<sendo::client::Error>();
    error.is_some_and(sendo::client::Error::is_already_exists)
}
