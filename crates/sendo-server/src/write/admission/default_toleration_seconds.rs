//! DefaultTolerationSeconds: pods stay for a while on a node that is in trouble.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/defaulttolerationseconds/admission.go`: `Admit`

use serde_json::{Value, json};

use super::{Mutate, Operation, Plugin};
use crate::kinds::value::{Read, Write};

pub(super) const DEFAULT_TOLERATION_SECONDS: Plugin = Plugin {
    name: "DefaultTolerationSeconds",
    handles: |attributes| {
        matches!(attributes.operation, Operation::Create | Operation::Update)
            && attributes.is_of("", "pods", "")
    },
    mutate: Some(Mutate::Now(|_, pod| {
        if !pod.at("spec").is_null() {
            tolerate(pod);
        }
        Ok(())
    })),
    validate: None,
};

/// Nodes that may come back: pods stay on them for so long.
const PATIENCE_SECONDS: i64 = 300;
const TROUBLES: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Lets a pod stay on such a node, unless it says for how long itself.
fn tolerate(pod: &mut Value) {
    let spec = pod.object("spec");
    let says = |toleration: &Value, trouble: &str| {
        ["", trouble].contains(&toleration.text("key"))
            && ["", "NoExecute"].contains(&toleration.text("effect"))
    };
    let own = spec.items("tolerations").to_vec();
    let missing = TROUBLES
        .iter()
        .filter(|trouble| !own.iter().any(|t| says(t, trouble)));
    let added: Vec<Value> = missing
        .map(|trouble| {
            json!({
                "key": trouble,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": PATIENCE_SECONDS,
            })
        })
        .collect();
    if !added.is_empty() {
        spec.set("tolerations", [own, added].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_of_its_own_stand() {
        let not_ready = TROUBLES[0];
        let cases = [
            (json!([]), 2),
            (json!([{"operator": "Exists"}]), 1),
            (json!([{"key": not_ready, "effect": "NoExecute"}]), 2),
            (json!([{"key": not_ready, "effect": "NoSchedule"}]), 3),
        ];
        for (tolerations, count) in cases {
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            tolerate(&mut pod);
            assert_eq!(pod["spec"].items("tolerations").len(), count, "{pod}");
        }
    }
}
