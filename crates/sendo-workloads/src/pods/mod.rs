//! Pods as the controllers of this crate read them: indexes, node, phase, readiness, order.
//!
//! [`control`] creates and deletes them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/v1/pod/util.go`: `IsPodAvailable`, `IsPodReady`
//! - `pkg/controller/controller_utils.go`: `IsPodActive`, `IsPodTerminating`, `ActivePods`

pub(crate) mod control;
mod pod;

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use sendo::{Index, ObjectExt, Timestamp, Uid};
use serde_json::{Value, json};

pub(crate) use self::pod::{Condition, ContainerStatus, Pod, cached};

/// Pods by the object that controls them.
pub(crate) static BY_CONTROLLER: Index<Pod, Uid> =
    Index::new("pods-by-controller", |pod| pod.controller());

/// Pods without a controller, by namespace.
pub(crate) static ORPHANS: Index<Pod, String> = Index::new("orphaned-pods", |pod| {
    let orphan = pod.controller().is_none();
    orphan.then(|| pod.namespace().unwrap_or_default().to_owned())
});

/// Pods by the node they are bound to.
pub(crate) static BY_NODE: Index<Pod, String> =
    Index::new("pods-by-node", |pod| node_of(pod).map(str::to_owned));

/// The node that the pod is bound to.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    spec.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The tolerations of the pod.
pub(crate) fn tolerations(pod: &Pod) -> &[Toleration] {
    let spec = pod.spec.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
    tolerations.unwrap_or_default()
}

/// The pod's phase; empty if it has none yet.
pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// When the pod's node saw it first.
pub(crate) fn started_at(pod: &Pod) -> Option<Timestamp> {
    let started = pod.status.as_ref()?.start_time.as_ref()?;
    Some(started.0)
}

/// Whether the pod has neither finished nor is being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && !pod.is_being_deleted()
}

/// Whether the pod has finished.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod may run for so long only.
pub(crate) fn ends_by_itself(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.active_deadline_seconds)
        .is_some_and(|seconds| seconds >= 0)
}

/// What each of the pod's containers has now, where its node says.
pub(crate) fn resources_in_force(pod: &Pod) -> Vec<Option<&ResourceRequirements>> {
    let status = pod.status.iter();
    let resources = status.flat_map(|status| {
        let containers = status.container_statuses.iter().flatten();
        let sidecars = status.init_container_statuses.iter().flatten();
        containers
            .map(|container| container.resources.as_deref())
            .chain(sidecars.map(|container| container.resources.as_deref()))
    });
    resources.collect()
}

/// Whether the pod has not finished yet and is being deleted.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && pod.is_being_deleted()
}

/// The statuses of the containers, without init containers.
pub(crate) fn container_statuses(pod: &Pod) -> &[ContainerStatus] {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    statuses.unwrap_or_default()
}

/// The statuses of the init containers.
pub(crate) fn init_container_statuses(pod: &Pod) -> &[ContainerStatus] {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.init_container_statuses.as_deref());
    statuses.unwrap_or_default()
}

/// The largest number of restarts of a container.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let restarts = container_statuses(pod).iter().map(|c| c.restart_count);
    restarts.max().unwrap_or(0)
}

/// The position of the pod's phase in an order of deletion.
pub(crate) fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// `Less` if `a` is deleted before `b`: unassigned before assigned, pending before unknown before
/// running, not ready before ready, recently ready before long ready, more restarts before fewer,
/// newer before older.
pub(crate) fn deletion_order(a: &Pod, b: &Pod) -> Ordering {
    let rank = |pod: &Pod| (node_of(pod).is_some(), phase_rank(pod), is_ready(pod));
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = |pod: &Pod| Reverse(is_ready(pod).then(|| ready_since(pod)).flatten());
    rank(a)
        .cmp(&rank(b))
        .then_with(|| age(a).cmp(&age(b)))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| created(b).cmp(&created(a)))
        .then_with(|| a.name().cmp(b.name()))
}

/// The condition of a type.
pub(crate) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a Condition> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_)
}

/// The strategic patch of a status that sets a condition; one that is new comes last.
///
/// Without the order, what a patch adds to a list comes first.
pub(crate) fn condition_patch(pod: &Pod, condition: &Value) -> Value {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut order: Vec<&str> = conditions.map(|own| own.type_.as_str()).collect();
    let type_ = condition["type"].as_str().unwrap_or_default();
    if !order.contains(&type_) {
        order.push(type_);
    }
    let order: Vec<Value> = order.iter().map(|type_| json!({"type": type_})).collect();
    json!({"conditions": [condition], "$setElementOrder/conditions": order})
}

fn ready_condition(pod: &Pod) -> Option<&Condition> {
    condition(pod, "Ready")
}

/// Whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when the pod has been ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// When the pod last became ready or unready.
pub(crate) fn ready_changed_at(pod: &Pod) -> Option<Timestamp> {
    let changed = ready_condition(pod)?.last_transition_time.as_ref()?;
    Some(changed.0)
}

/// The time until the pod is available, which is when it has been ready for `min_ready`: zero if
/// it is, `None` if the pod is not ready.
pub(crate) fn available_in(pod: &Pod, min_ready: Duration, now: Timestamp) -> Option<Duration> {
    let due = match ready_since(pod) {
        _ if !is_ready(pod) => return None,
        _ if min_ready.is_zero() => return Some(Duration::ZERO),
        Some(since) => since + min_ready,
        None => return None,
    };
    Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, status: Value, node: Option<&str>, created: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodeName": node}, "status": status,
        });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn the_pod_that_is_missed_least_is_deleted_first() {
        let ready = |since: &str| {
            json!({"phase": "Running", "conditions":
                [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
        let restarted = json!({"phase": "Running", "containerStatuses": [{"restartCount": 2}]});
        let running = json!({"phase": "Running"});
        let order = [
            pod("unassigned", json!({"phase": "Pending"}), None, early),
            pod("pending", json!({"phase": "Pending"}), Some("n"), early),
            pod("restarted", restarted, Some("n"), early),
            pod("newer", running.clone(), Some("n"), late),
            pod("older", running, Some("n"), early),
            pod("recently-ready", ready(late), Some("n"), early),
            pod("long-ready", ready(early), Some("n"), early),
        ];
        for pair in order.windows(2) {
            let found = deletion_order(&pair[0], &pair[1]);
            assert_eq!(found, Ordering::Less, "{} first", pair[0].name());
        }
    }
}
