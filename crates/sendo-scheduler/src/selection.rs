//! The selection of a node for a pod, and the report on a pod that no node fits.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/schedule_one.go`: `schedulePod`, `findNodesThatPassFilters`,
//!   `handleSchedulingFailure`
//! - `pkg/scheduler/framework/types.go`: `FitError`, `Error`

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::client::Patch;
use sendo::{Context, EventSeverity::*, ObjectExt, Result};
use serde_json::json;

use crate::filter::{self, Reason};
use crate::node_info::NodeInfo;
use crate::pod::Pod;
use crate::score;

/// Why a pod fits no node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FitError {
    nodes: usize,
    /// How many nodes were filtered out for each reason.
    reasons: BTreeMap<Reason, usize>,
}

/// The name of the best node for the pod.
pub(crate) fn select_node<'a>(pod: &Pod, node_infos: &'a [NodeInfo]) -> Result<&'a str, FitError> {
    let mut reasons = BTreeMap::new();
    let mut feasible = Vec::new();
    for node_info in node_infos {
        match filter::run_filters(pod, node_info) {
            Ok(()) => feasible.push(node_info),
            Err(refused) => {
                for reason in refused {
                    *reasons.entry(reason).or_insert(0) += 1;
                }
            }
        }
    }
    match score::best_node(pod, &feasible) {
        Some(node_info) => Ok(node_info.node.name()),
        None => Err(FitError {
            nodes: node_infos.len(),
            reasons,
        }),
    }
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let nodes = self.nodes;
        let mut reasons: Vec<_> = self
            .reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        reasons.sort();
        write!(
            f,
            "0/{nodes} nodes are available: {}. no new claims to deallocate, preemption: \
             0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling.",
            reasons.join(", ")
        )
    }
}

/// Reports in the pod's status and in an event that it cannot be scheduled, unless the status
/// has this message already.
pub(crate) async fn report_unschedulable(pod: &Pod, message: &str, cx: &Context) -> Result<()> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let known = conditions.find(|condition| condition.type_ == "PodScheduled");
    if known.is_some_and(|known| known.message.as_deref() == Some(message)) {
        return Ok(());
    }
    let since = known
        .filter(|known| known.status == "False")
        .and_then(|known| known.last_transition_time.clone())
        .unwrap_or(Time(cx.now()));
    let patch = Patch::Strategic(json!({"status": {"conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }]}}));
    cx.event(Warning, "FailedScheduling", message);
    match cx.client().patch_status(pod, patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
