//! What every pod is given before it is judged, as far as the pod alone decides it.
//!
//! What depends on other objects (a named priority class, the token of a service
//! account, limits of the namespace) is not: it needs somebody who can look them up.

use serde_json::{Value, json};

use super::annotations::MIRROR;
use crate::kinds::value::{Read, Write};

/// How long a pod stays on a node that is not ready or cannot be reached.
const STAY_SECONDS: i64 = 300;

/// Priority classes that are always there, and their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// For a new pod.
pub(super) fn create(pod: &mut Value) {
    let is_mirror = pod.at("metadata").at("annotations").has(MIRROR);
    let spec = pod.object("spec");
    // A node that finds its mirror changed would delete it.
    if !is_mirror {
        spec.default_if_zero("serviceAccountName", "default");
    }
    priority(spec);
    tolerations(spec);
}

/// For a changed pod.
pub(super) fn update(pod: &mut Value, old: &Value) {
    let spec = pod.object("spec");
    for key in ["priority", "preemptionPolicy"] {
        if !spec.has(key) {
            spec.copy_from(key, old.at("spec"));
        }
    }
    tolerations(spec);
}

/// The priority of a pod that names no class, or one that is always there.
fn priority(spec: &mut Value) {
    let class = spec.text("priorityClassName");
    let known = SYSTEM_CLASSES.iter().find(|(name, _)| *name == class);
    let value = match (class, known) {
        ("", _) => 0,
        (_, Some((_, value))) => *value,
        _ => return,
    };
    spec.default_to("priority", value);
    spec.default_to("preemptionPolicy", "PreemptLowerPriority");
}

/// A pod stays for a while on a node that has troubles, unless it says for how long itself.
fn tolerations(spec: &mut Value) {
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let mut tolerations = spec.items("tolerations").to_vec();
        let says = |toleration: &Value| {
            let effect = toleration.text("effect");
            ["", key].contains(&toleration.text("key")) && ["", "NoExecute"].contains(&effect)
        };
        if tolerations.iter().any(says) {
            continue;
        }
        tolerations.push(json!({
            "effect": "NoExecute",
            "key": key,
            "operator": "Exists",
            "tolerationSeconds": STAY_SECONDS,
        }));
        spec.set("tolerations", tolerations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_pod_gets_account_priority_and_tolerations() {
        let mut pod = json!({"spec": {}});
        create(&mut pod);
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["priority"], 0);
        assert_eq!(pod["spec"]["preemptionPolicy"], "PreemptLowerPriority");
        let keys: Vec<&str> = pod["spec"]
            .items("tolerations")
            .iter()
            .map(|toleration| toleration.text("key"))
            .collect();
        assert_eq!(
            keys,
            [
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unreachable"
            ]
        );
    }

    #[test]
    fn tolerations_of_its_own_stand() {
        let cases = [
            (json!({"operator": "Exists"}), 1),
            (
                json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}),
                2,
            ),
            (
                json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}),
                3,
            ),
        ];
        for (toleration, count) in cases {
            let mut spec = json!({"tolerations": [toleration]});
            tolerations(&mut spec);
            assert_eq!(spec.items("tolerations").len(), count, "{spec}");
        }
    }

    #[test]
    fn classes_of_the_system_are_known() {
        for (class, value) in [
            ("system-node-critical", json!(2_000_001_000)),
            ("own", Value::Null),
        ] {
            let mut spec = json!({"priorityClassName": class});
            priority(&mut spec);
            assert_eq!(*spec.at("priority"), value);
        }
    }

    #[test]
    fn a_change_that_leaves_priority_out_keeps_it() {
        let old = json!({"spec": {"priority": 5, "preemptionPolicy": "Never"}});
        let mut new = json!({"spec": {}});
        update(&mut new, &old);
        assert_eq!(new["spec"]["priority"], 5);
        assert_eq!(new["spec"]["preemptionPolicy"], "Never");
    }
}
