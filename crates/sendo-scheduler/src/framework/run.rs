//! How the plugins of a profile are run.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/runtime/framework.go`: `RunPreFilterPlugins`, `RunFilterPlugins`,
//!   `RunFilterPluginsWithNominatedPods`, `RunPostFilterPlugins`, `RunScorePlugins`,
//!   `RunReservePluginsReserve`, `RunBindPlugins`

use std::collections::BTreeSet;

use sendo::{Context, Result};

use super::{
    Binding, Bound, Code, Cycle, Diagnosis, NodeScore, PostFilter, PreFilter, PreScore, Profile,
    Progress, QueuedPod, Rejected,
};
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::PodInfo;

impl Profile {
    /// Whether the pod may enter the queue.
    pub(crate) fn run_pre_enqueue(&self, pod: &QueuedPod) -> Result<(), Rejected> {
        self.plugins.iter().try_for_each(|one| {
            let name = one.plugin.name();
            one.plugin.pre_enqueue(pod).map_err(|r| r.by(name))
        })
    }

    /// The names of the nodes that are to be looked at, `None` for all, and the plugins that chose
    /// them.
    pub(crate) fn run_pre_filter(
        &self,
        cycle: &mut Cycle<'_>,
    ) -> Result<(Option<BTreeSet<String>>, BTreeSet<&'static str>), Rejected> {
        let (mut chosen, mut by) = (None::<BTreeSet<String>>, BTreeSet::new());
        for (place, one) in self.plugins.iter().enumerate() {
            let name = one.plugin.name();
            match one.plugin.pre_filter(cycle).map_err(|r| r.by(name))? {
                PreFilter::AllNodes => {}
                PreFilter::Skip => cycle.state.skipped_filters |= 1 << place,
                PreFilter::Only(nodes) => {
                    by.insert(name);
                    chosen = Some(match chosen {
                        None => nodes,
                        Some(before) => before.intersection(&nodes).cloned().collect(),
                    });
                    if chosen.as_ref().is_some_and(BTreeSet::is_empty) {
                        let names: Vec<_> = by.iter().copied().collect();
                        let message = match names.len() {
                            1 => format!("node(s) didn't satisfy plugin {}", names[0]),
                            _ => format!(
                                "node(s) didn't satisfy plugin(s) [{}] simultaneously",
                                names.join(" ")
                            ),
                        };
                        return Err(Rejected::unresolvable(message).by(name));
                    }
                }
            }
        }
        Ok((chosen, by))
    }

    /// Whether the pod can run on the node.
    pub(crate) fn run_filters(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let skipped = cycle.state.skipped_filters;
        for (place, one) in self.plugins.iter().enumerate() {
            if skipped & (1 << place) == 0 {
                let filtered = one.plugin.filter(cycle, node);
                filtered.map_err(|r| r.by(one.plugin.name()))?;
            }
        }
        Ok(())
    }

    /// The same where others make way for pods of the same or a higher priority: with these on the
    /// node, and without them, as they may not come.
    pub(crate) fn run_filters_with_nominated(
        &self,
        cycle: &Cycle<'_>,
        node: &NodeInfo,
    ) -> Result<(), Rejected> {
        let pod = &cycle.pod.info;
        let nominated = cycle.snapshot.nominated(node.name()).iter();
        let mut coming = nominated
            .filter(|other| other.priority >= pod.priority && other.uid != pod.uid)
            .peekable();
        if coming.peek().is_some() {
            let (mut cycle, mut node) = (cycle.clone(), node.clone());
            for other in coming {
                node.add_pod(other.clone());
                self.run_add_pod(&mut cycle, other, &node);
            }
            self.run_filters(&cycle, &node)?;
        }
        self.run_filters(cycle, node)
    }

