//! Filters: the nodes that a pod can run on. Each filter returns why a node is not one of them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`: `Filter`
//! - `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`: `Filter`
//! - `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`: `Filter`
//! - `pkg/scheduler/framework/plugins/nodeports/node_ports.go`: `Filter`, `fitsPorts`
//! - `pkg/scheduler/framework/plugins/noderesources/fit.go`: `Filter`, `fitsRequest`
//! - `staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`:
//!   `GetRequiredNodeAffinity`, `nodeSelectorTerm`, `nodeSelectorRequirementsAsSelector`

use k8s_openapi::api::core::v1::{ContainerPort, NodeSelectorRequirement, NodeSelectorTerm, Taint};
use sendo::ObjectExt;

use crate::node_info::{NodeInfo, pod_requests};
use crate::pod::Pod;
use crate::taints::{taints, toleration};

/// Why a pod cannot run on a node, as the message about an unschedulable pod counts it.
pub type Reason = String;

/// A filter and its name.
pub type Filter = (&'static str, fn(&Pod, &NodeInfo) -> Result<(), Vec<Reason>>);

/// All filters, in the order in which they run; those after the first that fails do not.
pub const FILTERS: &[Filter] = &[
    ("NodeUnschedulable", is_schedulable),
    ("TaintToleration", tolerates_taints),
    ("NodeAffinity", matches_node_affinity),
    ("NodePorts", has_free_ports),
    ("NodeResourcesFit", fits_resources),
];

/// Runs the filters on a node until one fails.
///
/// # Errors
/// The reasons of that filter.
pub fn run_filters(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    FILTERS
        .iter()
        .try_for_each(|(_, filter)| filter(pod, node_info))
}

fn is_schedulable(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    let cordoned = node_info
        .node
        .spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        == Some(true);
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if cordoned && toleration(pod.tolerations(), &taint).is_none() {
        return Err(vec!["node(s) were unschedulable".to_owned()]);
    }
    Ok(())
}

fn tolerates_taints(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    let mut no_schedule = taints(&node_info.node)
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    match no_schedule.find(|taint| toleration(pod.tolerations(), taint).is_none()) {
        None => Ok(()),
        Some(taint) => {
            let value = taint.value.as_deref().unwrap_or_default();
            Err(vec![format!(
                "node(s) had untolerated taint {{{}: {value}}}",
                taint.key
            )])
        }
    }
}

fn matches_node_affinity(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    let Some(spec) = &pod.spec else {
        return Ok(());
    };
    let selected = spec.node_selector.iter().flatten();
    let matches_selector = selected
        .into_iter()
        .all(|(name, value)| node_info.node.label(name) == Some(value));
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| {
        a.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let matches_affinity = required.is_none_or(|r| {
        r.node_selector_terms
            .iter()
            .any(|term| term_matches(term, node_info))
    });
    match matches_selector && matches_affinity {
        true => Ok(()),
        false => Err(vec![
            "node(s) didn't match Pod's node affinity/selector".to_owned(),
        ]),
    }
}

/// A term without any requirement matches nothing.
pub(crate) fn term_matches(term: &NodeSelectorTerm, node_info: &NodeInfo) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let empty = expressions.clone().next().is_none() && fields.clone().next().is_none();
    !empty
        && expressions
            .clone()
            .all(|e| requirement_matches(e, node_info.node.label(&e.key)))
        && fields.clone().all(|f| {
            f.key == "metadata.name" && requirement_matches(f, Some(node_info.node.name()))
        })
}

fn requirement_matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|known| known == value));
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number()
            .zip(bound())
            .is_some_and(|(number, bound)| number > bound),
        "Lt" => number()
            .zip(bound())
            .is_some_and(|(number, bound)| number < bound),
        _ => false,
    }
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.filter(|port| port.host_port.is_some_and(|number| number > 0))
}

fn has_free_ports(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or("TCP".to_owned());
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    let conflict = |a: &ContainerPort, b: &ContainerPort| {
        let ip = |port: &ContainerPort| port.host_ip.clone().unwrap_or_default();
        let (ip_a, ip_b) = (ip(a), ip(b));
        a.host_port == b.host_port
            && protocol(a) == protocol(b)
            && (any(&ip_a) || any(&ip_b) || ip_a == ip_b)
    };
    let in_use = |wanted| {
        let mut others = node_info.pods.iter().flat_map(|other| host_ports(other));
        others.any(|other| conflict(wanted, other))
    };
    match host_ports(pod).any(in_use) {
        true => Err(vec![
            "node(s) didn't have free ports for the requested pod ports".to_owned(),
        ]),
        false => Ok(()),
    }
}

fn fits_resources(pod: &Pod, node_info: &NodeInfo) -> Result<(), Vec<Reason>> {
    let request = pod_requests(pod);
    let mut reasons = Vec::new();
    if node_info.pods.len() as i64 + 1 > node_info.allowed_pods {
        reasons.push("Too many pods".to_owned());
    }
    let free = node_info.free();
    if request.milli_cpu > 0 && request.milli_cpu > free.milli_cpu {
        reasons.push("Insufficient cpu".to_owned());
    }
    if request.memory > 0 && request.memory > free.memory {
        reasons.push("Insufficient memory".to_owned());
    }
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(reasons)
    }
}
