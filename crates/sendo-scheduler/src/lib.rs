//! The embedded cluster's scheduler, written with `sendo` as any user would write it.
//!
//! A pod that has no node and asks for this scheduler is started by its own
//! events, or by those that may make room for it: a node that appears or
//! changes, a pod that goes. The nodes are [filtered](filter) and
//! [scored](score), the best is assumed, and a Binding makes it so.

pub mod filter;
pub mod pod;
pub mod room;
pub mod score;
pub mod taints;
mod verdict;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::handler::map;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, Event, EventType::*, Index, Manager, ObjectExt, ObjectKey, Reader,
    Reconcile, Result, Uid, predicate,
};

use pod::Pod;
use room::Room;
use serde_json::Value;

/// The scheduler that pods ask for unless told.
pub const NAME: &str = "default-scheduler";

/// How long a pod that found no node waits when nothing happens that could help it.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Pods by the node they are bound to.
static ON_NODE: Index<Pod, String> =
    Index::new("pods-by-node", |pod: &Pod| pod.node().map(str::to_owned));

/// Pods that wait for a node.
static WAITING: Index<Pod, bool> = Index::new("waiting-pods", |pod| waits(pod).then_some(true));

/// The scheduler as a program.
pub fn manager() -> Manager {
    Manager::new("kube-scheduler")
        .caching(pod::cached())
        .controller(controller())
}

/// The scheduler as a controller of pods.
pub fn controller() -> Controller {
    Controller::new::<Pod>()
        .named(NAME)
        .when(predicate::matches(waits))
        .watches(kind::<Node>(), map(|_: Event<Node>, cx| waiting(cx)))
        .watches(
            kind::<Pod>().when(makes_room()),
            map(|_: Event<Pod>, cx| waiting(cx)),
        )
        .index(&ON_NODE)
        .index(&WAITING)
        .reconcile(Scheduler::default())
}

/// A pod that this scheduler is to place.
fn waits(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
    let gated = spec.is_some_and(|s| s.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()));
    pod.node().is_none()
        && !gated
        && !is_finished(pod)
        && !pod.is_being_deleted()
        && scheduler.is_none_or(|name| name == NAME)
}

/// A finished pod takes no room.
fn is_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The end of a pod that had a place.
fn makes_room() -> predicate::Predicate<Pod> {
    predicate::Predicate::new(|event: &Event<Pod>| match event {
        Event::Deleted { object, .. } => object.node().is_some(),
        Event::Updated { old, new } => !is_finished(old) && is_finished(new),
        Event::Created { .. } => false,
    })
}

fn waiting(cx: &Reader) -> Vec<ObjectKey> {
    cx.list::<Pod>().by(&WAITING, true).keys()
}

/// Places one pod at a time, so that two never take the same room.
#[derive(Default)]
struct Scheduler {
    /// Pods that were bound, until the cache shows it.
    assumed: Mutex<BTreeMap<Uid, Assumed>>,
}

struct Assumed {
    pod: Arc<Pod>,
    node: String,
}

impl Reconcile<Pod> for Scheduler {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        self.forget_settled(&cx);
        if !waits(&pod) || self.assumed().contains_key(&pod.uid()) {
            return Ok(Action::done());
        }
        let rooms = self.rooms(&cx);
        match verdict::choose(&pod, &rooms) {
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
            Err(refusal) => {
                verdict::tell(&pod, &refusal.to_string(), &cx).await?;
                Ok(Action::after(LOOK_AGAIN))
            }
        }
    }
}

impl Scheduler {
    fn assumed(&self) -> MutexGuard<'_, BTreeMap<Uid, Assumed>> {
        self.assumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assume(&self, pod: &Arc<Pod>, node: &str) {
        let assumed = Assumed {
            pod: pod.clone(),
            node: node.to_owned(),
        };
        self.assumed().insert(pod.uid(), assumed);
    }

    /// Forgets what the cache shows by now: the binding, or the pod's end.
    fn forget_settled(&self, cx: &Context) {
        self.assumed().retain(|uid, assumed| {
            cx.get::<Pod>(assumed.pod.key())
                .is_some_and(|pod| pod.uid() == *uid && pod.node().is_none())
        });
    }

    /// The nodes with what runs on them, in order.
    fn rooms(&self, cx: &Context) -> Vec<Room> {
        let assumed = self.assumed();
        let room = |node: Arc<Node>| {
            let bound = cx.list::<Pod>().by(&ON_NODE, node.name().to_owned());
            let mut pods: Vec<_> = bound.iter().filter(|pod| !is_finished(pod)).collect();
            let coming = assumed
                .values()
                .filter(|assumed| assumed.node == node.name());
            pods.extend(coming.map(|assumed| assumed.pod.clone()));
            Room::new(node, pods)
        };
        cx.list::<Node>().iter().map(room).collect()
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
