//! Taints of nodes, and whether pods tolerate them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/api/core/v1/toleration.go`: `ToleratesTaint`
//! - `staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go`:
//!   `FindMatchingUntoleratedTaint`

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

/// The taints of a node.
pub fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let spec = node.spec.iter();
    spec.flat_map(|spec| spec.taints.iter().flatten())
}

/// The first of a pod's tolerations that tolerates the taint.
pub fn toleration<'t>(tolerations: &'t [Toleration], taint: &Taint) -> Option<&'t Toleration> {
    let mut tolerations = tolerations.iter();
    tolerations.find(|toleration| tolerates(toleration, taint))
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
