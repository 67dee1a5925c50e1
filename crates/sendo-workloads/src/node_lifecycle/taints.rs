//! The taints of a node, by what it reports: one that is not ready, or short of something, gets no
//! new pods, and one that is not ready for long loses those that it has.
//!
//! A node may not change its own taints, so it is this controller that makes a new node usable: the
//! API server taints it until it has reported that it is ready. A node that has reported nothing
//! keeps the taints that it has.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/nodelifecycle/node_lifecycle_controller.go`: `doNoScheduleTaintingPass`,
//!   `doNoExecuteTaintingPass`, `markNodeAsReachable`, `nodeConditionToTaintKeyStatusMap`

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::Timestamp;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The taints that a condition gives, by its status.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The taint of a node that is cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(super) fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

pub(super) fn conditions(node: &Node) -> &[NodeCondition] {
    let status = node.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// The keys of the taints that follow from what the node reports; `None` before it has said
/// whether it is ready.
pub(super) fn wanted(node: &Node) -> Option<Vec<&'static str>> {
    let reported = conditions(node);
    if !reported.iter().any(|condition| condition.type_ == "Ready") {
        return None;
    }
    let holds = |(type_, status, _): &&(&str, &str, &str)| {
        let mut same = reported
            .iter()
            .filter(|condition| condition.type_ == *type_);
        same.any(|condition| condition.status == *status)
    };
    let mut keys: Vec<&str> = TAINTS
        .iter()
        .filter(holds)
        .map(|(_, _, key)| *key)
        .collect();
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        keys.push(UNSCHEDULABLE);
    }
    Some(keys)
}

/// The taints that keep new pods away, among all others; `None` if the node has them.
pub(super) fn retainted(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let wanted = wanted(node)?;
    let is_ours = |taint: &Taint| {
        let known = TAINTS.iter().any(|(_, _, key)| taint.key == *key);
        taint.effect == NO_SCHEDULE && (known || taint.key == UNSCHEDULABLE)
    };
    let mut kept = taints(node).to_vec();
    kept.retain(|taint| !is_ours(taint) || wanted.contains(&taint.key.as_str()));
    let mut is_changed = kept.len() != taints(node).len();
    for key in wanted {
        if kept.iter().any(|taint| is_ours(taint) && taint.key == key) {
            continue;
        }
        is_changed = true;
        kept.push(Taint {
            effect: NO_SCHEDULE.to_owned(),
            key: key.to_owned(),
            time_added: Some(Time(now)),
            value: None,
        });
    }
    is_changed.then_some(kept)
}

/// Which pods leave the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// None: it is ready.
    None,
    /// Those that do not tolerate a node that is not ready.
    NotReady,
    /// Those that do not tolerate one that cannot be reached.
    Unreachable,
}

impl Eviction {
    /// By the status of the condition `Ready`.
    pub(super) fn by_ready(status: &str) -> Self {
        match status {
            "True" => Eviction::None,
            "False" => Eviction::NotReady,
            _ => Eviction::Unreachable,
        }
    }

    fn key(self) -> Option<&'static str> {
        match self {
            Eviction::None => None,
            Eviction::NotReady => Some(NOT_READY),
            Eviction::Unreachable => Some(UNREACHABLE),
        }
    }

    /// Whether the node has a taint that makes pods leave it, for either reason.
    pub(super) fn is_under_way(node: &Node) -> bool {
        taints(node).iter().any(is_evicting)
    }

    /// The taints of the node with just the one that makes these pods leave it; `None` if it has
    /// them.
    pub(super) fn retainted(self, node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
        let key = self.key();
        let mut kept = taints(node).to_vec();
        kept.retain(|taint| !is_evicting(taint) || Some(taint.key.as_str()) == key);
        let is_changed = kept.len() != taints(node).len();
        match key {
            Some(key) if !kept.iter().any(is_evicting) => {
                kept.push(Taint {
                    effect: NO_EXECUTE.to_owned(),
                    key: key.to_owned(),
                    time_added: Some(Time(now)),
                    value: None,
                });
                Some(kept)
            }
            _ => is_changed.then_some(kept),
        }
    }
}

/// Whether a taint is one by which this controller makes pods leave a node.
fn is_evicting(taint: &Taint) -> bool {
    taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn keys(spec: Value, conditions: Value) -> Option<Vec<String>> {
        let node = json!({"spec": spec, "status": {"conditions": conditions}});
        let node: Node = serde_json::from_value(node).expect("a node");
        let taints = retainted(&node, Timestamp::UNIX_EPOCH)?;
        Some(taints.into_iter().map(|taint| taint.key).collect())
    }

    #[test]
    fn taints_follow_what_a_node_reports() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        let (not_ready, unreachable) = (
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        );
        let set = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        let new = taint(not_ready, NO_SCHEDULE);
        assert_eq!(
            keys(new.clone(), json!([])),
            None,
            "it has reported nothing"
        );
        assert_eq!(keys(new.clone(), ready("True")), set(&[]));
        assert_eq!(keys(new.clone(), ready("False")), None);
        assert_eq!(keys(new, ready("Unknown")), set(&[unreachable]));
        assert_eq!(keys(json!({}), ready("False")), set(&[not_ready]));
        assert_eq!(keys(json!({}), ready("True")), None);
        assert_eq!(keys(taint(not_ready, "NoExecute"), ready("True")), None);
        assert_eq!(
            keys(taint("example.dev/a", NO_SCHEDULE), ready("True")),
            None
        );
        assert_eq!(
            keys(json!({"unschedulable": true}), ready("True")),
            set(&[UNSCHEDULABLE])
        );
    }
    #[test]
    fn a_node_has_one_taint_by_which_pods_leave_it() {
        let tainted = |key: &str| -> Node {
            let taints =
                json!([{"key": key, "effect": NO_EXECUTE}, {"key": "x", "effect": NO_EXECUTE}]);
            serde_json::from_value(json!({"spec": {"taints": taints}})).expect("a node")
        };
        let keys = |node: &Node, eviction: Eviction| {
            let taints = eviction.retainted(node, Timestamp::UNIX_EPOCH)?;
            Some(
                taints
                    .into_iter()
                    .map(|taint| taint.key)
                    .collect::<Vec<_>>(),
            )
        };
        let set = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        let (lost, other) = (tainted(UNREACHABLE), tainted("y"));
        assert_eq!(keys(&lost, Eviction::Unreachable), None);
        assert_eq!(keys(&lost, Eviction::NotReady), set(&["x", NOT_READY]));
        assert_eq!(keys(&lost, Eviction::None), set(&["x"]));
        assert_eq!(keys(&other, Eviction::None), None);
        assert_eq!(
            keys(&other, Eviction::NotReady),
            set(&["y", "x", NOT_READY])
        );
        assert!(Eviction::is_under_way(&lost) && !Eviction::is_under_way(&other));
    }
}
