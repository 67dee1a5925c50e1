//! The choice of a node, or why there is none.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::client::Patch;
use sendo::{Context, EventType::*, ObjectExt, Result};
use serde_json::json;

use crate::filter::{self, Refusal};
use crate::pod::Pod;
use crate::room::Room;
use crate::score;

/// Why no node will do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoNode {
    nodes: usize,
    /// How many nodes each reason left out.
    refusals: BTreeMap<Refusal, usize>,
}

/// The name of the node for the pod.
pub(crate) fn choose<'a>(pod: &Pod, rooms: &'a [Room]) -> Result<&'a str, NoNode> {
    let mut refusals = BTreeMap::new();
    let mut fit = Vec::new();
    for room in rooms {
        match filter::admit(pod, room) {
            Ok(()) => fit.push(room),
            Err(reasons) => {
                for reason in reasons {
                    *refusals.entry(reason).or_insert(0) += 1;
                }
            }
        }
    }
    match score::best(pod, &fit) {
        Some(room) => Ok(room.node.name()),
        None => Err(NoNode {
            nodes: rooms.len(),
            refusals,
        }),
    }
}

impl std::fmt::Display for NoNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let nodes = self.nodes;
        let mut reasons: Vec<_> = self
            .refusals
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

/// Says in the pod's status and in an event that it found no node; says it once.
pub(crate) async fn tell(pod: &Pod, message: &str, cx: &Context) -> Result<()> {
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
