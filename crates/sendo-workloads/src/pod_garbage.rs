//! Deletes pods that no node will ever delete.
//!
//! That is so for pods whose node is gone, for pods that are being deleted before they had a node,
//! and for those that are being deleted on a node that is out of service. Of pods that have finished
//! the oldest are deleted when there are very many.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podgc/gc_controller.go`: `gcTerminating`, `gcTerminated`, `gcOrphaned`,
//!   `gcUnscheduledTerminating`, `markFailedAndDeletePodWithCondition`
//! - `pkg/controller/podgc/metrics/metrics.go`

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use sendo::handler::{map, map_object};
use sendo::metrics::{Counter, Family};
use sendo::source::{kind, ticker};
use sendo::{
    Action, Context, Controller, Moment, ObjectExt, ObjectKey, Patch, Reader, ReconcileKey, Result,
};
use serde_json::json;

use crate::pods::{self, BY_NODE, Pod, node_of};

/// How long a node has to be gone before its pods are deleted.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How often finished pods are counted, and how long a pod may be on its way out before it is found.
const PERIOD: Duration = Duration::from_secs(20);
/// How many finished pods stay.
const MAX_TERMINATED: usize = 12_500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Pod(ObjectKey),
    /// All pods that have finished.
    Finished,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Pod(key) => write!(f, "pod {key}"),
            Key::Finished => f.write_str("finished pods"),
        }
    }
}

/// The garbage collector of pods.
pub fn controller() -> Controller {
    let collector = Collector::default();
    let pods_on = |node: &Node, cx: &Reader| {
        let pods = cx.list::<Pod>().by(&BY_NODE, node.name());
        pods.keys().into_iter().map(Key::Pod).collect::<Vec<_>>()
    };
    let deleted = "Number of pods deleted by PodGC since the pod gc controller started";
    let failed = "Number of errors encountered when deleting pods by PodGC since the pod gc controller started";
    Controller::keyed::<Key>("pod-garbage-collector-controller")
        .watches(
            kind::<Pod>(),
            map_object(|pod: &Pod, _: &_| [Key::Pod(pod.key())]),
        )
        .watches(kind::<Node>(), map_object(pods_on))
        .watches(ticker(PERIOD), map(|_, _: &_| [Key::Finished]))
        .index(&BY_NODE)
        .metric(
            "pod_gc_collector_force_delete_pods_total",
            deleted,
            collector.deleted.clone(),
        )
        .metric(
            "pod_gc_collector_force_delete_pod_errors_total",
            failed,
            collector.failed.clone(),
        )
        .without_events()
        .reconcile(collector)
}

type Counters = Family<Vec<(&'static str, String)>, Counter>;

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Orphaned,
    Unscheduled,
    OutOfService,
    Finished,
}

impl Why {
    fn as_str(self) -> &'static str {
        match self {
            Why::Orphaned => "orphaned",
            Why::Unscheduled => "unscheduled",
            Why::OutOfService => "out-of-service",
            Why::Finished => "terminated",
        }
    }
}

#[derive(Default)]
struct Collector {
    /// When pods were first seen that are to be deleted, and why.
    seen: Mutex<BTreeMap<ObjectKey, (Why, Moment)>>,
    deleted: Counters,
    failed: Counters,
}

impl ReconcileKey<Key> for Collector {
    async fn reconcile(&self, key: Key, cx: Context) -> Result<Action> {
        let key = match key {
            Key::Pod(key) => key,
            Key::Finished => {
                self.collect_finished(&cx).await?;
                return Ok(Action::done());
            }
        };
        let pod = cx.get::<Pod>(&key);
        let due = pod.and_then(|pod| Some((why(&pod, &cx)?, pod)));
        let Some((why, pod)) = due else {
            self.seen.lock().remove(&key);
            return Ok(Action::done());
        };
        let left = self.left(&key, why, cx.clock().now());
        if !left.is_zero() {
            return Ok(Action::after(left));
        }
        // The cache may not have the node yet.
        if why != Why::Orphaned || is_node_gone(&pod, &cx).await? {
            self.delete(&pod, why, &cx).await?;
        }
        self.seen.lock().remove(&key);
        Ok(Action::done())
    }
}

/// Why a pod that has not finished is to be deleted, if it is.
fn why(pod: &Pod, cx: &Context) -> Option<Why> {
    let Some(name) = node_of(pod) else {
        return pod.is_being_deleted().then_some(Why::Unscheduled);
    };
    match cx.get::<Node>(ObjectKey::cluster(name)) {
        None => Some(Why::Orphaned),
        Some(node) => {
            let is_lost = pod.is_being_deleted() && is_out_of_service(&node);
            is_lost.then_some(Why::OutOfService)
        }
    }
}

async fn is_node_gone(pod: &Pod, cx: &Context) -> Result<bool> {
    let node = ObjectKey::cluster(node_of(pod).unwrap_or_default());
    Ok(cx.live().get::<Node>(node).await?.is_none())
}

/// Whether the node is not ready, and somebody says that it will not come back soon.
fn is_out_of_service(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    let is_ready = ready.any(|condition| condition.status == "True");
    let mut taints = sendo_scheduler::taints::taints(node);
    !is_ready && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

impl Collector {
    /// The time until the pod is deleted. Kubernetes looks for such pods once in a while, so that
    /// they are seen as they are for a moment.
    fn left(&self, key: &ObjectKey, why: Why, now: Moment) -> Duration {
        let wait = match why {
            Why::Orphaned => QUARANTINE,
            Why::Unscheduled | Why::OutOfService | Why::Finished => PERIOD,
        };
        let mut seen = self.seen.lock();
        let known = seen.entry(key.clone()).or_insert((why, now));
        if known.0 != why {
            *known = (why, now);
        }
        (known.1 + wait) - now
    }

    async fn collect_finished(&self, cx: &Context) -> Result<()> {
        let is_finished = |pod: &Pod| matches!(pods::phase(pod), "Succeeded" | "Failed");
        let finished = cx.list::<Pod>().filter(is_finished);
        let surplus = finished.count().saturating_sub(MAX_TERMINATED);
        if surplus == 0 {
            return Ok(());
        }
        let mut finished: Vec<Arc<Pod>> = finished.iter().collect();
        finished.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (created, pod.name().to_owned())
        });
        for pod in &finished[..surplus] {
            self.delete(pod, Why::Finished, cx).await?;
        }
        Ok(())
    }

    /// Deletes a pod at once, as failed if it has not finished.
    async fn delete(&self, pod: &Arc<Pod>, why: Why, cx: &Context) -> Result<()> {
        let namespace = pod.namespace().unwrap_or_default().to_owned();
        let labels = vec![
            ("namespace", namespace),
            ("reason", why.as_str().to_owned()),
        ];
        let result = fail_and_delete(pod, why, cx).await;
        self.deleted.get_or_create(&labels).inc();
        if result.is_err() {
            self.failed.get_or_create(&labels).inc();
        }
        result
    }
}

async fn fail_and_delete(pod: &Arc<Pod>, why: Why, cx: &Context) -> Result<()> {
    if !matches!(pods::phase(pod), "Succeeded" | "Failed") {
        let mut status = match why {
            Why::Orphaned => {
                let condition = json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastTransitionTime": Time(cx.now()),
                    "observedGeneration": pod.metadata.generation,
                });
                pods::condition_patch(pod, &condition)
            }
            _ => json!({}),
        };
        status["phase"] = "Failed".into();
        let patch = Patch::Strategic(json!({ "status": status }));
        match cx.client().patch_status(&**pod, patch).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    match cx.delete(&**pod).grace_period(0).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
