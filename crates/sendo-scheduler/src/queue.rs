//! The pods that are to be scheduled, and which of them an event may help.
//!
//! The work queue of the controller holds the keys of pods that are to be tried, the more
//! important first, at once or when their backoff is over. Here is what it does not know: which
//! pods wait for an event, and which plugins rejected them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/backend/queue/scheduling_queue.go`: `PriorityQueue`,
//!   `MoveAllToActiveOrBackoffQueue`, `isPodWorthRequeuing`, `Update`
//! - `pkg/scheduler/backend/queue/backoff_queue.go`: `calculateBackoffDuration`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sendo::queue::{Add, Backoff, Priority, Reason};
use sendo::{Moment, ObjectExt, ObjectKey};

use crate::framework::{Binding, ClusterEvent, Profile, QueuedPod, QueueingHint};
use crate::metrics::Metrics;
use crate::pod::Pod;

/// How long a pod waits between attempts: 1 s, doubling up to 10 s.
pub(crate) const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(10),
    factor: 2.0,
};

/// The pods that are to be scheduled.
pub(crate) struct SchedulingQueue {
    pods: BTreeMap<ObjectKey, Pending>,
    /// The keys of those that wait for an event.
    unschedulable: BTreeSet<ObjectKey>,
    /// The keys of those whose binding waits for something.
    binding: BTreeSet<ObjectKey>,
    metrics: Metrics,
}

struct Pending {
    pod: QueuedPod,
    state: State,
    attempts: u32,
    /// When it first entered the queue.
    entered: Moment,
    last_attempt: Moment,
}

/// Where a pod is.
enum State {
    /// In the work queue, to be tried at once.
    Active,
    /// In the work queue, until its backoff is over.
    Backoff,
    /// Rejected by these plugins; an event may bring it back.
    Unschedulable(BTreeSet<&'static str>),
    /// Kept from the queue by a plugin.
    Gated,
    /// It has a node, and is being bound to it.
    Assumed(Binding),
}

impl State {
    /// Its name in metrics.
    fn name(&self) -> Option<&'static str> {
        match self {
            State::Active => Some("active"),
            State::Backoff => Some("backoff"),
            State::Unschedulable(_) => Some("unschedulable"),
            State::Gated => Some("gated"),
            State::Assumed(_) => None,
        }
    }
}

/// What is to be done with a key of the work queue.
pub(crate) enum Next {
    /// Nothing: the pod is gone, has a node or is gated.
    Nothing,
    /// To find a node for the pod.
    Schedule(QueuedPod),
    /// To go on with its binding.
    Bind(Binding),
}

/// A pod that was scheduled: after how many attempts, and when it had entered the queue.
pub(crate) struct Scheduled {
    pub(crate) attempts: u32,
    pub(crate) entered: Moment,
}

impl SchedulingQueue {
    pub(crate) fn new(metrics: Metrics) -> Self {
        SchedulingQueue {
            pods: BTreeMap::new(),
            unschedulable: BTreeSet::new(),
            binding: BTreeSet::new(),
            metrics,
        }
    }

    /// Notes a pod that is to be scheduled, or that it changed.
    pub(crate) fn update(
        &mut self,
        pod: &Arc<Pod>,
        profile: &Profile,
        now: Moment,
    ) -> Option<(ObjectKey, Add)> {
        let key = pod.key();
        let queued = QueuedPod::new(pod.clone());
        let gated = profile.run_pre_enqueue(&queued).is_err();
        let known = self.pods.get_mut(&key);
        let known = known.filter(|known| known.pod.info.uid == queued.info.uid);
        let Some(known) = known else {
            self.remove(&key);
            let state = if gated { State::Gated } else { State::Active };
            self.metrics.entered(&state_name(&state), "PodAdd");
            let added = (!gated).then(|| (key.clone(), add(&queued, Duration::ZERO)));
            let pending = Pending {
                pod: queued,
                state,
                attempts: 0,
                entered: now,
                last_attempt: now,
            };
            self.count(&pending.state, 1);
            self.pods.insert(key, pending);
            return added;
        };
        let old = std::mem::replace(&mut known.pod, queued);
        let woken = match &known.state {
            State::Gated => !gated,
            State::Unschedulable(plugins) => {
                let event = ClusterEvent::PodUpdated {
                    old: &old.pod,
                    new: pod,
                };
                changes_scheduling(&old.pod, pod)
                    && is_worth_requeueing(&known.pod, plugins, profile, &event)
            }
            _ => false,
        };
        woken
            .then(|| self.requeue(&key, "PodUpdate", now))
            .flatten()
    }

