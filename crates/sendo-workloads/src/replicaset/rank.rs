//! Which pods go first when there are too many.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use sendo::{ObjectExt, Timestamp};

use crate::pods::{self, Pod, node_of};

/// The annotation by which a user says how dear a pod is.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods whose loss costs least, in that order: unassigned before
/// assigned, pending before running, not ready before ready, cheap before dear,
/// crowded nodes before others, recently ready before long ready, restarted
/// before steady, young before old.
pub(super) fn first_to_go(
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
        let crowd = |pod: &Pod| {
            node_of(pod)
                .and_then(|n| on_node.get(n))
                .copied()
                .unwrap_or(0)
        };
        compare(a, b, crowd(a), crowd(b), now)
    });
    ranked.truncate(count);
    ranked
}

/// `Less`: `a` goes before `b`.
fn compare(a: &Pod, b: &Pod, crowd_a: usize, crowd_b: usize, now: Timestamp) -> Ordering {
    let unassigned_first = node_of(a).is_some().cmp(&node_of(b).is_some());
    let by_phase = || phase_rank(a).cmp(&phase_rank(b));
    let unready_first = || pods::is_ready(a).cmp(&pods::is_ready(b));
    let cheap_first = || deletion_cost(a).cmp(&deletion_cost(b));
    let crowded_first = || crowd_b.cmp(&crowd_a);
    let lately_ready_first = || {
        // On a logarithmic scale: whether ready for 3 or for 4 hours makes no difference.
        match (pods::ready_since(a), pods::ready_since(b)) {
            (Some(a), Some(b)) => age_class(a, now).cmp(&age_class(b, now)),
            _ => Ordering::Equal,
        }
    };
    let restarted_first = || restarts(b).cmp(&restarts(a));
    let young_first = || {
        let born = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        match (born(a), born(b)) {
            (Some(a), Some(b)) => age_class(a, now).cmp(&age_class(b, now)),
            _ => Ordering::Equal,
        }
    };
    unassigned_first
        .then_with(by_phase)
        .then_with(unready_first)
        .then_with(cheap_first)
        .then_with(crowded_first)
        .then_with(lately_ready_first)
        .then_with(restarted_first)
        .then_with(young_first)
        .then_with(|| a.uid().cmp(&b.uid()))
}

fn phase_rank(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.annotation(DELETION_COST);
    cost.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.iter();
    let containers = status.flat_map(|s| s.container_statuses.iter().flatten());
    containers.map(|c| c.restart_count).max().unwrap_or(0)
}

/// The binary logarithm of an age in seconds, −1 for none.
fn age_class(since: Timestamp, now: Timestamp) -> i64 {
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

    /// Each pair: the left one goes first.
    #[test]
    fn the_cheaper_loss_goes_first() {
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
            ("lately ready", ready_at("2026-01-01T11:59:00Z"), json!({})),
            (
                "restarted",
                json!({"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "",
                    "ready": true, "restartCount": 3}]}}),
                json!({}),
            ),
            (
                "young",
                json!({"metadata": {"creationTimestamp": "2026-01-01T11:59:00Z"}}),
                json!({}),
            ),
        ];
        for (why, first, second) in pairs {
            let (first, second) = (pod("z", first), pod("a", second));
            let now = NOW.parse().unwrap();
            let gone = first_to_go(&[second.clone(), first.clone()], &[], 1, now);
            assert_eq!(gone[0].name(), "z", "{why} goes first");
        }
    }

    #[test]
    fn a_crowded_node_loses_first() {
        let pods: Vec<_> = [("a", "n1"), ("b", "n2"), ("c", "n2")]
            .map(|(name, node)| pod(name, json!({"spec": {"nodeName": node}})))
            .into();
        let gone = first_to_go(&pods, &pods, 1, NOW.parse().unwrap());
        assert_eq!(gone[0].name(), "b");
    }

    #[test]
    fn ages_of_one_class_count_as_equal() {
        let now = NOW.parse().unwrap();
        let three = pod(
            "b",
            json!({"metadata": {"creationTimestamp": "2026-01-01T09:00:00Z"}}),
        );
        let four = pod(
            "a",
            json!({"metadata": {"creationTimestamp": "2026-01-01T08:30:00Z"}}),
        );
        // Equal in all that counts: the uid decides.
        let gone = first_to_go(&[three, four], &[], 1, now);
        assert_eq!(gone[0].name(), "a");
    }
}
