//! How many volumes a storage driver attaches to a node.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`: `PreFilter`, `Filter`,
//!   `filterAttachableVolumes`

use std::collections::{BTreeMap, BTreeSet};

use sendo::{ObjectExt, ObjectKey};

use crate::framework::{ClusterEvent, Cycle, Plugin, PreFilter, QueuedPod, QueueingHint, Rejected};
use crate::snapshot::Snapshot;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::PodInfo;

/// Rejects nodes that have as many volumes of a driver as they can have.
#[derive(Clone, Copy, Debug)]
pub struct NodeVolumeLimits;

/// Adds the volumes of a pod, each under the name of its driver.
fn volumes_of(
    pod: &PodInfo,
    snapshot: &Snapshot,
    volumes: &mut BTreeMap<String, BTreeSet<String>>,
) {
    let objects = &snapshot.objects;
    for name in &pod.claims {
        let key = ObjectKey::namespaced(&pod.class.namespace, name);
        let claim = objects.claims.get(&key);
        let Some(spec) = claim.and_then(|claim| claim.spec.as_ref()) else {
            continue;
        };
        let volume = spec.volume_name.as_deref().filter(|name| !name.is_empty());
        let found = volume.and_then(|name| objects.volumes.get(&ObjectKey::cluster(name)));
        if let Some(volume) = found {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            if let Some(csi) = csi {
                let handles = volumes.entry(csi.driver.clone()).or_default();
                handles.insert(csi.volume_handle.clone());
            }
            continue;
        }
        // One that is yet to be made counts by its claim.
        let class = spec.storage_class_name.as_deref().map(ObjectKey::cluster);
        if let Some(class) = class.and_then(|class| objects.storage_classes.get(&class)) {
            let handles = volumes.entry(class.provisioner.clone()).or_default();
            handles.insert(key.to_string());
        }
    }
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn queueing_hint(&self, _: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        matches!(
            event,
            ClusterEvent::CsiNode(_)
                | ClusterEvent::AssignedPodDeleted(_)
                | ClusterEvent::Claim(_)
                | ClusterEvent::NodeAdded(_)
        )
        .into()
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        Ok(match cycle.pod.info.claims.is_empty() {
            true => PreFilter::Skip,
            false => PreFilter::AllNodes,
        })
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let snapshot = cycle.snapshot;
        let Some(csi) = snapshot.objects.csi_nodes.get(&node.node.key()) else {
            return Ok(());
        };
        let (mut wanted, mut there) = (BTreeMap::new(), BTreeMap::new());
        volumes_of(&cycle.pod.info, snapshot, &mut wanted);
        for pod in node.pods.values() {
            volumes_of(pod, snapshot, &mut there);
        }
        for (driver, wanted) in wanted {
            let mut drivers = csi.spec.drivers.iter();
            let limit = drivers
                .find(|known| known.name == driver)
                .and_then(|known| known.allocatable.as_ref()?.count);
            let Some(limit) = limit else {
                continue;
            };
            let there = there.entry(driver).or_default();
            let more = wanted.difference(there).count();
            if more > 0 && (there.len() + more) as i64 > i64::from(limit) {
                return Err(Rejected::unschedulable("node(s) exceed max volume count"));
            }
        }
        Ok(())
    }
}
