//! TaintNodesByCondition: no pod is scheduled to a new node before it is ready.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/nodetaint/admission.go`: `Admit`

use serde_json::{Value, json};

use super::{Mutate, Operation, Plugin};
use crate::kinds::value::{Read, Write};

pub(super) const TAINT_NODES_BY_CONDITION: Plugin = Plugin {
    name: "TaintNodesByCondition",
    handles: |attributes| {
        attributes.operation == Operation::Create && attributes.is_of("", "nodes", "")
    },
    mutate: Some(Mutate::Now(|_, node| {
        taint_as_not_ready(node.object("spec"));
        Ok(())
    })),
    validate: None,
};

fn taint_as_not_ready(spec: &mut Value) {
    let taint = json!({"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"});
    let mut taints = spec.items("taints").to_vec();
    let same = |other: &Value| {
        ["key", "effect"]
            .iter()
            .all(|key| other.at(key) == taint.at(key))
    };
    if !taints.iter().any(same) {
        taints.push(taint);
        spec.set("taints", taints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut spec = json!({});
        for _ in 0..2 {
            taint_as_not_ready(&mut spec);
            assert_eq!(
                spec,
                json!({"taints": [{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]})
            );
        }
    }
}
