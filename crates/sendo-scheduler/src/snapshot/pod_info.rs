//! What the scheduler keeps of a pod: parsed once, when the pod arrives or changes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/types.go`: `PodInfo`, `GetRequiredAffinityTerms`
//! - `staging/src/k8s.io/kube-scheduler/framework/types.go`: `AffinityTerm`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerPort, PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sendo::{ObjectExt, ObjectKey, Selector, Timestamp, Uid};

use super::resource::{Resource, pod_requests, scored_requests};
use crate::pod::Pod;

/// What other pods' scheduling asks of a pod. Pods of one ReplicaSet have all of it in common, so
/// it is kept once for all of them, and selectors are matched once for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodClass {
    /// The namespace.
    pub namespace: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub is_being_deleted: bool,
    /// What it requires and prefers of the pods beside it.
    pub affinity: PodAffinityTerms,
}

/// The terms of a pod's affinity to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAffinityTerms {
    /// It runs only beside these.
    pub required_affinity: Vec<AffinityTerm>,
    /// It does not run beside these.
    pub required_anti_affinity: Vec<AffinityTerm>,
    /// It would rather run beside these, by weight.
    pub preferred_affinity: Vec<(i64, AffinityTerm)>,
    /// It would rather not run beside these, by weight.
    pub preferred_anti_affinity: Vec<(i64, AffinityTerm)>,
}

impl PodAffinityTerms {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.required_affinity.is_empty()
            && self.required_anti_affinity.is_empty()
            && self.preferred_affinity.is_empty()
            && self.preferred_anti_affinity.is_empty()
    }
}

/// Selects pods, beside which a pod runs or does not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffinityTerm {
    /// The namespaces of the pods.
    pub namespaces: BTreeSet<String>,
    /// More namespaces, by their labels; `None` selects no more.
    pub namespace_selector: Option<Selector>,
    /// The labels of the pods; `None` selects no pod.
    pub selector: Option<Selector>,
    /// Nodes with the same value of this label are one place.
    pub topology_key: String,
}

impl AffinityTerm {
    fn new(owner_namespace: &str, term: &PodAffinityTerm) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(owner_namespace.to_owned());
        }
        AffinityTerm {
            namespaces,
            namespace_selector: selector(term.namespace_selector.as_ref()),
            selector: selector(term.label_selector.as_ref()),
            topology_key: term.topology_key.clone(),
        }
    }

    /// Whether it selects pods of this class, whose namespace has these labels.
    pub fn matches(&self, class: &PodClass, namespace: Option<&BTreeMap<String, String>>) -> bool {
        let selected = || {
            let selector = self.namespace_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(namespace))
        };
        (self.namespaces.contains(&class.namespace) || selected())
            && matches(self.selector.as_ref(), &class.labels)
    }
}

/// The selector of an API object; `None`, which selects nothing, for none or an invalid one.
pub fn selector(selector: Option<&LabelSelector>) -> Option<Selector> {
    selector.and_then(|selector| Selector::try_from(selector).ok())
}

/// Whether there is a selector and it selects these labels.
pub fn matches(selector: Option<&Selector>, labels: &BTreeMap<String, String>) -> bool {
    selector.is_some_and(|selector| selector.matches(Some(labels)))
}

/// A port of the node that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The address on which it listens; empty for all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub port: i32,
}

impl HostPort {
    fn new(port: &ContainerPort) -> Option<Self> {
        let ip = port.host_ip.clone().unwrap_or_default();
        Some(HostPort {
            port: port.host_port.filter(|number| *number > 0)?,
            protocol: port.protocol.clone().unwrap_or("TCP".to_owned()),
            ip: if ip == "0.0.0.0" { String::new() } else { ip },
        })
    }

    /// Whether both cannot be used on one node.
    pub fn conflicts_with(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip.is_empty() || other.ip.is_empty() || self.ip == other.ip)
    }
}

/// A disk that two pods cannot both write to from one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusiveDisk {
    /// Names the disk; each name is one of its places.
    pub names: Vec<String>,
    /// Whether pods that only read it may share it.
    pub shared_by_readers: bool,
    /// Whether the pod only reads it.
    pub read_only: bool,
}

