//! Taints, by which nodes keep pods away, and the tolerations that pods have of them.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

/// The taints of a node.
pub fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let spec = node.spec.iter();
    spec.flat_map(|spec| spec.taints.iter().flatten())
}

/// The toleration by which a pod puts up with a taint: the first of them, if it has several.
pub fn toleration<'p>(pod: &'p Pod, taint: &Taint) -> Option<&'p Toleration> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.tolerations.iter().flatten())
        .find(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let same_value = toleration.value.as_deref().unwrap_or_default()
        == taint.value.as_deref().unwrap_or_default();
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() && exists || key == taint.key)
        && (exists || same_value)
}
