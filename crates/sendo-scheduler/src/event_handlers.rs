//! What the scheduler follows: each event changes the snapshot and the queue by what it says, and
//! brings back the pods that it may help.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/eventhandlers.go`: `addAllEventHandlers`, `addPodToSchedulingQueue`,
//!   `updateAssignedPodInCache`, `deleteAssignedPodFromCache`, `addNodeToCache`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use sendo::handler::{Handler, map_adds};
use sendo::queue::Add;
use sendo::{Event, Moment, ObjectExt, ObjectKey};

use crate::framework::ClusterEvent;
use crate::framework::events::matters_to_scheduling;
use crate::pod::Pod;
use crate::schedule_one::Scheduler;
use crate::snapshot::objects::Kept;
use crate::snapshot::pod_info::PodInfo;

type Adds = Vec<(ObjectKey, Add)>;

/// Follows pods.
pub(crate) fn pods(scheduler: &Arc<Scheduler>) -> Handler<Event<Pod>, ObjectKey> {
    let scheduler = scheduler.clone();
    map_adds(move |event: Event<Pod>, cx| scheduler.pod_event(&event, cx.clock().now()))
}

/// Follows nodes.
pub(crate) fn nodes(scheduler: &Arc<Scheduler>) -> Handler<Event<Node>, ObjectKey> {
    let scheduler = scheduler.clone();
    map_adds(move |event: Event<Node>, cx| scheduler.node_event(&event, cx.clock().now()))
}

/// Follows another kind.
pub(crate) fn objects<K: Wakes>(scheduler: &Arc<Scheduler>) -> Handler<Event<K>, ObjectKey> {
    let scheduler = scheduler.clone();
    map_adds(move |event: Event<K>, cx| {
        let mut state = scheduler.state();
        state.snapshot.objects.follow(&event);
        let woken = match &event {
            Event::Deleted { .. } => None,
            _ => K::event(event.object()),
        };
        let Some(woken) = woken else {
            return Adds::new();
        };
        let now = cx.clock().now();
        let mut adds = state.queue.woken_by(&woken, scheduler.profiles(), now);
        adds.extend(state.queue.waiting_bindings());
        adds
    })
}

/// A kind whose events may let pods be scheduled.
pub(crate) trait Wakes: Kept {
    /// What a new or changed object is to pods that wait.
    fn event(_object: &Self) -> Option<ClusterEvent<'_>> {
        None
    }
}

impl Wakes for Namespace {
    fn event(_: &Self) -> Option<ClusterEvent<'_>> {
        Some(ClusterEvent::Namespace)
    }
}

impl Wakes for PersistentVolumeClaim {
    fn event(claim: &Self) -> Option<ClusterEvent<'_>> {
        Some(ClusterEvent::Claim(claim))
    }
}

impl Wakes for PersistentVolume {
    fn event(volume: &Self) -> Option<ClusterEvent<'_>> {
        Some(ClusterEvent::Volume(volume))
    }
}

impl Wakes for StorageClass {
    fn event(class: &Self) -> Option<ClusterEvent<'_>> {
        Some(ClusterEvent::StorageClass(class))
    }
}

impl Wakes for CSINode {
    fn event(node: &Self) -> Option<ClusterEvent<'_>> {
        Some(ClusterEvent::CsiNode(node))
    }
}

macro_rules! wakes_nobody {
    ($($kind:ty),*) => {
        $(impl Wakes for $kind {})*
    };
}

wakes_nobody!(
    k8s_openapi::api::core::v1::Service,
    k8s_openapi::api::core::v1::ReplicationController,
    k8s_openapi::api::apps::v1::ReplicaSet,
    k8s_openapi::api::apps::v1::StatefulSet,
    k8s_openapi::api::policy::v1::PodDisruptionBudget
);

