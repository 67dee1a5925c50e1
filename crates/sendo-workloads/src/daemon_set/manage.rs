//! Creates the pods of nodes that have none, and deletes those that should not be.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/daemon_controller.go`: `podsShouldBeOnNode`, `manage`, `syncNodes`,
//!   `getUnscheduledPodsWithoutNode`, `podByCreationTimestampAndPhase`
//! - `staging/src/k8s.io/client-go/util/flowcontrol/backoff.go`

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{self, Node};
use sendo::{EventSeverity::*, ObjectExt, Result, slow_start};

use super::placement::{self, Placement};
use super::{Failure, Sync};
use crate::pods::control::{self, from_template};
use crate::pods::{self, Pod, node_of};

/// The maximum number of pods created or deleted in one sync.
const BURST_REPLICAS: usize = 250;
/// How long a failed pod stays after the one before it was deleted; doubled each time.
const BACKOFF: Duration = Duration::from_secs(1);
/// How long it stays at most.
const MAX_BACKOFF: Duration = Duration::from_secs(15 * 60);

/// What is to change.
#[derive(Default)]
pub(super) struct Changes {
    /// Nodes that need a pod.
    pub(super) create_on: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
}

/// Orders pods: bound before unbound, the oldest first.
pub(super) fn sort_by_age(pods: &mut [Arc<Pod>]) {
    pods.sort_by_key(|pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (node_of(pod).is_none(), created, pod.name().to_owned())
    });
}

impl Sync<'_> {
    /// Brings one pod to each node that should have one.
    pub(super) async fn manage(&mut self) -> Result<()> {
        let mut changes = Changes::default();
        for node in self.nodes.clone() {
            self.look_at(&node, &mut changes);
        }
        // A pod that is meant for a node that is gone will never be scheduled.
        for (name, pods) in &self.pods {
            if !self.nodes.iter().any(|node| node.name() == name) {
                let waiting = pods.iter().filter(|pod| node_of(pod).is_none());
                changes.delete.extend(waiting.cloned());
            }
        }
        self.apply(changes).await
    }

    fn look_at(&mut self, node: &Node, changes: &mut Changes) {
        let name = node.name();
        let placement = placement::placement(self.set, node);
        let pods = self.pods.get(name).cloned();
        let mut staying: Vec<Arc<Pod>> = pods.iter().flatten().cloned().collect();
        staying.retain(|pod| !pod.is_being_deleted());
        match (placement, pods) {
            (Placement::Runs, None) => changes.create_on.push(name.to_owned()),
            (Placement::Never, _) => changes.delete.extend(staying),
            (_, None) => {}
            (_, Some(_)) => {
                let mut running = self.without_finished(name, staying, changes);
                sort_by_age(&mut running);
                match self.max_surge(1) > 0 {
                    false => changes.delete.extend(running.into_iter().skip(1)),
                    true => {
                        if running.is_empty() && placement == Placement::Runs {
                            changes.create_on.push(name.to_owned());
                        }
                        self.thin_out(&running, changes);
                    }
                }
            }
        }
    }

    /// The pods that have not finished. Those that have are deleted, failed ones after a back-off.
    fn without_finished(
        &mut self,
        node: &str,
        pods: Vec<Arc<Pod>>,
        changes: &mut Changes,
    ) -> Vec<Arc<Pod>> {
        let mut running = Vec::new();
        for pod in pods {
            let key = pod.key();
            match pods::phase(&pod) {
                "Failed" => {
                    if let Some(left) = self.failure_backoff(node) {
                        self.sync_again_in(left);
                        continue;
                    }
                    let message = format!(
                        "Found failed daemon pod {key} on node {node}, will try to kill it"
                    );
                    self.cx.event(Warning, "FailedDaemonPod", message);
                    changes.delete.push(pod);
                }
                "Succeeded" => {
                    let message = format!(
                        "Found succeeded daemon pod {key} on node {node}, will try to delete it"
                    );
                    self.cx.event(Normal, "SucceededDaemonPod", message);
                    changes.delete.push(pod);
                }
                _ => running.push(pod),
            }
        }
        running
    }

    /// How long a failed pod has to stay. If it has not, the next one stays longer.
    fn failure_backoff(&self, node: &str) -> Option<Duration> {
        let observed = self.set.status.as_ref().and_then(|s| s.observed_generation);
        let key = (self.set.uid(), observed.unwrap_or(0), node.to_owned());
        let now = self.cx.clock().now();
        let mut failures = self.failures.lock();
        let known = failures.get(&key).copied();
        if let Some(known) = known {
            let left = (known.at + known.delay) - now;
            if !left.is_zero() {
                return Some(left);
            }
        }
        // Failures that are long ago are forgotten.
        let recent = known.filter(|known| now - known.at <= 2 * MAX_BACKOFF);
        let delay = recent.map_or(BACKOFF, |known| (known.delay * 2).min(MAX_BACKOFF));
        failures.insert(key, Failure { at: now, delay });
        None
    }

    /// With surge there may be one pod of the old and one of the new template: the old one goes
    /// when it is not ready, or when the new one is available.
    fn thin_out(&self, running: &[Arc<Pod>], changes: &mut Changes) {
        let (new, old): (Vec<_>, Vec<_>) = running
            .iter()
            .cloned()
            .partition(|pod| pod.label(super::HASH_LABEL) == Some(&self.hash));
        let (oldest_new, oldest_old) = (new.first().cloned(), old.first().cloned());
        changes.delete.extend(new.into_iter().skip(1));
        changes.delete.extend(old.into_iter().skip(1));
        if let (Some(new), Some(old)) = (oldest_new, oldest_old)
            && (!pods::is_ready(&old) || self.is_available(&new))
        {
            changes.delete.push(old);
        }
    }

    /// Creates and deletes pods.
    pub(super) async fn apply(&self, mut changes: Changes) -> Result<()> {
        changes.create_on.truncate(BURST_REPLICAS);
        changes.delete.truncate(BURST_REPLICAS);
        let template = placement::template(self.set, &self.hash);
        let cx = self.cx;
        let new_pod = |node: String| -> v1::Pod {
            let mut pod = from_template(self.set, &template);
            placement::bind_to(pod.spec.get_or_insert_default(), &node);
            pod
        };
        let pods: Vec<v1::Pod> = changes.create_on.into_iter().map(new_pod).collect();
        let create = |pod: v1::Pod| async move { control::create(&pod, cx).await.map(drop) };
        let created = slow_start(pods, create).await.into_result();
        let deletions = changes.delete.iter().map(|pod| control::delete(pod, cx));
        let deleted: Result<(), _> = join_all(deletions).await.into_iter().collect();
        created?;
        deleted?;
        Ok(())
    }
}
