//! The objects beside nodes and pods that decide where a pod may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use sendo::{Event, ObjectExt, ObjectKey, Selector, Typed};

use super::pod_info::selector;

/// Objects of one kind, by key.
pub type ByKey<K> = BTreeMap<ObjectKey, Arc<K>>;

/// The objects beside nodes and pods that decide where a pod may run, as their events say.
#[derive(Debug, Default)]
pub struct ClusterObjects {
    /// Namespaces, by whose labels affinity selects.
    pub namespaces: ByKey<Namespace>,
    /// Services, whose pods are spread.
    pub services: ByKey<Service>,
    /// ReplicationControllers, whose pods are spread.
    pub replication_controllers: ByKey<ReplicationController>,
    /// ReplicaSets, whose pods are spread.
    pub replica_sets: ByKey<ReplicaSet>,
    /// StatefulSets, whose pods are spread.
    pub stateful_sets: ByKey<StatefulSet>,
    /// Disruption budgets, which preemption respects where it can.
    pub disruption_budgets: ByKey<PodDisruptionBudget>,
    /// Claims.
    pub claims: ByKey<PersistentVolumeClaim>,
    /// Volumes.
    pub volumes: ByKey<PersistentVolume>,
    /// Storage classes.
    pub storage_classes: ByKey<StorageClass>,
    /// What the storage drivers of each node allow.
    pub csi_nodes: ByKey<CSINode>,
}

/// A kind that is kept in [`ClusterObjects`].
pub trait Kept: Typed {
    /// The objects of the kind.
    fn kept(objects: &mut ClusterObjects) -> &mut ByKey<Self>;
}

macro_rules! kept {
    ($($kind:ty => $field:ident,)*) => {
        $(impl Kept for $kind {
            fn kept(objects: &mut ClusterObjects) -> &mut ByKey<Self> {
                &mut objects.$field
            }
        })*
    };
}

kept! {
    Namespace => namespaces,
    Service => services,
    ReplicationController => replication_controllers,
    ReplicaSet => replica_sets,
    StatefulSet => stateful_sets,
    PodDisruptionBudget => disruption_budgets,
    PersistentVolumeClaim => claims,
    PersistentVolume => volumes,
    StorageClass => storage_classes,
    CSINode => csi_nodes,
}

impl ClusterObjects {
    /// Follows an event.
    pub fn follow<K: Kept>(&mut self, event: &Event<K>) {
        let objects = K::kept(self);
        let object = event.object();
        match event {
            Event::Deleted { .. } => objects.remove(&object.key()),
            _ => objects.insert(object.key(), object.clone()),
        };
    }

    /// The labels of a namespace.
    pub fn namespace_labels(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        let namespace = self.namespaces.get(&ObjectKey::cluster(name))?;
        namespace.metadata.labels.as_ref()
    }

    /// The selectors of the Services that select these labels, as one set of labels.
    pub fn service_selector(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        // Keys are ordered by namespace first.
        let first = ObjectKey::namespaced(namespace, "");
        for (key, service) in self.services.range(first..) {
            if key.namespace() != Some(namespace) {
                break;
            }
            let selector = service.spec.as_ref().and_then(|s| s.selector.as_ref());
            let Some(selector) = selector else {
                continue;
            };
            if selector
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
            {
                all.extend(selector.clone());
            }
        }
        all
    }

    /// The selector of the ReplicaSet, StatefulSet or ReplicationController of this name.
    pub fn owner_selector(
        &self,
        api_version: &str,
        kind: &str,
        key: &ObjectKey,
    ) -> Option<Selector> {
        match (api_version, kind) {
            ("apps/v1", "ReplicaSet") => {
                let spec = self.replica_sets.get(key)?.spec.as_ref()?;
                selector(Some(&spec.selector))
            }
            ("apps/v1", "StatefulSet") => {
                let spec = self.stateful_sets.get(key)?.spec.as_ref()?;
                selector(Some(&spec.selector))
            }
            ("v1", "ReplicationController") => {
                let spec = self.replication_controllers.get(key)?.spec.as_ref()?;
                let labels = spec.selector.clone().unwrap_or_default();
                Some(Selector::labels(labels))
            }
            _ => None,
        }
    }
}
