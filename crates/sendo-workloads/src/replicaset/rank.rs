//! Ranks pods: which are deleted first when there are too many.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/controller_utils.go`: `ActivePodsWithRanks`
//! - `pkg/controller/replicaset/replica_set.go`: `getPodsToDelete`,
//!   `getPodsRankedByRelatedPodsOnSameNode`

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use sendo::{ObjectExt, Timestamp};

use crate::pods::{self, Pod, node_of};

/// The annotation with the cost of deleting a pod.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods to delete first, in order: unassigned before assigned, pending before unknown
/// before running, not ready before ready, lower before higher deletion cost, those on nodes with
/// more related pods before others, recently ready before long ready, more restarts before fewer,
/// newer before older.
pub(super) fn pods_to_delete(
    pods: &[Arc<Pod>],
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count >= pods.len() {
        return pods.to_vec();
    }
    let mut on_node = BTreeMap::new();
    for pod in related.iter().filter(|pod| pods::is_active(pod)) {
        if let Some(node) = node_of(pod) {
            *on_node.entry(node).or_insert(0_usize) += 1;
        }
    }
    let mut ranked = pods.to_vec();
    ranked.sort_by(|a, b| {
        let related_on_node = |pod: &Pod| {
            node_of(pod)
                .and_then(|n| on_node.get(n))
                .copied()
                .unwrap_or(0)
        };
        compare(a, b, related_on_node(a), related_on_node(b), now)
    });
    ranked.truncate(count);
    ranked
}

/// `Less` if `a` is deleted before `b`. `related_a` and `related_b` are the numbers of related pods
/// on the nodes of both.
fn compare(a: &Pod, b: &Pod, related_a: usize, related_b: usize, now: Timestamp) -> Ordering {
    let unassigned_first = node_of(a).is_some().cmp(&node_of(b).is_some());
    let by_phase = || pods::phase_rank(a).cmp(&pods::phase_rank(b));
    let unready_first = || pods::is_ready(a).cmp(&pods::is_ready(b));
    let lower_cost_first = || deletion_cost(a).cmp(&deletion_cost(b));
    let more_related_first = || related_b.cmp(&related_a);
    let recently_ready_first = || {
        // On a logarithmic scale: whether ready for 3 or for 4 hours makes no difference.
        match (pods::ready_since(a), pods::ready_since(b)) {
            (Some(a), Some(b)) => age_rank(a, now).cmp(&age_rank(b, now)),
            _ => Ordering::Equal,
        }
    };
    let more_restarts_first = || pods::restarts(b).cmp(&pods::restarts(a));
    let newer_first = || {
        let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        match (created(a), created(b)) {
            (Some(a), Some(b)) => age_rank(a, now).cmp(&age_rank(b, now)),
            _ => Ordering::Equal,
        }
    };
    unassigned_first
        .then_with(by_phase)
        .then_with(unready_first)
        .then_with(lower_cost_first)
        .then_with(more_related_first)
        .then_with(recently_ready_first)
        .then_with(more_restarts_first)
        .then_with(newer_first)
        .then_with(|| a.uid().cmp(&b.uid()))
}

fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.annotation(DELETION_COST);
    cost.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The binary logarithm of an age in seconds, −1 for an age of less than a second.
fn age_rank(since: Timestamp, now: Timestamp) -> i64 {
    match now.duration_since(since).as_secs() {
        seconds if seconds > 0 => i64::from(seconds.ilog2()),
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n0", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        });
        merge(&mut pod, change);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn merge(into: &mut Value, change: Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (key, value) in change {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, change) => *into = change,
        }
    }

    /// Of each pair the first one is deleted first.
    #[test]
    fn pods_are_ranked_by_each_criterion() {
        let ready_at = |time: &str| {
            json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": time}]}})
        };
        let pairs = [
            ("unassigned", json!({"spec": {"nodeName": null}}), json!({})),
            (
                "pending",
                json!({"status": {"phase": "Pending"}}),
                json!({}),
            ),
            (
                "not ready",
                json!({"status": {"conditions": []}}),
                json!({}),
            ),
            (
                "cheap",
                json!({"metadata": {"annotations": {DELETION_COST: "-5"}}}),
                json!({}),
            ),
            (
                "recently ready",
                ready_at("2026-01-01T11:59:00Z"),
                json!({}),
            ),
            (
                "restarted",
                json!({"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "",
                    "ready": true, "restartCount": 3}]}}),
                json!({}),
            ),
            (
                "newer",
                json!({"metadata": {"creationTimestamp": "2026-01-01T11:59:00Z"}}),
                json!({}),
            ),
        ];
        for (why, first, second) in pairs {
            let (first, second) = (pod("z", first), pod("a", second));
            let now = NOW.parse().unwrap();
            let deleted = pods_to_delete(&[second.clone(), first.clone()], &[], 1, now);
            assert_eq!(deleted[0].name(), "z", "{why} is deleted first");
        }
    }

    #[test]
    fn a_node_with_more_related_pods_loses_one_first() {
        let pods: Vec<_> = [("a", "n1"), ("b", "n2"), ("c", "n2")]
            .map(|(name, node)| pod(name, json!({"spec": {"nodeName": node}})))
            .into();
        let deleted = pods_to_delete(&pods, &pods, 1, NOW.parse().unwrap());
        assert_eq!(deleted[0].name(), "b");
    }

    #[test]
    fn ages_of_one_rank_count_as_equal() {
        let now = NOW.parse().unwrap();
        let three = pod(
            "b",
            json!({"metadata": {"creationTimestamp": "2026-01-01T09:00:00Z"}}),
        );
        let four = pod(
            "a",
            json!({"metadata": {"creationTimestamp": "2026-01-01T08:30:00Z"}}),
        );
        // All criteria are equal, so the uid decides.
        let deleted = pods_to_delete(&[three, four], &[], 1, now);
        assert_eq!(deleted[0].name(), "a");
    }
}
