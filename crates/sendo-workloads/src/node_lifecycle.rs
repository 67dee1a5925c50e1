//! Taints nodes by what they report: a node that is not ready, or short of something, gets no new
//! pods.
//!
//! A node may not change its own taints, so it is this controller that makes a new node usable: the
//! API server taints it until it has reported that it is ready. A node that has reported nothing
//! keeps the taints that it has. Leases of nodes are not looked at.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/nodelifecycle/node_lifecycle_controller.go`: `doNoScheduleTaintingPass`,
//!   `nodeConditionToTaintKeyStatusMap`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Action, Context, Controller, Result, Timestamp, predicate};

const NO_SCHEDULE: &str = "NoSchedule";

/// The taints that a condition gives, by its status.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
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

/// The controller of nodes.
pub fn controller() -> Controller {
    let taints_due = predicate::changed(|old: &Node, new| {
        wanted(old) != wanted(new) || taints(old) != taints(new)
    });
    Controller::new::<Node>()
        .named("node-lifecycle-controller")
        .when(taints_due)
        .reconcile(sync)
}

async fn sync(node: Arc<Node>, cx: Context) -> Result<Action> {
    let now = cx.now();
    if retainted(&node, now).is_none() {
        return Ok(Action::done());
    }
    let change = |node: &mut Node| {
        if let Some(taints) = retainted(node, now) {
            node.spec.get_or_insert_default().taints = Some(taints).filter(|t| !t.is_empty());
        }
    };
    match cx.client().modify(&node, change).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

fn conditions(node: &Node) -> &[NodeCondition] {
    let status = node.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// The keys of the taints that follow from what the node reports; `None` before it has said
/// whether it is ready.
fn wanted(node: &Node) -> Option<Vec<&'static str>> {
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

/// The taints that the node should have; `None` if it has them.
fn retainted(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
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
}
