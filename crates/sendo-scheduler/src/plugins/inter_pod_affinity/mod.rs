//! Affinity to other pods: beside which a pod runs, and beside which not.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`: `PreFilter`, `Filter`,
//!   `updateWithPod`, `satisfyPodAffinity`, `satisfyPodAntiAffinity`,
//!   `satisfyExistingPodsAntiAffinity`
//! - `pkg/scheduler/framework/plugins/interpodaffinity/scoring.go`: `PreScore`,
//!   `processExistingPod`, `Score`, `NormalizeScore`
//! - `pkg/scheduler/framework/plugins/interpodaffinity/plugin.go`: `isSchedulableAfterPodChange`,
//!   `isSchedulableAfterNodeChange`

mod counts;

use crate::framework::{
    ClusterEvent, Cycle, MAX_NODE_SCORE, NodeScore, Plugin, PreFilter, PreScore, QueuedPod,
    QueueingHint, Rejected,
};
use crate::pod::Pod;
use crate::snapshot::Snapshot;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::{AffinityTerm, PodClass, PodInfo};
use counts::Counts;

/// Rejects nodes where the pod would run beside the wrong pods, and prefers those where it would
/// run beside the right ones.
#[derive(Clone, Copy, Debug)]
pub struct InterPodAffinity {
    hard_pod_affinity_weight: i64,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        InterPodAffinity {
            hard_pod_affinity_weight: 1,
        }
    }
}

/// How many pods of each domain matter to the pod.
#[derive(Clone)]
struct Hard {
    /// Pods that would not run beside it.
    existing_anti_affinity: Counts,
    /// Pods that it has to run beside.
    affinity: Counts,
    /// Pods that it must not run beside.
    anti_affinity: Counts,
}

/// The sum of the weights of each domain.
#[derive(Clone)]
struct Soft(Counts);

/// Whether the terms select the class of pods; a pod that has none of them is selected by none.
fn all_match(terms: &[AffinityTerm], class: &PodClass, snapshot: &Snapshot) -> bool {
    let labels = snapshot.objects.namespace_labels(&class.namespace);
    !terms.is_empty() && terms.iter().all(|term| term.matches(class, labels))
}

impl Hard {
    /// Counts pods of a class on some nodes.
    fn count(
        &mut self,
        snapshot: &Snapshot,
        pod: &PodClass,
        other: &PodClass,
        nodes: impl Iterator<Item = (u32, i64)> + Clone,
    ) {
        let own_namespace = snapshot.objects.namespace_labels(&pod.namespace);
        for term in &other.affinity.required_anti_affinity {
            if term.matches(pod, own_namespace) {
                let key = &term.topology_key;
                self.existing_anti_affinity
                    .add(snapshot, key, nodes.clone());
            }
        }
        if all_match(&pod.affinity.required_affinity, other, snapshot) {
            for term in &pod.affinity.required_affinity {
                self.affinity
                    .add(snapshot, &term.topology_key, nodes.clone());
            }
        }
        let labels = snapshot.objects.namespace_labels(&other.namespace);
        for term in &pod.affinity.required_anti_affinity {
            if term.matches(other, labels) {
                self.anti_affinity
                    .add(snapshot, &term.topology_key, nodes.clone());
            }
        }
    }
}

fn change(cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo, by: i64) {
    let (pod, snapshot) = (cycle.pod, cycle.snapshot);
    if let Some(hard) = cycle.state.get_mut::<Hard>() {
        let nodes = std::iter::once((node.id, by));
        hard.count(snapshot, &pod.info.class, &other.class, nodes);
    }
}

fn weighted(
    nodes: &crate::snapshot::PodsByNode,
    weight: i64,
) -> impl Iterator<Item = (u32, i64)> + Clone {
    nodes
        .iter()
        .map(move |(node, count)| (*node, i64::from(*count) * weight))
}

