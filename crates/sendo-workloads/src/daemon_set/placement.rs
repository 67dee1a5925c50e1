//! On which nodes a DaemonSet runs, and how its pods are bound to them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/daemon_controller.go`: `NodeShouldRunDaemonPod`
//! - `pkg/controller/daemon/util/daemonset_util.go`: `AddOrUpdateDaemonPodTolerations`,
//!   `CreatePodTemplate`, `ReplaceDaemonSetPodNodeNameNodeAffinity`, `GetTargetNodeName`

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
    PodTemplateSpec, Toleration,
};
use sendo::ObjectExt;
use sendo_scheduler::node_affinity;
use sendo_scheduler::taints::{taints, toleration};

use super::HASH_LABEL;
use crate::pods::{Pod, node_of};

/// The annotation of a DaemonSet with the generation of its template, from before it was hashed.
pub(super) const GENERATION: &str = "deprecated.daemonset.template.generation";
/// The label of its pods with that.
pub(super) const GENERATION_LABEL: &str = "pod-template-generation";

/// Whether a pod of a DaemonSet belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// One should run there.
    Runs,
    /// None is created there, but one that is there stays: a taint keeps new pods away.
    Stays,
    /// None may be there.
    Never,
}

/// Where a pod of the DaemonSet is placed with respect to the node.
pub(super) fn placement(set: &DaemonSet, node: &Node) -> Placement {
    let spec = set.spec.as_ref();
    let mut pod = spec
        .and_then(|spec| spec.template.spec.clone())
        .unwrap_or_default();
    let named = pod.node_name.as_deref().unwrap_or_default();
    if !(named.is_empty() || named == node.name()) || !is_selected(&pod, node) {
        return Placement::Never;
    }
    add_tolerations(&mut pod);
    let tolerations = pod.tolerations.unwrap_or_default();
    let tolerates = |effects: &[&str]| {
        let mut own = taints(node).filter(|taint| effects.contains(&taint.effect.as_str()));
        own.all(|taint| toleration(&tolerations, taint).is_some())
    };
    match (
        tolerates(&["NoExecute", "NoSchedule"]),
        tolerates(&["NoExecute"]),
    ) {
        (true, _) => Placement::Runs,
        (false, true) => Placement::Stays,
        (false, false) => Placement::Never,
    }
}

/// Whether the node selector and the required node affinity select the node.
fn is_selected(pod: &PodSpec, node: &Node) -> bool {
    let mut wanted = pod.node_selector.iter().flatten();
    let affinity = pod.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| {
        a.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    wanted.all(|(name, value)| node.label(name) == Some(value))
        && required.is_none_or(|required| node_affinity::selects(required, node))
}

/// The template of pods, with what all of a DaemonSet's pods tolerate.
pub(super) fn template(set: &DaemonSet, hash: &str) -> PodTemplateSpec {
    let spec = set.spec.as_ref();
    let mut template = spec.map(|spec| spec.template.clone()).unwrap_or_default();
    add_tolerations(template.spec.get_or_insert_default());
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    if let Some(generation) = set.annotation(GENERATION) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_owned());
    }
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    template
}

fn add_tolerations(pod: &mut PodSpec) {
    let always = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    let on_host = [("network-unavailable", "NoSchedule")];
    let on_host = on_host.iter().filter(|_| pod.host_network == Some(true));
    let tolerations = pod.tolerations.get_or_insert_default();
    for (condition, effect) in always.iter().chain(on_host) {
        let new = Toleration {
            key: Some(format!("node.kubernetes.io/{condition}")),
            operator: Some("Exists".to_owned()),
            effect: Some((*effect).to_owned()),
            ..Toleration::default()
        };
        let same = |known: &Toleration| {
            let subject = |t: &Toleration| {
                (
                    t.key.clone(),
                    t.effect.clone(),
                    t.operator.clone(),
                    t.value.clone(),
                )
            };
            subject(known) == subject(&new)
        };
        match tolerations.iter_mut().find(|known| same(known)) {
            Some(known) => *known = new,
            None => tolerations.push(new),
        }
    }
}

/// Binds a pod to a node by its name, in place of the node affinity that the node has met.
pub(super) fn bind_to(pod: &mut PodSpec, node: &str) {
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    let affinity: &mut Affinity = pod.affinity.get_or_insert_default();
    let nodes = affinity.node_affinity.get_or_insert_default();
    nodes.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
}

/// The node that a pod runs on, or is meant for.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
    if let Some(node) = node_of(pod) {
        return Some(node);
    }
    let affinity = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let fields = required
        .node_selector_terms
        .iter()
        .flat_map(|term| term.match_fields.iter().flatten());
    let mut names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    names.next()?.values.as_ref()?.first().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn place(pod: Value, node: Value) -> Placement {
        let set = json!({"spec": {"selector": {}, "template": {"spec": pod}}});
        let set: DaemonSet = serde_json::from_value(set).unwrap();
        let node: Node = serde_json::from_value(node).unwrap();
        placement(&set, &node)
    }

    #[test]
    fn names_labels_and_affinity_select_nodes() {
        let node = json!({"metadata": {"name": "n", "labels": {"disk": "ssd", "size": "5"}}});
        let requires = |term: Value| {
            let required = json!({"nodeSelectorTerms": [term]});
            json!({"containers": [], "affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let larger =
            json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]});
        let other =
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]});
        for (pod, expected) in [
            (json!({"containers": []}), Placement::Runs),
            (
                json!({"containers": [], "nodeSelector": {"disk": "ssd"}}),
                Placement::Runs,
            ),
            (
                json!({"containers": [], "nodeSelector": {"disk": "hdd"}}),
                Placement::Never,
            ),
            (json!({"containers": [], "nodeName": "m"}), Placement::Never),
            (requires(larger), Placement::Runs),
            (requires(other), Placement::Never),
            (requires(json!({})), Placement::Never),
        ] {
            assert_eq!(place(pod.clone(), node.clone()), expected, "{pod}");
        }
    }

    #[test]
    fn taints_keep_pods_away_or_drive_them_off() {
        let tainted = |key: &str, effect: &str| json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": effect}]}});
        let place = |key, effect| place(json!({"containers": []}), tainted(key, effect));
        assert_eq!(place("a", "NoSchedule"), Placement::Stays);
        assert_eq!(place("a", "NoExecute"), Placement::Never);
        assert_eq!(place("a", "PreferNoSchedule"), Placement::Runs);
        assert_eq!(
            place("node.kubernetes.io/unschedulable", "NoSchedule"),
            Placement::Runs
        );
        assert_eq!(
            place("node.kubernetes.io/unreachable", "NoExecute"),
            Placement::Runs
        );
        assert_eq!(
            place("node.kubernetes.io/not-ready", "NoSchedule"),
            Placement::Stays
        );
    }

    #[test]
    fn a_pod_is_bound_by_the_name_of_its_node() {
        let mut spec = PodSpec::default();
        bind_to(&mut spec, "n");
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert_eq!(target_node(&pod), Some("n"));
    }
}
