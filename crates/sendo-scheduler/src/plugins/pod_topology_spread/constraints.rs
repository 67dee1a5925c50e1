//! The constraints of a pod, or those of the cluster for pods that have none.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/podtopologyspread/common.go`: `buildDefaultConstraints`,
//!   `filterTopologySpreadConstraints`, `matchNodeInclusionPolicies`, `countPodsMatchSelector`
//! - `pkg/scheduler/framework/plugins/podtopologyspread/plugin.go`: `systemDefaultConstraints`
//! - `pkg/scheduler/framework/plugins/helper/spread.go`: `DefaultSelector`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use sendo::{ObjectExt, Selector};

use super::super::taint_toleration::tolerates;
use crate::node_affinity::matches_required;
use crate::pod::Pod;
use crate::snapshot::Snapshot;
use crate::snapshot::domains::Domains;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::selector;

/// The label by which every node is a domain of its own.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a constraint asks for when it cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// One constraint, parsed.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) topology_key: String,
    /// A pod counts that all of these select; `None`: no pod counts.
    selectors: Option<Vec<Selector>>,
    pub(super) min_domains: usize,
    honors_node_affinity: bool,
    honors_taints: bool,
    pub(super) domains: Arc<Domains>,
}

impl Constraint {
    fn new(snapshot: &Snapshot, constraint: &TopologySpreadConstraint, pod: &Pod) -> Self {
        let mut labels = constraint.label_selector.clone();
        if let Some(labels) = &mut labels {
            for key in constraint.match_label_keys.iter().flatten() {
                if let Some(value) = pod.label(key) {
                    let labels = labels.match_labels.get_or_insert_default();
                    labels.insert(key.clone(), value.to_owned());
                }
            }
        }
        let honors = |policy: &Option<String>, unset: bool| match policy.as_deref() {
            Some(policy) => policy == "Honor",
            None => unset,
        };
        Constraint {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            selectors: selector(labels.as_ref()).map(|one| vec![one]),
            min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
            honors_node_affinity: honors(&constraint.node_affinity_policy, true),
            honors_taints: honors(&constraint.node_taints_policy, false),
            domains: snapshot.domains(&constraint.topology_key),
        }
    }

    /// Whether a pod with these labels counts.
    pub(super) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let selectors = self.selectors.as_ref();
        selectors.is_some_and(|all| all.iter().all(|one| one.matches(Some(labels))))
    }

    /// Whether the node counts for this pod.
    pub(super) fn includes(&self, pod: &Pod, node: &NodeInfo) -> bool {
        (!self.honors_node_affinity || matches_required(pod, &node.node))
            && (!self.honors_taints || tolerates(pod, &node.node))
    }

    /// How many pods of the namespace it selects on each node that has any.
    pub(super) fn pods_by_node(&self, snapshot: &Snapshot, namespace: &str) -> Vec<(u32, u32)> {
        let everything = |all: &Vec<Selector>| all.iter().all(Selector::is_everything);
        // A selector that is empty counts no pods, as in Kubernetes.
        if self.selectors.as_ref().is_none_or(everything) {
            return Vec::new();
        }
        let classes = snapshot.classes_in(namespace);
        let selected =
            classes.filter(|(class, _)| !class.is_being_deleted && self.selects(&class.labels));
        let nodes = selected.flat_map(|(_, nodes)| nodes);
        nodes.map(|(node, count)| (*node, *count)).collect()
    }
}

/// The constraints of the pod that ask for this.
pub(super) fn constraints(
    pod: &Pod,
    snapshot: &Snapshot,
    defaults: &[TopologySpreadConstraint],
    asked: Unsatisfiable,
) -> Vec<Constraint> {
    let own = own(pod);
    let of = |all: &[TopologySpreadConstraint]| -> Vec<Constraint> {
        let asked = all.iter().filter(|one| match asked {
            Unsatisfiable::DoNotSchedule => one.when_unsatisfiable == "DoNotSchedule",
            Unsatisfiable::ScheduleAnyway => one.when_unsatisfiable == "ScheduleAnyway",
        });
        asked
            .map(|one| Constraint::new(snapshot, one, pod))
            .collect()
    };
    if !own.is_empty() {
        return of(own);
    }
    let mut constraints = of(defaults);
    if constraints.is_empty() {
        return constraints;
    }
    let selectors = default_selectors(pod, snapshot);
    if selectors.is_empty() {
        return Vec::new();
    }
    for constraint in &mut constraints {
        constraint.selectors = Some(selectors.clone());
    }
    constraints
}

/// The constraints that the pod itself has.
pub(super) fn own(pod: &Pod) -> &[TopologySpreadConstraint] {
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|spec| spec.topology_spread_constraints.as_deref());
    own.unwrap_or_default()
}

/// Those of the Services that select the pod, and of its controller.
fn default_selectors(pod: &Pod, snapshot: &Snapshot) -> Vec<Selector> {
    let objects = &snapshot.objects;
    let mut all = Vec::new();
    if let (Some(namespace), Some(labels)) = (pod.namespace(), &pod.metadata.labels) {
        let services = objects.service_selector(namespace, labels);
        if !services.is_empty() {
            all.push(Selector::labels(services));
        }
    }
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    if let Some(owner) = controllers.next() {
        let key = pod.key_beside(&owner.name);
        all.extend(objects.owner_selector(&owner.api_version, &owner.kind, &key));
    }
    all.retain(|one| !one.is_everything());
    all
}

/// Those of a cluster for pods that have none: spread over hosts, and over zones.
pub(super) fn system_defaults() -> Vec<TopologySpreadConstraint> {
    let soft = |key: &str, max_skew| TopologySpreadConstraint {
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        max_skew,
        ..TopologySpreadConstraint::default()
    };
    vec![soft(HOSTNAME, 3), soft("topology.kubernetes.io/zone", 5)]
}
