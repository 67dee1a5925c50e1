//! One attempt to schedule a pod: the scheduling cycle, which chooses a node under a lock, and the
//! binding cycle, which runs beside the scheduling of other pods.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/schedule_one.go`: `ScheduleOne`, `schedulingCycle`, `bindingCycle`,
//!   `schedulePod`, `findNodesThatFitPod`, `findNodesThatPassFilters`, `prioritizeNodes`, `assume`,
//!   `handleBindingCycleError`, `handleSchedulingFailure`

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sendo::{Action, Context, EventSeverity::*, Moment, ObjectKey, Random, Result};

use crate::failure::{self, Failure};
use crate::framework::{
    Binding, Cycle, Diagnosis, PostFilter, Profile, Progress, QueuedPod, Rejected,
};
use crate::metrics::{Attempt, Metrics};
use crate::queue::{Next, SchedulingQueue};
use crate::snapshot::Snapshot;
use crate::snapshot::node_info::NodeInfo;

/// After how long an unschedulable pod is tried again if no event made it schedulable before.
const RETRY_AFTER: Duration = Duration::from_secs(300);

/// A scheduler for the pods of some profiles.
pub(crate) struct Scheduler {
    profiles: Vec<Profile>,
    pub(crate) metrics: Metrics,
    state: Mutex<State>,
}

/// What events change and scheduling cycles read.
pub(crate) struct State {
    pub(crate) snapshot: Snapshot,
    pub(crate) queue: SchedulingQueue,
    /// Where the search for nodes goes on, so that all have the same chance.
    next_start: usize,
}

/// What a scheduling cycle came to.
enum Outcome {
    /// There is nothing to be done.
    Nothing,
    /// The pod is to be bound.
    Bind(Binding),
    /// The pod fits no node.
    Failed(Failure),
}

impl Scheduler {
    pub(crate) fn new(profiles: Vec<Profile>) -> Self {
        let metrics = Metrics::default();
        Scheduler {
            profiles,
            state: Mutex::new(State {
                snapshot: Snapshot::default(),
                queue: SchedulingQueue::new(metrics.clone()),
                next_start: 0,
            }),
            metrics,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The profile of this name, if this scheduler has it.
    pub(crate) fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name() == name)
    }

    /// Takes back what plugins reserved for a pod.
    pub(crate) fn unreserve(&self, binding: &Binding) {
        if let Some(profile) = self.profile(binding.pod.pod.scheduler_name()) {
            profile.run_unreserve(binding);
        }
    }

    /// Schedules the pod under a key of the work queue.
    pub(crate) async fn schedule_one(&self, key: ObjectKey, cx: Context) -> Result<Action> {
        let started = cx.clock().now();
        let outcome = self.scheduling_cycle(&key, started, cx.random());
        let ended = cx.clock().now();
        match outcome {
            Outcome::Nothing => Ok(Action::done()),
            Outcome::Bind(binding) => {
                self.metrics.algorithm(ended - started);
                self.binding_cycle(binding, started, &cx).await
            }
            Outcome::Failed(failure) => {
                self.metrics.algorithm(ended - started);
                let name = failure.pod.pod.scheduler_name();
                let took = ended - started;
                self.metrics.attempt(name, Attempt::Unschedulable, took);
                failure::report(&failure, &cx).await?;
                if let Some(nomination) = failure.nomination() {
                    let others = self.lower_nominations(&failure.pod, &nomination.node);
                    failure::preempt(&failure.pod, nomination, &others, &cx).await?;
                }
                Ok(Action::after(RETRY_AFTER))
            }
        }
    }

