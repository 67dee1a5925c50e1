//! Spreading pods over the domains of a topology.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/podtopologyspread/filtering.go`: `calPreFilterState`,
//!   `updateWithPod`, `Filter`
//! - `pkg/scheduler/framework/plugins/podtopologyspread/scoring.go`: `PreScore`, `Score`,
//!   `NormalizeScore`, `topologyNormalizingWeight`, `scoreForCount`
//! - `pkg/scheduler/framework/plugins/podtopologyspread/plugin.go`: `isSchedulableAfterPodChange`,
//!   `isSchedulableAfterNodeChange`

mod constraints;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, TopologySpreadConstraint};
use sendo::ObjectExt;

use crate::framework::{
    ClusterEvent, Cycle, MAX_NODE_SCORE, NodeScore, Plugin, PreFilter, PreScore, QueuedPod,
    QueueingHint, Rejected,
};
use crate::pod::Pod;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::{PodInfo, matches, selector};
use constraints::{Constraint, HOSTNAME, Unsatisfiable, constraints, own, system_defaults};

/// Rejects nodes on which the pod would make the spread too uneven, and prefers those that make
/// it more even.
#[derive(Clone, Debug)]
pub struct PodTopologySpread {
    defaults: Vec<TopologySpreadConstraint>,
    /// Whether nodes count that lack some of the labels.
    defaults_need_all_labels: bool,
}

impl Default for PodTopologySpread {
    fn default() -> Self {
        PodTopologySpread {
            defaults: system_defaults(),
            defaults_need_all_labels: false,
        }
    }
}

impl PodTopologySpread {
    /// With other constraints for pods that have none: by default they are spread softly over
    /// hosts and zones. Their selectors are those of the pod's Services and controller.
    pub fn with_default_constraints(defaults: Vec<TopologySpreadConstraint>) -> Self {
        PodTopologySpread {
            defaults,
            defaults_need_all_labels: true,
        }
    }
}

/// The hard constraints, and how many pods each domain has.
#[derive(Clone)]
struct Hard(Vec<HardConstraint>);

#[derive(Clone)]
struct HardConstraint {
    constraint: Arc<Constraint>,
    /// By domain; `None` where no node counts.
    pods: Vec<Option<i64>>,
    /// Of the domain with the fewest; `None` if there are none.
    fewest: Option<i64>,
    /// 1 if the pod selects itself.
    own: i64,
}

impl HardConstraint {
    fn count(&mut self) {
        let domains = self.pods.iter().flatten();
        self.fewest = match domains.clone().count() < self.constraint.min_domains {
            true => Some(0),
            false => domains.min().copied(),
        };
    }
}

/// The soft constraints, and how many pods each domain has.
#[derive(Clone)]
struct Soft {
    constraints: Arc<Vec<SoftConstraint>>,
    needs_all_labels: bool,
}

struct SoftConstraint {
    constraint: Constraint,
    /// By domain, or by node where each is a domain of its own.
    pods: Vec<i64>,
    /// The more domains, the more a pod of one weighs.
    weight: f64,
}

impl Soft {
    fn ignores(&self, node: &NodeInfo) -> bool {
        let mut constraints = self.constraints.iter();
        self.needs_all_labels
            && constraints.any(|one| one.constraint.domains.of_node(node.id).is_none())
    }
}

