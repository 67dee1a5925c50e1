//! The labels that a node may give itself: those that attract no privileged pods.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/noderestriction/admission.go`: `getModifiedLabels`, `getForbiddenLabels`
//! - `staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`

use std::collections::BTreeSet;

use sendo_apimachinery::Meta;
use serde_json::Value;

const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Labels of Kubernetes that a node reports of itself.
const OWN: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Domains of labels that are the node's own.
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The labels in which two objects differ.
pub(super) fn changed<'a>(old: &'a Value, new: &'a Value) -> BTreeSet<&'a str> {
    let labels = |object: &'a Value| Meta::new(object).labels().collect::<BTreeSet<_>>();
    let (old, new) = (labels(old), labels(new));
    old.symmetric_difference(&new)
        .map(|(key, _)| *key)
        .collect()
}

/// Those of the changed labels that are not the node's to change.
pub(super) fn forbidden<'a>(old: &'a Value, new: &'a Value) -> Vec<&'a str> {
    let changed = changed(old, new).into_iter();
    changed.filter(|label| is_forbidden(label)).collect()
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    if is_within(domain, RESTRICTED) {
        return true;
    }
    let of_kubernetes = is_within(domain, "kubernetes.io") || is_within(domain, "k8s.io");
    let own = OWN.contains(&label) || OWN_DOMAINS.iter().any(|own| is_within(domain, own));
    of_kubernetes && !own
}

fn is_within(domain: &str, parent: &str) -> bool {
    domain
        .strip_suffix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_kubernetes_are_not_the_nodes_but_for_its_own() {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let cases = [
            (json!({"tier": "web", "example.dev/a": "b"}), vec![]),
            (json!({"kubernetes.io/hostname": "n"}), vec![]),
            (
                json!({"kubelet.kubernetes.io/a": "b", "x.node.kubernetes.io/a": "b"}),
                vec![],
            ),
            (
                json!({"node-role.kubernetes.io/control-plane": ""}),
                vec!["node-role.kubernetes.io/control-plane"],
            ),
            (
                json!({"node-restriction.kubernetes.io/a": "b"}),
                vec!["node-restriction.kubernetes.io/a"],
            ),
            (json!({"x.k8s.io/a": "b"}), vec!["x.k8s.io/a"]),
            (json!({"notkubernetes.io/a": "b"}), vec![]),
        ];
        for (set, expected) in cases {
            let (none, some) = (labels(json!({})), labels(set));
            assert_eq!(forbidden(&none, &some), expected);
            assert_eq!(
                forbidden(&some, &none),
                expected,
                "to take one off is a change"
            );
            assert!(forbidden(&some, &some).is_empty());
        }
    }
}
