//! Preemption: pods of lower priority make way.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`: `PostFilter`,
//!   `SelectVictimsOnNode`, `PodEligibleToPreemptOthers`, `calculateNumCandidates`,
//!   `filterPodsWithPDBViolation`
//! - `pkg/scheduler/framework/preemption/preemption.go`: `Preempt`, `DryRunPreemption`,
//!   `pickOneNodeForPreemption`
//! - `pkg/scheduler/util/utils.go`: `MoreImportantPod`, `GetEarliestPodStartTime`

use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use std::cmp::Reverse;
use std::sync::Arc;

use sendo::{ObjectExt, Selector, Timestamp};

use crate::framework::{
    ClusterEvent, Code, Cycle, Diagnosis, Nomination, Plugin, PostFilter, Profile, QueuedPod,
    QueueingHint, Rejected,
};
use crate::snapshot::Snapshot;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::{PodInfo, selector};

/// Chooses the node on which the least important pods make way.
#[derive(Clone, Copy, Debug)]
pub struct DefaultPreemption {
    /// Of so many nodes, in percent, candidates are looked for.
    min_candidate_nodes_percentage: usize,
    /// And at least of so many.
    min_candidate_nodes_absolute: usize,
}

impl Default for DefaultPreemption {
    fn default() -> Self {
        DefaultPreemption {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

/// A node that would fit without some of its pods.
struct Candidate<'a> {
    node: &'a NodeInfo,
    /// The most important first.
    victims: Vec<Arc<PodInfo>>,
    /// How many of them their budgets would keep.
    violations: usize,
}

impl Candidate<'_> {
    /// The lower, the better; nodes are told apart by the first of these that differs.
    fn rank(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let highest = self.victims[0].priority;
        let all = self.victims.iter();
        let priorities = all.clone().map(|pod| i64::from(pod.priority) + (1 << 31));
        let most_important = all.filter(|pod| pod.priority == highest);
        let earliest = most_important.map(|pod| started(pod)).min();
        (
            self.violations,
            highest,
            priorities.sum(),
            self.victims.len(),
            Reverse(earliest.unwrap_or(Timestamp::MAX)),
        )
    }
}

/// When the pod began to run; one that has not is as late as can be.
fn started(pod: &PodInfo) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}

fn sort_by_importance(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (Reverse(pod.priority), started(pod)));
}

/// A disruption budget and how many more pods it lets go.
struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i32,
    disrupted: Vec<String>,
}

/// The number is optional in the types of newer releases.
#[allow(clippy::useless_conversion)]
fn disruptions_allowed(status: &PodDisruptionBudgetStatus) -> i32 {
    let allowed: Option<i32> = status.disruptions_allowed.into();
    allowed.unwrap_or_default()
}

fn budgets(snapshot: &Snapshot) -> Vec<Budget> {
    let budgets = snapshot.objects.disruption_budgets.values();
    let budgets = budgets.filter_map(|budget| {
        let spec = budget.spec.as_ref()?;
        let status = budget.status.as_ref();
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        let selector = selector(spec.selector.as_ref())?;
        Some(Budget {
            namespace: budget.namespace()?.to_owned(),
            selector,
            allowed: status.map_or(0, disruptions_allowed),
            disrupted: disrupted
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        })
    });
    budgets
        .filter(|budget| !budget.selector.is_everything())
        .collect()
}

/// The pods that their budgets would keep, and the others, in their order.
fn split_by_budget(
    pods: Vec<Arc<PodInfo>>,
    snapshot: &Snapshot,
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut budgets = budgets(snapshot);
    pods.into_iter().partition(|pod| {
        let class = &pod.class;
        let mut is_kept = false;
        for budget in &mut budgets {
            let is_its = budget.namespace == class.namespace
                && !class.labels.is_empty()
                && budget.selector.matches(Some(&class.labels))
                && !budget.disrupted.iter().any(|name| name == pod.key.name());
            if is_its {
                budget.allowed -= 1;
                is_kept |= budget.allowed < 0;
            }
        }
        is_kept
    })
}

impl DefaultPreemption {
    fn candidates_to_find(&self, nodes: usize) -> usize {
        let share = nodes * self.min_candidate_nodes_percentage / 100;
        share.max(self.min_candidate_nodes_absolute).min(nodes)
    }

