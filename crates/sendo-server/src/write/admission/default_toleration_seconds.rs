//! Pods stay for a while on a node that is in trouble.

use serde_json::{Value, json};

use crate::kinds::value::{Read, Write};

/// Nodes that may come back: pods stay on them for so long.
const PATIENCE_SECONDS: i64 = 300;
const TROUBLES: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Lets a pod stay on such a node, unless it says for how long itself.
pub(super) fn admit(pod: &mut Value) {
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
            admit(&mut pod);
            assert_eq!(pod["spec"].items("tolerations").len(), count, "{pod}");
        }
    }
}