impl Scheduler {
    fn pod_event(&self, event: &Event<Pod>, now: Moment) -> Adds {
        let pod = event.object();
        let is_gone = matches!(event, Event::Deleted { .. });
        match pod.node() {
            _ if is_gone || pod.is_finished() => self.pod_gone(pod, now),
            Some(node) => self.pod_bound(event.old(), pod, node, now),
            None => self.pod_pending(pod, now),
        }
    }

    fn pod_gone(&self, pod: &Pod, now: Moment) -> Adds {
        let key = pod.key();
        let mut state = self.state();
        if let Some(binding) = state.queue.remove(&key) {
            self.unreserve(&binding);
        }
        let Some(removed) = state.snapshot.remove_pod(&key) else {
            state.snapshot.nominate(&Arc::new(PodInfo::new(pod)), None);
            return Adds::new();
        };
        state.snapshot.nominate(&removed, None);
        let event = ClusterEvent::AssignedPodDeleted(pod);
        state.queue.woken_by(&event, self.profiles(), now)
    }

    fn pod_bound(&self, old: Option<&Arc<Pod>>, pod: &Pod, node: &str, now: Moment) -> Adds {
        let was_bound = old.filter(|old| old.node() == Some(node) && old.uid() == pod.uid());
        if was_bound.is_some_and(|old| is_the_same_to_others(old, pod)) {
            return Adds::new();
        }
        let mut state = self.state();
        let info = state.snapshot.add_pod(PodInfo::new(pod), node);
        state.snapshot.nominate(&info, None);
        state.queue.remove(&info.key);
        let event = match was_bound {
            None => ClusterEvent::AssignedPodAdded(pod),
            Some(old) => ClusterEvent::AssignedPodUpdated { old, new: pod },
        };
        state.queue.woken_by(&event, self.profiles(), now)
    }

    fn pod_pending(&self, pod: &Arc<Pod>, now: Moment) -> Adds {
        let profile = self.profile(pod.scheduler_name());
        let mut state = self.state();
        let Some(profile) = profile.filter(|_| !pod.is_being_deleted()) else {
            let key = pod.key();
            if let Some(binding) = state.queue.remove(&key) {
                self.unreserve(&binding);
                state.snapshot.remove_pod(&key);
            }
            return Adds::new();
        };
        let key = pod.key();
        let other = state.snapshot.placed(&key);
        if other.is_some_and(|(other, _)| other.uid != pod.uid()) {
            state.snapshot.remove_pod(&key);
        }
        let added = state.queue.update(pod, profile, now);
        if let Some(node) = pod.nominated_node()
            && state.snapshot.placed(&key).is_none()
        {
            let info = Arc::new(PodInfo::new(pod));
            state.snapshot.nominate(&info, Some(node));
        }
        added.into_iter().collect()
    }

    fn node_event(&self, event: &Event<Node>, now: Moment) -> Adds {
        let mut state = self.state();
        let node = event.object();
        let event = match event {
            Event::Deleted { .. } => {
                state.snapshot.remove_node(node.name());
                ClusterEvent::NodeDeleted(node)
            }
            Event::Created { .. } => {
                state.snapshot.set_node(node.clone());
                ClusterEvent::NodeAdded(node)
            }
            Event::Updated { old, new } => {
                state.snapshot.set_node(new.clone());
                if !matters_to_scheduling(old, new) {
                    return Adds::new();
                }
                ClusterEvent::NodeUpdated { old, new }
            }
        };
        state.queue.woken_by(&event, self.profiles(), now)
    }
}

/// Whether a change of a pod that has a node changes nothing for other pods.
fn is_the_same_to_others(old: &Pod, new: &Pod) -> bool {
    let started = |pod: &Pod| pod.status.as_ref().and_then(|s| s.start_time.clone());
    let disrupted = |pod: &Pod| pod.condition("DisruptionTarget").cloned();
    old.metadata.labels == new.metadata.labels
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.spec == new.spec
        && started(old) == started(new)
        && disrupted(old) == disrupted(new)
}