    fn preempt(
        &self,
        cycle: &Cycle<'_>,
        profile: &Profile,
        diagnosis: &Diagnosis,
    ) -> Result<Nomination, String> {
        let nodes = diagnosis.resolvable();
        let nodes: Vec<_> = nodes
            .filter_map(|id| cycle.snapshot.node_of_id(id))
            .collect();
        let mut refused = Diagnosis {
            nodes: diagnosis.nodes,
            others: Some(Rejected::unresolvable(
                "Preemption is not helpful for scheduling",
            )),
            ..Diagnosis::default()
        };
        let wanted = self.candidates_to_find(nodes.len());
        let offset = match nodes.len() {
            0 => 0,
            some => cycle.random.below(0..some as u64) as usize,
        };
        let (mut candidates, mut without_violation) = (Vec::new(), 0);
        for place in 0..nodes.len() {
            let node = nodes[(offset + place) % nodes.len()];
            match select_victims(cycle, profile, node) {
                Ok(candidate) => {
                    without_violation += usize::from(candidate.violations == 0);
                    candidates.push(candidate);
                }
                Err(rejected) => refused.reject(node.id, rejected),
            }
            if without_violation > 0 && candidates.len() >= wanted {
                break;
            }
        }
        let best = candidates.into_iter().min_by_key(Candidate::rank);
        let best = best.ok_or_else(|| refused.to_string())?;
        Ok(Nomination {
            node: best.node.name().to_owned(),
            victims: best.victims,
        })
    }
}

/// Whether the pod may have others make way.
fn is_eligible(cycle: &Cycle<'_>, diagnosis: &Diagnosis) -> Result<(), String> {
    let pod = &cycle.pod.pod;
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    let nominated = pod
        .nominated_node()
        .and_then(|name| cycle.snapshot.node(name));
    let Some(node) = nominated else {
        return Ok(());
    };
    let is_lost = diagnosis
        .of_node(node.id)
        .is_some_and(|rejected| rejected.code == Code::UnschedulableAndUnresolvable);
    let mut lower = node
        .pods
        .values()
        .filter(|other| other.priority < cycle.pod.info.priority);
    match !is_lost && lower.any(|other| other.is_being_preempted) {
        true => Err("not eligible due to a terminating pod on the nominated node.".to_owned()),
        false => Ok(()),
    }
}

/// The pods of the node without which the pod fits: first all of lower priority go, then as many
/// as possible come back, those first that a budget would keep.
fn select_victims<'a>(
    cycle: &Cycle<'_>,
    profile: &Profile,
    node: &'a NodeInfo,
) -> Result<Candidate<'a>, Rejected> {
    let lower = node.pods.values();
    let lower = lower.filter(|other| other.priority < cycle.pod.info.priority);
    let mut lower: Vec<_> = lower.cloned().collect();
    if lower.is_empty() {
        return Err(Rejected::unresolvable(
            "No preemption victims found for incoming pod",
        ));
    }
    let (mut cycle, mut without) = (cycle.clone(), node.clone());
    for other in &lower {
        without.remove_pod(&other.uid);
        profile.run_remove_pod(&mut cycle, other, &without);
    }
    profile.run_filters_with_nominated(&cycle, &without)?;
    sort_by_importance(&mut lower);
    let (kept, others) = split_by_budget(lower, cycle.snapshot);
    let violating = kept.len();
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (place, other) in kept.into_iter().chain(others).enumerate() {
        without.add_pod(other.clone());
        profile.run_add_pod(&mut cycle, &other, &without);
        if profile
            .run_filters_with_nominated(&cycle, &without)
            .is_err()
        {
            without.remove_pod(&other.uid);
            profile.run_remove_pod(&mut cycle, &other, &without);
            violations += usize::from(place < violating);
            victims.push(other);
        }
    }
    if victims.is_empty() {
        let name = node.name();
        let message = format!("expected at least one victim pod on node \"{name}\"");
        return Err(Rejected::error(message));
    }
    sort_by_importance(&mut victims);
    Ok(Candidate {
        node,
        victims,
        violations,
    })
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        "DefaultPreemption"
    }

    fn queueing_hint(&self, _: &QueuedPod, _: &ClusterEvent<'_>) -> QueueingHint {
        QueueingHint::Skip
    }

    fn post_filter(
        &self,
        cycle: &Cycle<'_>,
        profile: &Profile,
        diagnosis: &Diagnosis,
    ) -> Option<PostFilter> {
        let rejected = |why| Rejected::unschedulable(format!("preemption: {why}"));
        Some(match is_eligible(cycle, diagnosis) {
            Err(why) => PostFilter::Unchanged(rejected(why)),
            Ok(()) => match self.preempt(cycle, profile, diagnosis) {
                Ok(nomination) => PostFilter::Nominate(nomination),
                Err(why) => PostFilter::ClearNomination(rejected(why)),
            },
        })
    }
}
