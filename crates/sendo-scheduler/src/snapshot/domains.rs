//! Topology domains: nodes with the same value of a label.

use super::Snapshot;
use super::node_info::NodeId;
use std::collections::BTreeMap;

/// The nodes by their values of one label. Values are numbered, so that counts by domain are an
/// array: at 5,000 nodes, spreading by hostname took most of its time for a map by value.
#[derive(Debug, Default)]
pub struct Domains {
    /// The domain of each node, by its number.
    of_node: Vec<Option<u32>>,
    /// How many domains there are.
    len: usize,
}

impl Domains {
    pub(super) fn new(snapshot: &Snapshot, label: &str) -> Self {
        let mut by_value = BTreeMap::new();
        let mut of_node = vec![None; snapshot.slots.len()];
        for id in snapshot.by_name.values() {
            if let Some(value) = snapshot.slot(*id).label(label) {
                let next = by_value.len() as u32;
                of_node[*id as usize] = Some(*by_value.entry(value).or_insert(next));
            }
        }
        Domains {
            of_node,
            len: by_value.len(),
        }
    }

    /// The domain of a node, if it has the label.
    pub fn of_node(&self, node: NodeId) -> Option<usize> {
        let domain = self.of_node.get(node as usize).copied().flatten();
        domain.map(|domain| domain as usize)
    }

    /// How many domains there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no node has the label.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