    /// Chooses a node for the pod, and assumes that it runs there.
    fn scheduling_cycle(&self, key: &ObjectKey, now: Moment, random: &Random) -> Outcome {
        let mut state = self.state();
        let pod = match state.queue.next(key, now) {
            Next::Nothing => return Outcome::Nothing,
            Next::Bind(binding) => return Outcome::Bind(binding),
            Next::Schedule(pod) => pod,
        };
        let Some(profile) = self.profile(pod.pod.scheduler_name()) else {
            return Outcome::Nothing;
        };
        let State {
            snapshot,
            queue,
            next_start,
        } = &mut *state;
        snapshot.sort_nodes();
        let mut cycle = Cycle::new(&pod, snapshot, random);
        let chosen = select_node(profile, &mut cycle, next_start).and_then(|node| {
            let reserved = profile.run_reserve(&mut cycle, node);
            reserved.map_err(|rejected| reservation_failed(&cycle, node, rejected))?;
            Ok(node.name().to_owned())
        });
        let cycle_state = std::mem::take(&mut cycle.state);
        match chosen {
            Ok(node) => {
                drop(cycle);
                snapshot.add_pod((*pod.info).clone(), &node);
                snapshot.nominate(&pod.info, None);
                self.metrics
                    .cached(snapshot.node_count(), snapshot.pod_count());
                let binding = Binding {
                    pod,
                    node,
                    state: Arc::new(cycle_state),
                };
                queue.assume(binding.clone());
                Outcome::Bind(binding)
            }
            Err(mut diagnosis) => {
                cycle.state = cycle_state;
                let post_filter = self.post_filter(profile, &cycle, &mut diagnosis);
                drop(cycle);
                if let PostFilter::Nominate(nomination) = &post_filter {
                    snapshot.nominate(&pod.info, Some(&nomination.node));
                }
                if matches!(post_filter, PostFilter::ClearNomination(_)) {
                    snapshot.nominate(&pod.info, None);
                }
                queue.reject(key, std::mem::take(&mut diagnosis.plugins));
                Outcome::Failed(Failure {
                    message: diagnosis.to_string(),
                    pod,
                    post_filter,
                })
            }
        }
    }

    /// Asks the plugins to help a pod that fits no node.
    fn post_filter(
        &self,
        profile: &Profile,
        cycle: &Cycle<'_>,
        diagnosis: &mut Diagnosis,
    ) -> PostFilter {
        if diagnosis.nodes == 0 {
            return PostFilter::Unchanged(Rejected::unresolvable(""));
        }
        let post_filter = profile.run_post_filter(cycle, diagnosis);
        match &post_filter {
            PostFilter::Nominate(nomination) => {
                self.metrics.preemption(Some(nomination.victims.len()));
            }
            PostFilter::ClearNomination(rejected) | PostFilter::Unchanged(rejected) => {
                self.metrics.preemption(None);
                diagnosis.post_filter = rejected.message();
            }
        }
        post_filter
    }

    /// Pods of lower priority that have to look for another node than this.
    fn lower_nominations(&self, pod: &QueuedPod, node: &str) -> Vec<ObjectKey> {
        let mut state = self.state();
        let others = state.snapshot.nominated(node).iter();
        let lower: Vec<_> = others
            .filter(|other| other.priority < pod.info.priority)
            .cloned()
            .collect();
        for other in &lower {
            state.snapshot.nominate(other, None);
        }
        lower.into_iter().map(|other| other.key.clone()).collect()
    }

    /// Binds the pod to its node, or takes back what was assumed.
    async fn binding_cycle(
        &self,
        binding: Binding,
        started: Moment,
        cx: &Context,
    ) -> Result<Action> {
        let key = &binding.pod.info.key;
        let name = binding.pod.pod.scheduler_name();
        let Some(profile) = self.profile(name) else {
            return Ok(Action::done());
        };
        match profile.run_binding(&binding, cx).await {
            Ok(Progress::Wait(wait)) => {
                self.state().queue.await_binding(key);
                Ok(Action::after(wait))
            }
            Ok(Progress::Ready) => {
                let now = cx.clock().now();
                self.metrics
                    .attempt(name, Attempt::Scheduled, now - started);
                if let Some(scheduled) = self.state().queue.scheduled(key) {
                    let waited = now - scheduled.entered;
                    self.metrics.scheduled(scheduled.attempts, waited);
                }
                let message = format!("Successfully assigned {key} to {}", binding.node);
                cx.event_on(&*binding.pod.pod, Normal, "Scheduled", message);
                Ok(Action::done())
            }
            Err(error) => {
                self.metrics
                    .attempt(name, Attempt::Error, cx.clock().now() - started);
                self.forget(&binding);
                failure::report_error(&binding.pod, &error.to_string(), cx).await?;
                Err(error)
            }
        }
    }

    /// Takes back that a pod was assumed to run on a node, unless it is bound by now.
    fn forget(&self, binding: &Binding) {
        self.unreserve(binding);
        let mut state = self.state();
        if state.queue.unassume(&binding.pod) {
            state.snapshot.remove_pod(&binding.pod.info.key);
        }
    }
}

