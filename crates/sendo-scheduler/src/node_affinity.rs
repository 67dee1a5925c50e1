//! Which nodes a node selector selects: that of a pod's node affinity, or of a volume.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`:
//!   `GetRequiredNodeAffinity`, `nodeSelectorTerm`, `nodeSelectorRequirementsAsSelector`

use k8s_openapi::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
};
use sendo::ObjectExt;

use crate::pod::Pod;

/// The node affinity of a pod.
pub fn node_affinity(pod: &Pod) -> Option<&NodeAffinity> {
    pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()
}

/// The node selector that a pod's affinity requires.
pub fn required(pod: &Pod) -> Option<&NodeSelector> {
    let affinity = node_affinity(pod)?;
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    required.as_ref()
}

/// Whether the node has the labels that the pod's `nodeSelector` and its required affinity name.
pub fn matches_required(pod: &Pod, node: &Node) -> bool {
    let labels = pod.spec.iter().flat_map(|spec| &spec.node_selector);
    let mut labels = labels.flatten();
    labels.all(|(name, value)| node.label(name) == Some(value))
        && required(pod).is_none_or(|selector| selects(selector, node))
}

/// Whether one of the selector's terms selects the node.
pub fn selects(selector: &NodeSelector, node: &Node) -> bool {
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| term_matches(term, node))
}

/// Whether the term selects the node. One without any requirement selects none.
pub fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions
        .iter()
        .all(|e| requirement_matches(e, node.label(&e.key)))
        && fields
            .iter()
            .all(|f| f.key == "metadata.name" && requirement_matches(f, Some(node.name())))
}

fn requirement_matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|known| known == value));
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let both = number().zip(bound());
        both.is_some_and(|(number, bound)| holds(&number, &bound))
    };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}
