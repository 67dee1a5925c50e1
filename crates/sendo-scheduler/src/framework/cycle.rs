//! What plugins are given of one scheduling cycle, and what they keep from one extension point
//! to the next.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/cycle_state.go`: `CycleState`

use std::any::Any;
use std::sync::Arc;

use sendo::Random;

use crate::pod::Pod;
use crate::snapshot::Snapshot;
use crate::snapshot::pod_info::PodInfo;

/// A pod that is to be scheduled.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What is kept of it when it has a node.
    pub info: Arc<PodInfo>,
}

impl QueuedPod {
    /// A pod to be scheduled.
    pub fn new(pod: Arc<Pod>) -> Self {
        QueuedPod {
            info: Arc::new(PodInfo::new(&pod)),
            pod,
        }
    }
}

/// One attempt to schedule a pod.
#[derive(Clone)]
pub struct Cycle<'a> {
    /// The pod.
    pub pod: &'a QueuedPod,
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// What plugins keep.
    pub state: CycleState,
    /// Randomness.
    pub random: &'a Random,
}

impl<'a> Cycle<'a> {
    /// A new attempt.
    pub fn new(pod: &'a QueuedPod, snapshot: &'a Snapshot, random: &'a Random) -> Self {
        Cycle {
            pod,
            snapshot,
            state: CycleState::default(),
            random,
        }
    }
}

/// A value of a plugin's own type. Preemption tries what would be without some pods on a copy.
trait State: Any + Send + Sync {
    fn copy(&self) -> Box<dyn State>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Clone + Send + Sync + 'static> State for T {
    fn copy(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// What plugins keep from one extension point to the next, by its type.
#[derive(Default)]
pub struct CycleState {
    // A handful, so a search is quicker than a map.
    values: Vec<Box<dyn State>>,
    /// The plugins, by their places, whose filter says nothing about this pod.
    pub(super) skipped_filters: u64,
    /// The same for scores.
    pub(super) skipped_scores: u64,
}

impl Clone for CycleState {
    fn clone(&self) -> Self {
        CycleState {
            values: self.values.iter().map(|value| (**value).copy()).collect(),
            ..*self
        }
    }
}

impl CycleState {
    /// Keeps a value, instead of the one of this type that there is.
    pub fn write<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        match self.get_mut::<T>() {
            Some(known) => *known = value,
            None => self.values.push(Box::new(value)),
        }
    }

    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let mut values = self.values.iter();
        values.find_map(|value| (**value).as_any().downcast_ref())
    }

    /// The value of this type, to be changed.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let mut values = self.values.iter_mut();
        values.find_map(|value| (**value).as_any_mut().downcast_mut())
    }
}