/// The best node for the pod.
fn select_node<'a>(
    profile: &Profile,
    cycle: &mut Cycle<'a>,
    next_start: &mut usize,
) -> Result<&'a NodeInfo, Box<Diagnosis>> {
    let feasible = find_feasible(profile, cycle, next_start)?;
    if let [only] = feasible[..] {
        return Ok(only);
    }
    let scores = profile.run_scores(cycle, &feasible);
    // Among equally good nodes Kubernetes takes any; here it is that with the fewest pods, and
    // then the first by name, so that a run can be repeated.
    let ranked = feasible.iter().zip(scores);
    let best =
        ranked.max_by_key(|(node, score)| (*score, Reverse(node.pods.len()), Reverse(node.name())));
    let (best, _) = best.expect("some nodes are feasible");
    Ok(best)
}

/// The nodes that fit: all of them, or as many as are enough.
fn find_feasible<'a>(
    profile: &Profile,
    cycle: &mut Cycle<'a>,
    next_start: &mut usize,
) -> Result<Vec<&'a NodeInfo>, Box<Diagnosis>> {
    let snapshot = cycle.snapshot;
    let mut diagnosis = Box::new(Diagnosis {
        nodes: snapshot.node_count(),
        ..Diagnosis::default()
    });
    if diagnosis.nodes == 0 {
        return Err(diagnosis);
    }
    let (chosen, by) = match profile.run_pre_filter(cycle) {
        Ok(chosen) => chosen,
        Err(rejected) => {
            diagnosis.before_filters = Some(rejected.message());
            diagnosis.plugins.insert(rejected.plugin);
            diagnosis.others = Some(rejected);
            return Err(diagnosis);
        }
    };
    // Others made way there, so it is most likely the only one.
    let nominated = cycle.pod.pod.nominated_node();
    if let Some(node) = nominated.and_then(|name| snapshot.node(name))
        && chosen
            .as_ref()
            .is_none_or(|names| names.contains(node.name()))
        && profile.run_filters_with_nominated(cycle, node).is_ok()
    {
        return Ok(vec![node]);
    }
    let Some(names) = chosen else {
        return pass_filters(profile, cycle, next_start, diagnosis);
    };
    let plugins: Vec<_> = by.iter().copied().collect();
    let message = format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
    diagnosis.others = Some(Rejected::unresolvable(message));
    diagnosis.plugins.extend(plugins);
    let nodes = names.iter().filter_map(|name| snapshot.node(name));
    let feasible: Vec<_> = nodes
        .filter(|node| check(profile, cycle, node, &mut diagnosis))
        .collect();
    match feasible.is_empty() {
        true => Err(diagnosis),
        false => Ok(feasible),
    }
}

/// Goes round the nodes from where the last search ended, until enough are found.
fn pass_filters<'a>(
    profile: &Profile,
    cycle: &Cycle<'a>,
    next_start: &mut usize,
    mut diagnosis: Box<Diagnosis>,
) -> Result<Vec<&'a NodeInfo>, Box<Diagnosis>> {
    let all = cycle.snapshot.node_count();
    let wanted = profile.feasible_nodes_to_find(all);
    let mut feasible = Vec::with_capacity(wanted);
    let mut looked_at = 0;
    while looked_at < all && feasible.len() < wanted {
        let node = cycle.snapshot.node_at((*next_start + looked_at) % all);
        looked_at += 1;
        if check(profile, cycle, node, &mut diagnosis) {
            feasible.push(node);
        }
    }
    *next_start = (*next_start + looked_at) % all;
    match feasible.is_empty() {
        true => Err(diagnosis),
        false => Ok(feasible),
    }
}

/// Whether the node passes the filters; notes why not.
fn check(profile: &Profile, cycle: &Cycle<'_>, node: &NodeInfo, diagnosis: &mut Diagnosis) -> bool {
    match profile.run_filters_with_nominated(cycle, node) {
        Ok(()) => true,
        Err(rejected) => {
            diagnosis.reject(node.id, rejected);
            false
        }
    }
}

fn reservation_failed(cycle: &Cycle<'_>, node: &NodeInfo, rejected: Rejected) -> Box<Diagnosis> {
    let mut diagnosis = Box::new(Diagnosis {
        nodes: cycle.snapshot.node_count(),
        ..Diagnosis::default()
    });
    diagnosis.reject(node.id, rejected);
    diagnosis
}
