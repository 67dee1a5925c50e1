//! What the scheduler knows of the cluster, kept up to date by change: an event costs what it
//! changes, and no pod's scheduling looks at all pods.
//!
//! Kubernetes keeps a cache that events change, and before each pod copies what has changed into a
//! snapshot, as its cycles and its events run at the same time. Here a scheduling cycle holds the
//! lock and awaits nothing, so that one structure is both.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/backend/cache/cache.go`: `AssumePod`, `ForgetPod`, `AddPod`, `RemoveNode`
//! - `pkg/scheduler/backend/cache/snapshot.go`: `Snapshot`
//! - `pkg/scheduler/backend/cache/node_tree.go`: `list`
//! - `pkg/scheduler/backend/queue/nominator.go`: `nominator`

pub mod domains;
pub mod node_info;
pub mod objects;
pub mod pod_info;
pub mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use sendo::{ObjectExt, ObjectKey, Uid};

use domains::Domains;
use node_info::{NodeId, NodeInfo};
use objects::ClusterObjects;
use pod_info::{PodClass, PodInfo};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// How many pods of one class each node has.
pub type PodsByNode = BTreeMap<NodeId, u32>;

/// The nodes with their pods, and the objects that decide where pods run.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Nodes and their pods; a node that is not known yet may have pods.
    slots: Vec<Option<NodeInfo>>,
    /// Slots that are empty.
    free: Vec<NodeId>,
    by_name: BTreeMap<String, NodeId>,
    /// The nodes that are known, the zones taking turns.
    order: Vec<NodeId>,
    /// Whether `order` has to be made again.
    order_is_stale: bool,
    /// Where each pod is.
    placed: BTreeMap<ObjectKey, (Uid, NodeId)>,
    /// Which nodes have pods of each class.
    classes: BTreeMap<String, BTreeMap<Arc<PodClass>, PodsByNode>>,
    /// The classes that have affinity to other pods, or anti-affinity.
    with_affinity: BTreeMap<Arc<PodClass>, ()>,
    /// The domains of the labels that pods spread by, until a label of a node changes.
    domains: Mutex<BTreeMap<String, Arc<Domains>>>,
    /// On how many nodes each image is.
    images: BTreeMap<String, u32>,
    /// How many pods with a node mount each claim.
    claims_in_use: BTreeMap<ObjectKey, u32>,
    /// Pods for which others make way on a node, by its name.
    nominated: BTreeMap<String, Vec<Arc<PodInfo>>>,
    /// Other objects.
    pub objects: ClusterObjects,
}

