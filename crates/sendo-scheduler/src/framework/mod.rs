//! The scheduling framework: what a plugin is, and how plugins are run.
//!
//! A plugin is one `impl` of [`Plugin`]: it overrides the extension points at which it has
//! something to say. A [`Profile`] is a list of plugins with weights, for the pods that name it
//! as their scheduler.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-scheduler/framework/interface.go`: `PreEnqueuePlugin`,
//!   `PreFilterPlugin`, `FilterPlugin`, `PostFilterPlugin`, `PreScorePlugin`, `ScorePlugin`,
//!   `ReservePlugin`, `PermitPlugin`, `PreBindPlugin`, `BindPlugin`, `PostBindPlugin`

pub mod cycle;
pub mod diagnosis;
pub mod events;
mod profile;
mod run;
pub mod status;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sendo::{Context, Result};

pub use cycle::{Cycle, CycleState, QueuedPod};
pub use diagnosis::Diagnosis;
pub use events::{ClusterEvent, QueueingHint};
pub use profile::Profile;
pub use status::{Code, Reason, Rejected};

use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::PodInfo;

/// The highest score of a node.
pub const MAX_NODE_SCORE: i64 = 100;

/// A future that a plugin returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A part of scheduling. Every method but the name has a default that changes nothing.
///
/// Up to `reserve`, methods run under the scheduler's lock, one pod after the other: they must not
/// block. `permit`, `pre_bind` and `bind` run beside the scheduling of other pods.
pub trait Plugin: Send + Sync + 'static {
    /// Its name, in messages about unschedulable pods and in metrics.
    fn name(&self) -> &'static str;

    /// Whether the pod may enter the queue. If not, it waits until it changes.
    fn pre_enqueue(&self, _pod: &QueuedPod) -> Result<(), Rejected> {
        Ok(())
    }

    /// Whether an event may let a pod be scheduled that this plugin rejected; by default every
    /// event may.
    fn queueing_hint(&self, _pod: &QueuedPod, _event: &ClusterEvent<'_>) -> QueueingHint {
        QueueingHint::Queue
    }

    /// Looks at the pod once, before its nodes are looked at, and may compute in `cycle.state`
    /// what it needs for that.
    fn pre_filter(&self, _cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        Ok(PreFilter::AllNodes)
    }

    /// Corrects what `pre_filter` computed, as if this other pod were on the node.
    fn add_pod(&self, _cycle: &mut Cycle<'_>, _other: &PodInfo, _node: &NodeInfo) {}

    /// Corrects what `pre_filter` computed, as if this other pod were not on the node.
    fn remove_pod(&self, _cycle: &mut Cycle<'_>, _other: &PodInfo, _node: &NodeInfo) {}

    /// Whether the pod can run on a node.
    fn filter(&self, _cycle: &Cycle<'_>, _node: &NodeInfo) -> Result<(), Rejected> {
        Ok(())
    }

    /// Called when no node is left, to make a node fit at a later attempt. `None`: this plugin
    /// does not do that.
    fn post_filter(
        &self,
        _cycle: &Cycle<'_>,
        _profile: &Profile,
        _diagnosis: &Diagnosis,
    ) -> Option<PostFilter> {
        None
    }

    /// Looks at the nodes that are left once, before each gets its score.
    fn pre_score(&self, _cycle: &mut Cycle<'_>, _nodes: &[&NodeInfo]) -> PreScore {
        PreScore::Skip
    }

    /// The score of a node: any number if there is a `normalize_scores`, otherwise 0 to
    /// [`MAX_NODE_SCORE`]. Not called where `pre_score` skips it.
    fn score(&self, _cycle: &Cycle<'_>, _node: &NodeInfo) -> i64 {
        0
    }

    /// Brings the scores of all nodes to 0 to [`MAX_NODE_SCORE`].
    fn normalize_scores(&self, _cycle: &Cycle<'_>, _scores: &mut [NodeScore<'_>]) {}

    /// Notes that the pod is going to run on the node.
    fn reserve(&self, _cycle: &mut Cycle<'_>, _node: &NodeInfo) -> Result<(), Rejected> {
        Ok(())
    }

    /// Takes back what `reserve` noted: the pod was not bound after all.
    fn unreserve(&self, _binding: &Binding) {}

    /// Whether the pod may be bound now. While it waits, its resources are kept for it.
    fn permit<'a>(
        &'a self,
        _binding: &'a Binding,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Progress>> {
        Box::pin(async { Ok(Progress::Ready) })
    }

    /// What has to be done before the pod is bound. While it waits, its resources are kept for it.
    fn pre_bind<'a>(
        &'a self,
        _binding: &'a Binding,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Progress>> {
        Box::pin(async { Ok(Progress::Ready) })
    }

    /// Binds the pod, or leaves that to the next plugin.
    fn bind<'a>(&'a self, _binding: &'a Binding, _cx: &'a Context) -> BoxFuture<'a, Result<Bound>> {
        Box::pin(async { Ok(Bound::Skip) })
    }

    /// Called when the pod is bound.
    fn post_bind(&self, _binding: &Binding) {}
}

/// What a plugin says of a pod before its nodes are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilter {
    /// Every node is to be looked at.
    AllNodes,
    /// Only nodes of these names are to be looked at.
    Only(BTreeSet<String>),
    /// The plugin's filter says nothing about this pod.
    Skip,
}

/// What a plugin says of a pod before nodes are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScore {
    /// Its scores count.
    Score,
    /// It has nothing to say.
    Skip,
}

/// A node and its score.
#[derive(Clone, Copy, Debug)]
pub struct NodeScore<'a> {
    /// The node.
    pub node: &'a NodeInfo,
    /// The score.
    pub score: i64,
}

/// What a plugin did for a pod that fits no node.
#[derive(Clone, Debug)]
pub enum PostFilter {
    /// A node is going to fit.
    Nominate(Nomination),
    /// No node is: one that was nominated before is so no longer.
    ClearNomination(Rejected),
    /// It did nothing.
    Unchanged(Rejected),
}

/// A node that is going to fit the pod.
#[derive(Clone, Debug, Default)]
pub struct Nomination {
    /// The name of the node.
    pub node: String,
    /// The pods that are deleted to make way.
    pub victims: Vec<Arc<PodInfo>>,
}

/// A pod and the node on which it is going to run.
#[derive(Clone)]
pub struct Binding {
    /// The pod.
    pub pod: QueuedPod,
    /// The name of the node.
    pub node: String,
    /// What plugins keep.
    pub state: Arc<CycleState>,
}

/// Whether a pod can go on to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It can.
    Ready,
    /// It is asked again after this time, or earlier if a claim of the pod changes.
    Wait(Duration),
}

/// What a plugin did to bind a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is bound.
    Done,
    /// Another plugin has to do it.
    Skip,
}

/// Scales scores to 0 to [`MAX_NODE_SCORE`] by the highest of them.
pub fn scale(scores: &mut [NodeScore<'_>], direction: Better) {
    let highest = scores.iter().map(|one| one.score).max().unwrap_or_default();
    for one in scores {
        let scaled = match highest {
            0 => 0,
            highest => one.score * MAX_NODE_SCORE / highest,
        };
        one.score = match direction {
            Better::More => scaled,
            Better::Less => MAX_NODE_SCORE - scaled,
        };
    }
}

/// Which scores are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The higher.
    More,
    /// The lower.
    Less,
}