fn has_all_labels<'a>(all: impl IntoIterator<Item = &'a Constraint>, node: &NodeInfo) -> bool {
    let mut all = all.into_iter();
    all.all(|one| one.domains.of_node(node.id).is_some())
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let own = own(&pod.pod);
        let counts = |other: &Pod| {
            let labels = other.metadata.labels.clone().unwrap_or_default();
            let mut selectors = own.iter().map(|one| selector(one.label_selector.as_ref()));
            other.metadata.namespace == pod.pod.metadata.namespace
                && selectors.any(|one| matches(one.as_ref(), &labels))
        };
        let has_labels = |node: &Node| {
            let mut own = own.iter();
            own.all(|one| node.label(&one.topology_key).is_some())
        };
        match event {
            ClusterEvent::AssignedPodAdded(other) | ClusterEvent::AssignedPodDeleted(other) => {
                counts(other).into()
            }
            ClusterEvent::AssignedPodUpdated { old, new } => {
                let changed = old.metadata.labels != new.metadata.labels
                    || old.is_being_deleted() != new.is_being_deleted();
                (changed && (counts(old) || counts(new))).into()
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeDeleted(node) => {
                has_labels(node).into()
            }
            ClusterEvent::NodeUpdated { old, new } => (has_labels(old) || has_labels(new)).into(),
            ClusterEvent::PodUpdated { .. } => QueueingHint::Queue,
            _ => QueueingHint::Skip,
        }
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        let (pod, snapshot) = (cycle.pod, cycle.snapshot);
        let hard = Unsatisfiable::DoNotSchedule;
        let hard = constraints(&pod.pod, snapshot, &self.defaults, hard);
        if hard.is_empty() {
            return Ok(PreFilter::Skip);
        }
        let class = &pod.info.class;
        let mut state: Vec<_> = hard
            .iter()
            .map(|constraint| HardConstraint {
                pods: vec![None; constraint.domains.len()],
                fewest: None,
                own: i64::from(constraint.selects(&class.labels)),
                constraint: Arc::new(constraint.clone()),
            })
            .collect();
        let on_nodes: Vec<_> = hard
            .iter()
            .map(|one| by_node(one.pods_by_node(snapshot, &class.namespace)))
            .collect();
        for node in snapshot.nodes() {
            if !has_all_labels(&hard, node) {
                continue;
            }
            for (one, on_nodes) in state.iter_mut().zip(&on_nodes) {
                if let Some(domain) = one.constraint.domains.of_node(node.id)
                    && one.constraint.includes(&pod.pod, node)
                {
                    let here = on_nodes.get(node.id as usize).copied().unwrap_or_default();
                    *one.pods[domain].get_or_insert_default() += here;
                }
            }
        }
        state.iter_mut().for_each(HardConstraint::count);
        cycle.state.write(Hard(state));
        Ok(PreFilter::AllNodes)
    }

    fn add_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        change(cycle, other, node, 1);
    }

    fn remove_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        change(cycle, other, node, -1);
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let Some(Hard(constraints)) = cycle.state.get() else {
            return Ok(());
        };
        for one in constraints {
            let Some(domain) = one.constraint.domains.of_node(node.id) else {
                return Err(Rejected::unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let here = one.pods[domain].unwrap_or_default();
            let uneven = |fewest| here + one.own - fewest > one.constraint.max_skew;
            if one.fewest.is_some_and(uneven) {
                return Err(Rejected::unschedulable(
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        Ok(())
    }

    fn pre_score(&self, cycle: &mut Cycle<'_>, nodes: &[&NodeInfo]) -> PreScore {
        let (pod, snapshot) = (cycle.pod, cycle.snapshot);
        let soft = Unsatisfiable::ScheduleAnyway;
        let soft = constraints(&pod.pod, snapshot, &self.defaults, soft);
        if soft.is_empty() {
            return PreScore::Skip;
        }
        let needs_all_labels = self.defaults_need_all_labels || !own(&pod.pod).is_empty();
        let scored: Vec<_> = nodes
            .iter()
            .filter(|node| !needs_all_labels || has_all_labels(&soft, node))
            .collect();
        let count = |constraint: Constraint| {
            let on_nodes = constraint.pods_by_node(snapshot, &pod.info.class.namespace);
            let is_hostname = constraint.topology_key == HOSTNAME;
            let (pods, domains) = if is_hostname {
                (by_node(on_nodes), scored.len())
            } else {
                // Nodes without the label are a domain, too.
                let mut used = vec![false; constraint.domains.len() + 1];
                for node in &scored {
                    let domain = constraint.domains.of_node(node.id);
                    used[domain.unwrap_or(constraint.domains.len())] = true;
                }
                let mut pods = vec![0; constraint.domains.len()];
                for (id, here) in on_nodes {
                    let Some(node) = snapshot.node_of_id(id) else {
                        continue;
                    };
                    let counts = constraint.includes(&pod.pod, node)
                        && (!needs_all_labels || has_all_labels([&constraint], node));
                    if let Some(domain) = constraint.domains.of_node(id)
                        && counts
                    {
                        pods[domain] += i64::from(here);
                    }
                }
                (pods, used.iter().filter(|used| **used).count())
            };
            SoftConstraint {
                constraint,
                pods,
                weight: ((domains + 2) as f64).ln(),
            }
        };
        let soft = Soft {
            constraints: Arc::new(soft.into_iter().map(count).collect()),
            needs_all_labels,
        };
        cycle.state.write(soft);
        PreScore::Score
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let Some(soft) = cycle.state.get::<Soft>() else {
            return 0;
        };
        if soft.ignores(node) {
            return 0;
        }
        let score = |one: &SoftConstraint| {
            let domain = one.constraint.domains.of_node(node.id)?;
            let here = match one.constraint.topology_key == HOSTNAME {
                true => one.pods.get(node.id as usize).copied().unwrap_or_default(),
                false => one.pods[domain],
            };
            Some(here as f64 * one.weight + (one.constraint.max_skew - 1) as f64)
        };
        let scores = soft.constraints.iter().filter_map(score);
        scores.sum::<f64>().round() as i64
    }

    fn normalize_scores(&self, cycle: &Cycle<'_>, scores: &mut [NodeScore<'_>]) {
        let Some(soft) = cycle.state.get::<Soft>() else {
            return;
        };
        let counted = scores.iter().filter(|one| !soft.ignores(one.node));
        let lowest = counted.clone().map(|one| one.score).min();
        let highest = counted.map(|one| one.score).max();
        let (lowest, highest) = (lowest.unwrap_or_default(), highest.unwrap_or_default());
        for one in scores {
            one.score = if soft.ignores(one.node) {
                0
            } else if highest == 0 {
                MAX_NODE_SCORE
            } else {
                MAX_NODE_SCORE * (highest + lowest - one.score) / highest
            };
        }
    }
}

/// Counts by node as an array.
fn by_node(counts: Vec<(u32, u32)>) -> Vec<i64> {
    let nodes = counts.iter().map(|(node, _)| *node as usize + 1).max();
    let mut all = vec![0; nodes.unwrap_or_default()];
    for (node, count) in counts {
        all[node as usize] += i64::from(count);
    }
    all
}

fn change(cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo, by: i64) {
    let pod = cycle.pod;
    let class = &other.class;
    if class.namespace != pod.info.class.namespace {
        return;
    }
    let Some(Hard(constraints)) = cycle.state.get_mut() else {
        return;
    };
    if !has_all_labels(constraints.iter().map(|one| &*one.constraint), node) {
        return;
    }
    for one in constraints {
        if let Some(domain) = one.constraint.domains.of_node(node.id)
            && one.constraint.selects(&class.labels)
            && one.constraint.includes(&pod.pod, node)
        {
            *one.pods[domain].get_or_insert_default() += by;
            one.count();
        }
    }
}