impl InterPodAffinity {
    /// Weighs the pods of a class on the nodes that have them.
    fn weigh(
        &self,
        scores: &mut Counts,
        snapshot: &Snapshot,
        pod: &PodClass,
        other: &PodClass,
        nodes: &crate::snapshot::PodsByNode,
    ) {
        let own = snapshot.objects.namespace_labels(&pod.namespace);
        let labels = snapshot.objects.namespace_labels(&other.namespace);
        let mut add = |term: &AffinityTerm, weight| {
            scores.add(snapshot, &term.topology_key, weighted(nodes, weight));
        };
        for (weight, term) in &pod.affinity.preferred_affinity {
            if term.matches(other, labels) {
                add(term, *weight);
            }
        }
        for (weight, term) in &pod.affinity.preferred_anti_affinity {
            if term.matches(other, labels) {
                add(term, -weight);
            }
        }
        for term in &other.affinity.required_affinity {
            if self.hard_pod_affinity_weight > 0 && term.matches(pod, own) {
                add(term, self.hard_pod_affinity_weight);
            }
        }
        for (weight, term) in &other.affinity.preferred_affinity {
            if term.matches(pod, own) {
                add(term, *weight);
            }
        }
        for (weight, term) in &other.affinity.preferred_anti_affinity {
            if term.matches(pod, own) {
                add(term, -weight);
            }
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let class = &pod.info.class;
        let terms = &class.affinity;
        let selects = |other: &Pod, terms: &[AffinityTerm]| {
            let other = PodInfo::new(other).class;
            // Labels of namespaces are not at hand: a selector of them may match.
            terms
                .iter()
                .any(|term| term.namespace_selector.is_some() || term.matches(&other, None))
        };
        let rejects = |other: &Pod| {
            let other = PodInfo::new(other).class;
            let terms = &other.affinity.required_anti_affinity;
            let mut terms = terms.iter();
            terms.any(|term| term.namespace_selector.is_some() || term.matches(class, None))
        };
        match event {
            ClusterEvent::AssignedPodAdded(other) => {
                selects(other, &terms.required_affinity).into()
            }
            ClusterEvent::AssignedPodDeleted(other) => {
                (selects(other, &terms.required_anti_affinity) || rejects(other)).into()
            }
            ClusterEvent::AssignedPodUpdated { old, new } => {
                (old.metadata.labels != new.metadata.labels).into()
            }
            ClusterEvent::NodeUpdated { old, new } => {
                (old.metadata.labels != new.metadata.labels).into()
            }
            ClusterEvent::NodeAdded(_)
            | ClusterEvent::PodUpdated { .. }
            | ClusterEvent::Namespace => QueueingHint::Queue,
            _ => QueueingHint::Skip,
        }
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        let (pod, snapshot) = (&*cycle.pod.info.class, cycle.snapshot);
        let mut hard = Hard {
            existing_anti_affinity: Counts::default(),
            affinity: Counts::default(),
            anti_affinity: Counts::default(),
        };
        let terms = &pod.affinity;
        let is_picky =
            !terms.required_affinity.is_empty() || !terms.required_anti_affinity.is_empty();
        if is_picky {
            for (other, nodes) in snapshot.classes() {
                hard.count(snapshot, pod, other, weighted(nodes, 1));
            }
        } else {
            for (other, nodes) in snapshot.classes_with_affinity() {
                hard.count(snapshot, pod, other, weighted(nodes, 1));
            }
            if hard.existing_anti_affinity.is_empty() {
                return Ok(PreFilter::Skip);
            }
        }
        cycle.state.write(hard);
        Ok(PreFilter::AllNodes)
    }

    fn add_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        change(cycle, other, node, 1);
    }

    fn remove_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        change(cycle, other, node, -1);
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let Some(hard) = cycle.state.get::<Hard>() else {
            return Ok(());
        };
        let class = &*cycle.pod.info.class;
        let terms = &class.affinity;
        let mut places = terms.required_affinity.iter();
        let places = places.try_fold(true, |all, term| {
            // A node without the label is no place at all.
            let here = hard
                .affinity
                .at(cycle.snapshot, &term.topology_key, node.id)?;
            Some(all && here > 0)
        });
        let is_first = || {
            hard.affinity.is_empty() && all_match(&terms.required_affinity, class, cycle.snapshot)
        };
        if !places.is_some_and(|all| all || is_first()) {
            return Err(Rejected::unresolvable(
                "node(s) didn't match pod affinity rules",
            ));
        }
        let crowded = |term: &AffinityTerm| {
            let here = hard
                .anti_affinity
                .at(cycle.snapshot, &term.topology_key, node.id);
            here.is_some_and(|count| count > 0)
        };
        if terms.required_anti_affinity.iter().any(crowded) {
            return Err(Rejected::unschedulable(
                "node(s) didn't match pod anti-affinity rules",
            ));
        }
        if hard.existing_anti_affinity.any_at(node.id) {
            return Err(Rejected::unschedulable(
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }

    fn pre_score(&self, cycle: &mut Cycle<'_>, _: &[&NodeInfo]) -> PreScore {
        let (pod, snapshot) = (&*cycle.pod.info.class, cycle.snapshot);
        let terms = &pod.affinity;
        let has_preferences =
            !terms.preferred_affinity.is_empty() || !terms.preferred_anti_affinity.is_empty();
        let mut scores = Counts::default();
        if has_preferences {
            for (other, nodes) in snapshot.classes() {
                self.weigh(&mut scores, snapshot, pod, other, nodes);
            }
        } else {
            for (other, nodes) in snapshot.classes_with_affinity() {
                self.weigh(&mut scores, snapshot, pod, other, nodes);
            }
        }
        if scores.is_untouched() {
            return PreScore::Skip;
        }
        cycle.state.write(Soft(scores));
        PreScore::Score
    }

    fn score(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> i64 {
        let soft = cycle.state.get::<Soft>();
        soft.map_or(0, |Soft(scores)| scores.sum_at(node.id))
    }

    fn normalize_scores(&self, _: &Cycle<'_>, scores: &mut [NodeScore<'_>]) {
        let lowest = scores.iter().map(|one| one.score).min().unwrap_or_default();
        let highest = scores.iter().map(|one| one.score).max().unwrap_or_default();
        let span = highest - lowest;
        for one in scores {
            one.score = match span {
                0 => 0,
                span => {
                    let share = (one.score - lowest) as f64 / span as f64;
                    (MAX_NODE_SCORE as f64 * share) as i64
                }
            };
        }
    }
}
