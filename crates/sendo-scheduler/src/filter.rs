//! Which nodes a pod can run on at all. Each filter is a function that says why not.

use k8s_openapi::api::core::v1::{ContainerPort, NodeSelectorRequirement, NodeSelectorTerm, Taint};
use sendo::ObjectExt;

use crate::pod::Pod;
use crate::room::{Room, requested};
use crate::taints::{taints, toleration};

/// Why a pod cannot run on a node, in the words of the message that counts them.
pub type Refusal = String;

/// A named reason to leave out nodes.
pub type Filter = (&'static str, fn(&Pod, &Room) -> Result<(), Vec<Refusal>>);

/// All filters, in the order they are asked; the first that refuses decides.
pub const FILTERS: &[Filter] = &[
    ("NodeUnschedulable", is_schedulable),
    ("TaintToleration", tolerates_taints),
    ("NodeAffinity", wants_node),
    ("NodePorts", has_free_ports),
    ("NodeResourcesFit", has_room),
];

/// Every filter's word on a node.
pub fn admit(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    FILTERS.iter().try_for_each(|(_, filter)| filter(pod, room))
}

fn is_schedulable(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    let cordoned = room.node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
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

fn tolerates_taints(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    let mut hard = taints(&room.node)
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    match hard.find(|taint| toleration(pod.tolerations(), taint).is_none()) {
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

fn wants_node(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    let Some(spec) = &pod.spec else {
        return Ok(());
    };
    let selected = spec.node_selector.iter().flatten();
    let matches_selector = selected
        .into_iter()
        .all(|(name, value)| room.node.label(name) == Some(value));
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
            .any(|term| term_matches(term, room))
    });
    match matches_selector && matches_affinity {
        true => Ok(()),
        false => Err(vec![
            "node(s) didn't match Pod's node affinity/selector".to_owned(),
        ]),
    }
}

/// A term without any requirement matches nothing.
pub(crate) fn term_matches(term: &NodeSelectorTerm, room: &Room) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let empty = expressions.clone().next().is_none() && fields.clone().next().is_none();
    !empty
        && expressions
            .clone()
            .all(|e| requirement_holds(e, room.node.label(&e.key)))
        && fields
            .clone()
            .all(|f| f.key == "metadata.name" && requirement_holds(f, Some(room.node.name())))
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
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

fn has_free_ports(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or("TCP".to_owned());
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    let clash = |a: &ContainerPort, b: &ContainerPort| {
        let ip = |port: &ContainerPort| port.host_ip.clone().unwrap_or_default();
        let (ip_a, ip_b) = (ip(a), ip(b));
        a.host_port == b.host_port
            && protocol(a) == protocol(b)
            && (any(&ip_a) || any(&ip_b) || ip_a == ip_b)
    };
    let taken = |wanted| {
        let mut others = room.pods.iter().flat_map(|other| host_ports(other));
        others.any(|other| clash(wanted, other))
    };
    match host_ports(pod).any(taken) {
        true => Err(vec![
            "node(s) didn't have free ports for the requested pod ports".to_owned(),
        ]),
        false => Ok(()),
    }
}

fn has_room(pod: &Pod, room: &Room) -> Result<(), Vec<Refusal>> {
    let asks = requested(pod);
    let mut refusals = Vec::new();
    if room.pods.len() as i64 + 1 > room.most_pods {
        refusals.push("Too many pods".to_owned());
    }
    if asks.milli_cpu > 0 && asks.milli_cpu > room.has.milli_cpu - room.taken.milli_cpu {
        refusals.push("Insufficient cpu".to_owned());
    }
    if asks.memory > 0 && asks.memory > room.has.memory - room.taken.memory {
        refusals.push("Insufficient memory".to_owned());
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(refusals)
    }
}