/// A pod, as the scheduler keeps it.
#[derive(Clone, Debug)]
pub struct PodInfo {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its identity.
    pub uid: Uid,
    /// Its priority.
    pub priority: i32,
    /// Namespace, labels and affinity.
    pub class: Arc<PodClass>,
    /// What it requests.
    pub requests: Resource,
    /// What it counts as when nodes are scored: CPU in thousandths of a core.
    pub scored_milli_cpu: i64,
    /// The same for memory in bytes.
    pub scored_memory: i64,
    /// The ports of its node that it uses.
    pub host_ports: Vec<HostPort>,
    /// The names of the claims that it mounts.
    pub claims: Vec<String>,
    /// The disks that its node has to itself.
    pub disks: Vec<ExclusiveDisk>,
    /// When its node took it on.
    pub started: Option<Timestamp>,
    /// Whether it is being deleted to make way for another pod.
    pub is_being_preempted: bool,
}

impl PodInfo {
    /// What is kept of a pod.
    pub fn new(pod: &Pod) -> Self {
        let scored = scored_requests(pod);
        let disrupted = pod.condition("DisruptionTarget").is_some_and(|condition| {
            condition.status == "True"
                && condition.reason.as_deref() == Some("PreemptionByScheduler")
        });
        let status = pod.status.as_ref();
        PodInfo {
            key: pod.key(),
            uid: pod.uid(),
            priority: pod.priority(),
            class: Arc::new(PodClass {
                namespace: pod.namespace().unwrap_or_default().to_owned(),
                labels: pod.metadata.labels.clone().unwrap_or_default(),
                is_being_deleted: pod.is_being_deleted(),
                affinity: affinity_terms(pod),
            }),
            requests: pod_requests(pod),
            scored_milli_cpu: scored.milli_cpu,
            scored_memory: scored.memory,
            host_ports: host_ports(pod),
            claims: pod.claims().map(|(name, _)| name).collect(),
            disks: disks(pod),
            started: status.and_then(|s| s.start_time.as_ref()).map(|at| at.0),
            is_being_preempted: disrupted && pod.is_being_deleted(),
        }
    }
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(HostPort::new).collect()
}

fn affinity_terms(pod: &Pod) -> PodAffinityTerms {
    let namespace = pod.namespace().unwrap_or_default();
    let term = |term: &PodAffinityTerm| AffinityTerm::new(namespace, term);
    let required = |terms: &Option<Vec<PodAffinityTerm>>| -> Vec<AffinityTerm> {
        terms.iter().flatten().map(term).collect()
    };
    let preferred = |terms: &Option<Vec<WeightedPodAffinityTerm>>| -> Vec<(i64, AffinityTerm)> {
        let weighted = terms.iter().flatten();
        let weighted = weighted.map(|one| (i64::from(one.weight), term(&one.pod_affinity_term)));
        weighted.collect()
    };
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let mut all = PodAffinityTerms::default();
    if let Some(beside) = affinity.and_then(|affinity| affinity.pod_affinity.as_ref()) {
        all.required_affinity =
            required(&beside.required_during_scheduling_ignored_during_execution);
        all.preferred_affinity =
            preferred(&beside.preferred_during_scheduling_ignored_during_execution);
    }
    if let Some(apart) = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref()) {
        all.required_anti_affinity =
            required(&apart.required_during_scheduling_ignored_during_execution);
        all.preferred_anti_affinity =
            preferred(&apart.preferred_during_scheduling_ignored_during_execution);
    }
    all
}

fn disks(pod: &Pod) -> Vec<ExclusiveDisk> {
    let mut all = Vec::new();
    for volume in pod.volumes() {
        if let Some(disk) = &volume.gce_persistent_disk {
            all.push(ExclusiveDisk {
                names: vec![format!("gce/{}", disk.pd_name)],
                shared_by_readers: true,
                read_only: disk.read_only == Some(true),
            });
        }
        if let Some(disk) = &volume.aws_elastic_block_store {
            all.push(ExclusiveDisk {
                names: vec![format!("aws/{}", disk.volume_id)],
                shared_by_readers: false,
                read_only: disk.read_only == Some(true),
            });
        }
        if let Some(disk) = &volume.iscsi {
            all.push(ExclusiveDisk {
                names: vec![format!("iscsi/{}", disk.iqn)],
                shared_by_readers: true,
                read_only: disk.read_only == Some(true),
            });
        }
        if let Some(disk) = &volume.rbd {
            let pool = disk.pool.as_deref().unwrap_or("rbd");
            let name = |monitor| format!("rbd/{monitor}/{pool}/{}", disk.image);
            all.push(ExclusiveDisk {
                names: disk.monitors.iter().map(name).collect(),
                shared_by_readers: true,
                read_only: disk.read_only == Some(true),
            });
        }
    }
    all
}
