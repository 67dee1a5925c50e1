//! What becomes of a pod that was not scheduled: its condition, its event, and the pods that make
//! way for it.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/schedule_one.go`: `handleSchedulingFailure`, `updatePod`
//! - `pkg/scheduler/framework/preemption/executor.go`: `prepareCandidate`, `PreemptPod`

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::client::Patch;
use sendo::{Context, EventSeverity::*, ObjectExt, ObjectKey, Result};
use serde_json::{Value, json};

use crate::framework::{Nomination, PostFilter, QueuedPod};
use crate::pod::Pod;
use crate::snapshot::pod_info::PodInfo;

/// The longest message of an event, in bytes.
const LONGEST_EVENT: usize = 1024;

/// A pod that fits no node.
pub(crate) struct Failure {
    pub(crate) pod: QueuedPod,
    /// Why, node by node.
    pub(crate) message: String,
    /// What was done for it.
    pub(crate) post_filter: PostFilter,
}

impl Failure {
    /// The node on which others make way.
    pub(crate) fn nomination(&self) -> Option<&Nomination> {
        match &self.post_filter {
            PostFilter::Nominate(nomination) => Some(nomination),
            _ => None,
        }
    }
}

/// Reports that no node fits the pod.
pub(crate) async fn report(failure: &Failure, cx: &Context) -> Result<()> {
    let pod = &failure.pod.pod;
    let nominated = match &failure.post_filter {
        PostFilter::Nominate(nomination) => Some(json!(nomination.node)),
        PostFilter::ClearNomination(_) => pod.nominated_node().map(|_| Value::Null),
        PostFilter::Unchanged(_) => None,
    };
    report_condition(pod, "Unschedulable", &failure.message, nominated, cx).await
}

/// Reports that something went wrong while a pod was bound.
pub(crate) async fn report_error(pod: &QueuedPod, message: &str, cx: &Context) -> Result<()> {
    report_condition(&pod.pod, "SchedulerError", message, None, cx).await
}

/// Writes the condition `PodScheduled` and an event, unless the pod has this condition already: a
/// cluster whose pods wait is quiet.
async fn report_condition(
    pod: &Pod,
    reason: &str,
    message: &str,
    nominated: Option<Value>,
    cx: &Context,
) -> Result<()> {
    // The newest state, as an attempt before this one may have written it.
    let newest = cx.get::<Pod>(pod.key());
    let pod = newest.as_deref().filter(|newest| newest.uid() == pod.uid());
    let Some(pod) = pod else {
        return Ok(());
    };
    let known = pod.condition("PodScheduled");
    let is_known = known.is_some_and(|known| {
        known.status == "False"
            && known.reason.as_deref() == Some(reason)
            && known.message.as_deref() == Some(message)
    });
    if is_known && nominated.is_none() {
        return Ok(());
    }
    let mut end = message.len().min(LONGEST_EVENT);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    cx.event_on(pod, Warning, "FailedScheduling", &message[..end]);
    let since = known
        .filter(|known| known.status == "False")
        .and_then(|known| known.last_transition_time.clone())
        .unwrap_or(Time(cx.now()));
    let mut patch = json!({"status": {"conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }]}});
    if let Some(node) = nominated {
        patch["status"]["nominatedNodeName"] = node;
    }
    patch_status(pod, patch, cx).await
}

/// Deletes the pods that make way, and sends those of lower priority that were to have the same
/// place to look for another.
pub(crate) async fn preempt(
    pod: &QueuedPod,
    nomination: &Nomination,
    lower_nominations: &[ObjectKey],
    cx: &Context,
) -> Result<()> {
    for key in lower_nominations {
        if let Some(other) = cx.get::<Pod>(key) {
            let patch = json!({"status": {"nominatedNodeName": null}});
            patch_status(&other, patch, cx).await?;
        }
    }
    for victim in &nomination.victims {
        evict(pod, victim, &nomination.node, cx).await?;
    }
    Ok(())
}

/// The condition of a pod that is about to be deleted by somebody else than who owns it.
const TARGET: &str = "DisruptionTarget";

async fn evict(pod: &QueuedPod, victim: &PodInfo, node: &str, cx: &Context) -> Result<()> {
    let victim = cx
        .get::<Pod>(&victim.key)
        .filter(|newest| newest.uid() == victim.uid && !newest.is_being_deleted());
    let Some(victim) = victim else {
        return Ok(());
    };
    let message = format!(
        "{}: preempting to accommodate a higher priority pod",
        pod.pod.scheduler_name()
    );
    let condition = json!({
        "type": TARGET,
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": Time(cx.now()),
        "observedGeneration": victim.metadata.generation,
    });
    // It comes last: without the order, what a patch adds to a list comes first.
    let conditions = victim.status.as_ref().and_then(|s| s.conditions.as_ref());
    let others = conditions
        .into_iter()
        .flatten()
        .map(|own| own.type_.as_str());
    let order = others.filter(|own| *own != TARGET).chain([TARGET]);
    let order: Vec<Value> = order.map(|own| json!({"type": own})).collect();
    let status = json!({"conditions": [condition], "$setElementOrder/conditions": order});
    patch_status(&victim, json!({"status": status}), cx).await?;
    match cx.delete(&victim).await {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let message = format!("Preempted by pod {} on node {node}", pod.info.uid.as_str());
    cx.event_on(&*victim, Normal, "Preempted", message);
    Ok(())
}

/// Patches the status of a pod; one that is gone is no error.
async fn patch_status(pod: &Pod, patch: Value, cx: &Context) -> Result<()> {
    match cx.client().patch_status(pod, Patch::Strategic(patch)).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
