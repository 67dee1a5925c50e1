//! Which volume a claim can have on a node.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go`: `FindMatchingVolume`
//! - `staging/src/k8s.io/component-helpers/storage/volume/helpers.go`: `CheckNodeAffinity`
//! - `pkg/scheduler/framework/plugins/volumebinding/binder.go`: `checkVolumeProvisions`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sendo::{ObjectExt, ObjectKey};

use super::affinity_selects;
use crate::snapshot::objects::ClusterObjects;
use crate::snapshot::pod_info::selector;

/// Whether the node can reach the volume.
pub(super) fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let spec = volume.spec.as_ref();
    affinity_selects(spec.and_then(|spec| spec.node_affinity.as_ref()), node)
}

fn bytes(quantity: Option<&Quantity>) -> i64 {
    let parsed = quantity.and_then(|q| q.0.parse::<sendo_apimachinery::Quantity>().ok());
    parsed.map_or(0, |quantity| quantity.units())
}

/// The smallest free volume that the claim can have on this node.
pub(super) fn find_volume(
    claim: &PersistentVolumeClaim,
    objects: &ClusterObjects,
    node: &Node,
    is_free: impl Fn(&PersistentVolume) -> bool,
) -> Option<Arc<PersistentVolume>> {
    let wanted = claim.spec.as_ref()?;
    let requests = wanted.resources.as_ref().and_then(|r| r.requests.as_ref());
    let size = bytes(requests.and_then(|requests| requests.get("storage")));
    let class = wanted.storage_class_name.as_deref().unwrap_or_default();
    let labels = selector(wanted.selector.as_ref());
    let capacity = |volume: &PersistentVolume| {
        let spec = volume.spec.as_ref();
        let capacity = spec.and_then(|spec| spec.capacity.as_ref());
        bytes(capacity.and_then(|capacity| capacity.get("storage")))
    };
    let fits = |volume: &&Arc<PersistentVolume>| {
        let Some(spec) = &volume.spec else {
            return false;
        };
        let modes = wanted.access_modes.iter().flatten();
        let offered = spec.access_modes.as_deref().unwrap_or_default();
        let reference = spec.claim_ref.as_ref();
        let is_for_it = reference.is_none_or(|claimed| {
            claimed.name.as_deref() == claim.metadata.name.as_deref()
                && claimed.namespace.as_deref() == claim.metadata.namespace.as_deref()
                && (claimed.uid.is_none() || claimed.uid == claim.metadata.uid)
        });
        let mode = |mode: &Option<String>| mode.clone().unwrap_or("Filesystem".to_owned());
        is_for_it
            && !volume.is_being_deleted()
            && spec.storage_class_name.as_deref().unwrap_or_default() == class
            && mode(&spec.volume_mode) == mode(&wanted.volume_mode)
            && capacity(volume) >= size
            && modes.into_iter().all(|mode| offered.contains(mode))
            && (wanted.selector.is_none()
                || labels
                    .as_ref()
                    .is_some_and(|labels| labels.matches(volume.metadata.labels.as_ref())))
            && is_reachable(volume, node)
            && is_free(volume)
    };
    let volumes = objects.volumes.values().filter(fits);
    // One that is kept for this claim comes before all others.
    let smallest = volumes.min_by_key(|volume| {
        let spec = volume.spec.as_ref();
        let is_kept = spec.is_some_and(|spec| spec.claim_ref.is_some());
        (!is_kept, capacity(volume))
    });
    smallest.cloned()
}

/// Whether the claim's class makes volumes that this node can reach.
pub(super) fn can_be_made(
    claim: &PersistentVolumeClaim,
    objects: &ClusterObjects,
    node: &Node,
) -> bool {
    let spec = claim.spec.as_ref();
    let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
    let class = class.and_then(|class| objects.storage_classes.get(&ObjectKey::cluster(class)));
    let Some(class) = class else {
        return false;
    };
    if matches!(
        class.provisioner.as_str(),
        "" | "kubernetes.io/no-provisioner"
    ) {
        return false;
    }
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    let allows = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
        let mut labels = term.match_label_expressions.iter().flatten();
        labels.all(|label| {
            let value = node.label(&label.key);
            value.is_some_and(|value| label.values.iter().any(|known| known == value))
        })
    };
    terms.is_empty() || terms.iter().any(allows)
}