    /// Forgets a pod. Returns its binding, if it was being bound.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Binding> {
        let pending = self.pods.remove(key)?;
        self.unschedulable.remove(key);
        self.binding.remove(key);
        self.count(&pending.state, -1);
        match pending.state {
            State::Assumed(binding) => Some(binding),
            _ => None,
        }
    }

    /// What is to be done with a key that the work queue gave out.
    pub(crate) fn next(&mut self, key: &ObjectKey, now: Moment) -> Next {
        let Some(pending) = self.pods.get_mut(key) else {
            return Next::Nothing;
        };
        match &pending.state {
            State::Gated => Next::Nothing,
            State::Assumed(binding) => Next::Bind(binding.clone()),
            State::Active | State::Backoff | State::Unschedulable(_) => {
                pending.attempts += 1;
                pending.last_attempt = now;
                let pod = pending.pod.clone();
                self.set_state(key, State::Active);
                Next::Schedule(pod)
            }
        }
    }

    /// Notes that the pod fits no node, for these plugins' sake.
    pub(crate) fn reject(&mut self, key: &ObjectKey, plugins: BTreeSet<&'static str>) {
        self.set_state(key, State::Unschedulable(plugins));
    }

    /// Notes that the pod is to run on a node.
    pub(crate) fn assume(&mut self, binding: Binding) {
        self.set_state(&binding.pod.info.key.clone(), State::Assumed(binding));
    }

    /// Notes that the binding of a pod waits for something.
    pub(crate) fn await_binding(&mut self, key: &ObjectKey) {
        if self.pods.contains_key(key) {
            self.binding.insert(key.clone());
        }
    }

    /// Notes that a pod was not bound; it is tried again after its backoff. `false` if it is not
    /// being bound any more: it is gone, or has a node by now.
    pub(crate) fn unassume(&mut self, pod: &QueuedPod) -> bool {
        let key = &pod.info.key;
        let is_assumed = self.pods.get(key).is_some_and(|pending| {
            matches!(pending.state, State::Assumed(_)) && pending.pod.info.uid == pod.info.uid
        });
        if is_assumed {
            self.binding.remove(key);
            self.set_state(key, State::Backoff);
        }
        is_assumed
    }

    /// A pod that was bound.
    pub(crate) fn scheduled(&self, key: &ObjectKey) -> Option<Scheduled> {
        let pending = self.pods.get(key)?;
        Some(Scheduled {
            attempts: pending.attempts,
            entered: pending.entered,
        })
    }

    /// The keys of pods whose binding waits.
    pub(crate) fn waiting_bindings(&self) -> Vec<(ObjectKey, Add)> {
        let add = Add::because(Reason::EVENT);
        self.binding.iter().map(|key| (key.clone(), add)).collect()
    }

    /// The pods that an event may help, and when each is to be tried.
    pub(crate) fn woken_by(
        &mut self,
        event: &ClusterEvent<'_>,
        profiles: &[Profile],
        now: Moment,
    ) -> Vec<(ObjectKey, Add)> {
        let waiting = self.unschedulable.iter();
        let woken: Vec<_> = waiting
            .filter(|key| {
                let Some(pending) = self.pods.get(*key) else {
                    return false;
                };
                let name = pending.pod.pod.scheduler_name();
                let profile = profiles.iter().find(|profile| profile.name() == name);
                match (&pending.state, profile) {
                    (State::Unschedulable(plugins), Some(profile)) => {
                        is_worth_requeueing(&pending.pod, plugins, profile, event)
                    }
                    _ => false,
                }
            })
            .cloned()
            .collect();
        let keys = woken.iter();
        keys.filter_map(|key| self.requeue(key, event.name(), now))
            .collect()
    }

    /// Brings a pod back, at once or when its backoff is over.
    fn requeue(&mut self, key: &ObjectKey, event: &str, now: Moment) -> Option<(ObjectKey, Add)> {
        let pending = self.pods.get(key)?;
        let wait = match pending.attempts {
            0 => Duration::ZERO,
            attempts => {
                let until = pending.last_attempt + BACKOFF.after(attempts - 1);
                until.since(now)
            }
        };
        let add = add(&pending.pod, wait);
        let state = match wait.is_zero() {
            true => State::Active,
            false => State::Backoff,
        };
        self.metrics.entered(&state_name(&state), event);
        self.set_state(key, state);
        Some((key.clone(), add))
    }

    fn set_state(&mut self, key: &ObjectKey, state: State) {
        let Some(pending) = self.pods.get_mut(key) else {
            return;
        };
        match &state {
            State::Unschedulable(_) => self.unschedulable.insert(key.clone()),
            _ => self.unschedulable.remove(key),
        };
        let before = std::mem::replace(&mut pending.state, state);
        let name = pending.state.name();
        self.metrics.pending(before.name(), -1);
        self.metrics.pending(name, 1);
    }

    fn count(&self, state: &State, by: i64) {
        self.metrics.pending(state.name(), by);
    }
}

fn state_name(state: &State) -> String {
    state.name().unwrap_or_default().to_owned()
}

/// The addition of a pod to the work queue.
fn add(pod: &QueuedPod, wait: Duration) -> Add {
    Add::because(Reason::EVENT)
        .priority(Priority(pod.info.priority))
        .after(wait)
}

fn is_worth_requeueing(
    pod: &QueuedPod,
    plugins: &BTreeSet<&'static str>,
    profile: &Profile,
    event: &ClusterEvent<'_>,
) -> bool {
    let mut rejecting = profile
        .plugins()
        .filter(|plugin| plugins.contains(plugin.name()));
    // Rejected by none: there was no node, or something went wrong.
    plugins.is_empty()
        || rejecting.any(|plugin| plugin.queueing_hint(pod, event) == QueueingHint::Queue)
}

/// Whether more of the pod changed than its status.
fn changes_scheduling(old: &Pod, new: &Pod) -> bool {
    old.spec != new.spec || old.metadata.labels != new.metadata.labels
}