    pub(crate) fn run_add_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        for (place, one) in self.plugins.iter().enumerate() {
            if cycle.state.skipped_filters & (1 << place) == 0 {
                one.plugin.add_pod(cycle, other, node);
            }
        }
    }

    pub(crate) fn run_remove_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, node: &NodeInfo) {
        for (place, one) in self.plugins.iter().enumerate() {
            if cycle.state.skipped_filters & (1 << place) == 0 {
                one.plugin.remove_pod(cycle, other, node);
            }
        }
    }

    /// Asks the plugins in turn to make a node fit.
    pub(crate) fn run_post_filter(&self, cycle: &Cycle<'_>, diagnosis: &Diagnosis) -> PostFilter {
        let (mut reasons, mut clears) = (Vec::new(), false);
        for one in &self.plugins {
            let rejected = match one.plugin.post_filter(cycle, self, diagnosis) {
                None => continue,
                Some(nominated @ PostFilter::Nominate(_)) => return nominated,
                Some(PostFilter::ClearNomination(rejected)) => {
                    clears = true;
                    rejected
                }
                Some(PostFilter::Unchanged(rejected)) => rejected,
            };
            if rejected.code == Code::Error {
                return PostFilter::Unchanged(rejected);
            }
            reasons.extend(rejected.reasons);
        }
        let rejected = Rejected {
            code: Code::Unschedulable,
            reasons,
            plugin: "",
        };
        match clears {
            true => PostFilter::ClearNomination(rejected),
            false => PostFilter::Unchanged(rejected),
        }
    }

    /// The weighted sum of all scores of each node, in the order of the nodes.
    pub(crate) fn run_scores(&self, cycle: &mut Cycle<'_>, nodes: &[&NodeInfo]) -> Vec<i64> {
        for (place, one) in self.plugins.iter().enumerate() {
            if one.plugin.pre_score(cycle, nodes) == PreScore::Skip {
                cycle.state.skipped_scores |= 1 << place;
            }
        }
        let mut sums = vec![0; nodes.len()];
        let mut scores = Vec::with_capacity(nodes.len());
        for (place, one) in self.plugins.iter().enumerate() {
            if cycle.state.skipped_scores & (1 << place) != 0 || one.weight == 0 {
                continue;
            }
            scores.clear();
            scores.extend(nodes.iter().map(|node| NodeScore {
                node,
                score: one.plugin.score(cycle, node),
            }));
            one.plugin.normalize_scores(cycle, &mut scores);
            for (sum, score) in sums.iter_mut().zip(&scores) {
                *sum += score.score * one.weight;
            }
        }
        sums
    }

    pub(crate) fn run_reserve(
        &self,
        cycle: &mut Cycle<'_>,
        node: &NodeInfo,
    ) -> Result<(), Rejected> {
        for one in &self.plugins {
            let reserved = one.plugin.reserve(cycle, node);
            reserved.map_err(|r| r.by(one.plugin.name()))?;
        }
        Ok(())
    }

    /// Takes back what was reserved, in the reverse order.
    pub(crate) fn run_unreserve(&self, binding: &Binding) {
        for one in self.plugins.iter().rev() {
            one.plugin.unreserve(binding);
        }
    }

    /// Permits, prepares and makes the binding; or says how long it has to wait.
    pub(crate) async fn run_binding(&self, binding: &Binding, cx: &Context) -> Result<Progress> {
        for one in &self.plugins {
            if let wait @ Progress::Wait(_) = one.plugin.permit(binding, cx).await? {
                return Ok(wait);
            }
        }
        for one in &self.plugins {
            if let wait @ Progress::Wait(_) = one.plugin.pre_bind(binding, cx).await? {
                return Ok(wait);
            }
        }
        for one in &self.plugins {
            if one.plugin.bind(binding, cx).await? == Bound::Done {
                for one in &self.plugins {
                    one.plugin.post_bind(binding);
                }
                return Ok(Progress::Ready);
            }
        }
        Err(sendo::Error::message(format!(
            "no plugin of the profile {} binds pods: add `DefaultBinder`",
            self.name()
        )))
    }
}
