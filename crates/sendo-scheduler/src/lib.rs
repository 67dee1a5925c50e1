//! The embedded cluster's scheduler, written with `sendo` as any user would write it.
//!
//! A pod that has no node and names this scheduler is reconciled on its own
//! events and on those that may free resources for it: a node is added or
//! changed, a pod ends. The nodes are [filtered](filter) and [scored](score), the
//! pod is assumed to run on the best one, and a Binding binds it there.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/schedule_one.go`: `assume`, `bind`, `handleBindingCycleError`
//! - `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`: `PreEnqueue`

pub mod filter;
pub mod node_info;
pub mod pod;
pub mod score;
mod selection;
pub mod taints;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::{Mutex, MutexGuard};
use sendo::handler::map;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, Event, EventSeverity::*, Index, Manager, ObjectExt, ObjectKey,
    Reader, Reconcile, Result, Right, Uid, predicate,
};

use node_info::NodeInfo;
use pod::Pod;
use serde_json::Value;

/// The scheduler of pods whose spec names none; the default of `spec.schedulerName`.
pub const NAME: &str = "default-scheduler";

/// After how long an unschedulable pod is tried again if no event made it schedulable before.
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// Pods by the node they are bound to.
static ON_NODE: Index<Pod, String> =
    Index::new("pods-by-node", |pod: &Pod| pod.node().map(str::to_owned));

/// Pods that are to be scheduled.
static UNSCHEDULED: Index<Pod, bool> =
    Index::new("waiting-pods", |pod| needs_scheduling(pod).then_some(true));

/// A manager that runs the scheduler.
pub fn manager() -> Manager {
    Manager::new("kube-scheduler")
        // Its rights are those of the roles that Kubernetes gives its users.
        .needs(Right::everything())
        .caching(pod::cached())
        .controller(controller())
}

/// The scheduler as a controller of pods.
pub fn controller() -> Controller {
    Controller::new::<Pod>()
        .named(NAME)
        .when(predicate::matches(needs_scheduling))
        .watches(
            kind::<Node>(),
            map(|_: Event<Node>, cx| unscheduled_pods(cx)),
        )
        .watches(
            kind::<Pod>().when(frees_resources()),
            map(|_: Event<Pod>, cx| unscheduled_pods(cx)),
        )
        .index(&ON_NODE)
        .index(&UNSCHEDULED)
        .reconcile(Scheduler::default())
}

/// Whether this scheduler has to find a node for the pod.
fn needs_scheduling(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
    let gated = spec.is_some_and(|s| s.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()));
    pod.node().is_none()
        && !gated
        && !is_finished(pod)
        && !pod.is_being_deleted()
        && scheduler.is_none_or(|name| name == NAME)
}

/// Whether the pod has finished, so that it uses no resources of its node.
fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Events of pods that were bound to a node and have ended.
fn frees_resources() -> predicate::Predicate<Pod> {
    predicate::Predicate::new(|event: &Event<Pod>| match event {
        Event::Deleted { object, .. } => object.node().is_some(),
        Event::Updated { old, new } => !is_finished(old) && is_finished(new),
        Event::Created { .. } => false,
    })
}

fn unscheduled_pods(cx: &Reader) -> Vec<ObjectKey> {
    cx.list::<Pod>().by(&UNSCHEDULED, true).keys()
}

/// Schedules one pod at a time, so that two pods are never given the same resources.
#[derive(Default)]
struct Scheduler {
    /// Pods that were bound, until the cache has the binding.
    assumed: Mutex<BTreeMap<Uid, Assumed>>,
}

struct Assumed {
    pod: Arc<Pod>,
    node: String,
}

impl Reconcile<Pod> for Scheduler {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        self.forget_bound(&cx);
        if !needs_scheduling(&pod) || self.assumed().contains_key(&pod.uid()) {
            return Ok(Action::done());
        }
        let node_infos = self.node_infos(&cx);
        match selection::select_node(&pod, &node_infos) {
            Ok(node) => {
                self.assume(&pod, node);
                let bound = bind(&pod, node, &cx).await;
                if bound.is_err() {
                    self.assumed().remove(&pod.uid());
                }
                bound?;
                let message = format!("Successfully assigned {} to {node}", pod.key());
                cx.event(Normal, "Scheduled", message);
                Ok(Action::done())
            }
            Err(error) => {
                selection::report_unschedulable(&pod, &error.to_string(), &cx).await?;
                Ok(Action::after(RETRY_AFTER))
            }
        }
    }
}

impl Scheduler {
    fn assumed(&self) -> MutexGuard<'_, BTreeMap<Uid, Assumed>> {
        self.assumed.lock()
    }

    fn assume(&self, pod: &Arc<Pod>, node: &str) {
        let assumed = Assumed {
            pod: pod.clone(),
            node: node.to_owned(),
        };
        self.assumed().insert(pod.uid(), assumed);
    }

    /// Forgets assumed pods whose binding or deletion is in the cache by now.
    fn forget_bound(&self, cx: &Context) {
        self.assumed().retain(|uid, assumed| {
            cx.get::<Pod>(assumed.pod.key())
                .is_some_and(|pod| pod.uid() == *uid && pod.node().is_none())
        });
    }

    /// The nodes with the pods bound to them or assumed there, in order.
    fn node_infos(&self, cx: &Context) -> Vec<NodeInfo> {
        let assumed = self.assumed();
        let node_info = |node: Arc<Node>| {
            let bound = cx.list::<Pod>().by(&ON_NODE, node.name().to_owned());
            let mut pods: Vec<_> = bound.iter().filter(|pod| !is_finished(pod)).collect();
            let on_their_way = assumed
                .values()
                .filter(|assumed| assumed.node == node.name());
            pods.extend(on_their_way.map(|assumed| assumed.pod.clone()));
            NodeInfo::new(node, pods)
        };
        cx.list::<Node>().iter().map(node_info).collect()
    }
}

async fn bind(pod: &Pod, node: &str, cx: &Context) -> Result<()> {
    let binding = Binding {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let subresource = cx.client().subresource(pod, "binding")?;
    subresource.create::<Value>(&binding).await?;
    Ok(())
}