impl Snapshot {
    /// The nodes, the zones taking turns. [`Snapshot::sort_nodes`] comes first.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeInfo> {
        self.order.iter().map(|id| self.slot(*id))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.order.len()
    }

    /// The node at a place in the order of [`Snapshot::nodes`].
    pub fn node_at(&self, place: usize) -> &NodeInfo {
        self.slot(self.order[place])
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        let id = self.by_name.get(name)?;
        Some(self.slot(*id)).filter(|info| is_known(info))
    }

    /// The node of this number.
    pub fn node_of_id(&self, id: NodeId) -> Option<&NodeInfo> {
        let slot = self.slots.get(id as usize)?.as_ref();
        slot.filter(|info| is_known(info))
    }

    fn slot(&self, id: NodeId) -> &NodeInfo {
        let slot = self.slots[id as usize].as_ref();
        slot.expect("a node that is in the order or has a name is there")
    }

    /// Makes the order of the nodes anew if nodes have come or gone.
    pub fn sort_nodes(&mut self) {
        if !self.order_is_stale {
            return;
        }
        let mut zones: BTreeMap<(&str, &str), Vec<NodeId>> = BTreeMap::new();
        for id in self.by_name.values() {
            let info = self.slot(*id);
            if is_known(info) {
                let label = |name| info.label(name).unwrap_or_default();
                zones
                    .entry((label(REGION), label(ZONE)))
                    .or_default()
                    .push(*id);
            }
        }
        let longest = zones.values().map(Vec::len).max().unwrap_or_default();
        let turns = (0..longest).flat_map(|turn| zones.values().map(move |zone| zone.get(turn)));
        self.order = turns.flatten().copied().collect();
        self.order_is_stale = false;
    }

    /// Adds a node, or changes it.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.name().to_owned();
        let id = self.id_of(&name);
        let info = self.slots[id as usize].as_mut().expect("just made");
        let zone = |node: &Node| {
            let label = |name| node.label(name).unwrap_or_default().to_owned();
            (label(REGION), label(ZONE))
        };
        if !is_known(info) || zone(&info.node) != zone(&node) {
            self.order_is_stale = true;
        }
        if info.node.metadata.labels != node.metadata.labels {
            self.domains.get_mut().clear();
        }
        let before = std::mem::take(&mut info.images);
        info.set_node(node);
        if before != info.images {
            let after: Vec<String> = info.images.keys().cloned().collect();
            for image in before.keys() {
                count(&mut self.images, image, -1);
            }
            for image in after {
                count(&mut self.images, &image, 1);
            }
        }
    }

    /// Takes a node away. Pods that are still said to be there stay until they are gone.
    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.by_name.get(name).copied() else {
            return;
        };
        let info = self.slots[id as usize]
            .as_mut()
            .expect("a node with a name");
        for image in std::mem::take(&mut info.images).keys() {
            count(&mut self.images, image, -1);
        }
        info.set_node(Arc::default());
        self.domains.get_mut().clear();
        self.order_is_stale = true;
        self.drop_if_empty(name, id);
    }

    /// Adds a pod to its node; one that is there already is replaced, wherever it was.
    pub fn add_pod(&mut self, mut pod: PodInfo, node: &str) -> Arc<PodInfo> {
        self.remove_pod(&pod.key);
        let id = self.id_of(node);
        let namespace = self.classes.entry(pod.class.namespace.clone()).or_default();
        if let Some((known, _)) = namespace.get_key_value(&pod.class) {
            pod.class = known.clone();
        }
        *namespace
            .entry(pod.class.clone())
            .or_default()
            .entry(id)
            .or_default() += 1;
        if !pod.class.affinity.is_empty() {
            self.with_affinity.insert(pod.class.clone(), ());
        }
        for claim in &pod.claims {
            let key = ObjectKey::namespaced(&pod.class.namespace, claim);
            *self.claims_in_use.entry(key).or_default() += 1;
        }
        self.placed.insert(pod.key.clone(), (pod.uid.clone(), id));
        let pod = Arc::new(pod);
        let info = self.slots[id as usize].as_mut().expect("just made");
        info.add_pod(pod.clone());
        pod
    }

    /// Takes a pod from its node, if it has one.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Option<Arc<PodInfo>> {
        let (uid, id) = self.placed.remove(key)?;
        let info = self.slots[id as usize].as_mut()?;
        let pod = info.remove_pod(&uid)?;
        let name = info.name().to_owned();
        if let Some(namespace) = self.classes.get_mut(&pod.class.namespace) {
            if let Some(nodes) = namespace.get_mut(&pod.class) {
                count(nodes, &id, -1);
                if nodes.is_empty() {
                    namespace.remove(&pod.class);
                    self.with_affinity.remove(&pod.class);
                }
            }
            if namespace.is_empty() {
                self.classes.remove(&pod.class.namespace);
            }
        }
        for claim in &pod.claims {
            let key = ObjectKey::namespaced(&pod.class.namespace, claim);
            count(&mut self.claims_in_use, &key, -1);
        }
        if name.is_empty() {
            self.drop_unknown(id);
        }
        Some(pod)
    }

    /// The pod and the node it is on.
    pub fn placed(&self, key: &ObjectKey) -> Option<(&Arc<PodInfo>, &str)> {
        let (uid, id) = self.placed.get(key)?;
        let info = self.slot(*id);
        Some((info.pods.get(uid)?, info.name()))
    }

    /// How many pods have a node.
    pub fn pod_count(&self) -> usize {
        self.placed.len()
    }

    /// The classes of pods of a namespace, and which nodes have them.
    pub fn classes_in(&self, namespace: &str) -> impl Iterator<Item = (&PodClass, &PodsByNode)> {
        let classes = self.classes.get(namespace).into_iter().flatten();
        classes.map(|(class, nodes)| (&**class, nodes))
    }

    /// All classes of pods, and which nodes have them.
    pub fn classes(&self) -> impl Iterator<Item = (&PodClass, &PodsByNode)> {
        let classes = self.classes.values().flatten();
        classes.map(|(class, nodes)| (&**class, nodes))
    }

    /// The classes of pods with affinity or anti-affinity to others, and which nodes have them.
    pub fn classes_with_affinity(&self) -> impl Iterator<Item = (&PodClass, &PodsByNode)> {
        self.with_affinity.keys().filter_map(|class| {
            let nodes = self.classes.get(&class.namespace)?.get(class)?;
            Some((&**class, nodes))
        })
    }

    /// The nodes by their values of a label.
    pub fn domains(&self, label: &str) -> Arc<Domains> {
        let mut known = self.domains.lock();
        if let Some(domains) = known.get(label) {
            return domains.clone();
        }
        let domains = Arc::new(Domains::new(self, label));
        known.insert(label.to_owned(), domains.clone());
        domains
    }

    /// On how many nodes an image is.
    pub fn nodes_with_image(&self, image: &str) -> u32 {
        self.images.get(image).copied().unwrap_or_default()
    }

    /// How many pods that have a node mount this claim.
    pub fn users_of_claim(&self, claim: &ObjectKey) -> u32 {
        self.claims_in_use.get(claim).copied().unwrap_or_default()
    }

    /// Notes that others make way for a pod on this node; `None`: nowhere.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<&str>) {
        self.nominated.retain(|_, pods| {
            pods.retain(|other| other.uid != pod.uid);
            !pods.is_empty()
        });
        if let Some(node) = node {
            let pods = self.nominated.entry(node.to_owned()).or_default();
            pods.push(pod.clone());
        }
    }

    /// The pods for which others make way on a node.
    pub fn nominated(&self, node: &str) -> &[Arc<PodInfo>] {
        // Most clusters never preempt.
        if self.nominated.is_empty() {
            return &[];
        }
        self.nominated.get(node).map_or(&[], Vec::as_slice)
    }

    /// The number of the node of this name, which need not be known yet.
    fn id_of(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            NodeId::try_from(self.slots.len() - 1).expect("fewer nodes than that")
        });
        self.domains.get_mut().clear();
        self.slots[id as usize] = Some(NodeInfo {
            id,
            ..NodeInfo::default()
        });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn drop_unknown(&mut self, id: NodeId) {
        let mut names = self.by_name.iter();
        let name = names.find(|(_, known)| **known == id);
        if let Some(name) = name.map(|(name, _)| name.clone()) {
            self.drop_if_empty(&name, id);
        }
    }

    fn drop_if_empty(&mut self, name: &str, id: NodeId) {
        if self.slot(id).pods.is_empty() && !is_known(self.slot(id)) {
            self.slots[id as usize] = None;
            self.free.push(id);
            self.by_name.remove(name);
        }
    }
}

/// Whether the node itself is known, and not only pods that are said to be there.
fn is_known(info: &NodeInfo) -> bool {
    info.node.metadata.name.is_some()
}

/// Adds to a count, and forgets it at zero.
fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, u32>, key: &K, by: i32) {
    let known = counts.entry(key.clone()).or_default();
    *known = known.saturating_add_signed(by);
    if *known == 0 {
        counts.remove(key);
    }
}
