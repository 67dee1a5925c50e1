//! Volumes that are in a zone.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`: `PreFilter`, `Filter`,
//!   `getPVTopologies`, `translateToGALabel`

use std::collections::BTreeSet;

use sendo::{ObjectExt, ObjectKey};

use crate::framework::{ClusterEvent, Cycle, Plugin, PreFilter, QueuedPod, QueueingHint, Rejected};
use crate::snapshot::node_info::NodeInfo;

/// Rejects nodes that are not in the zone of the pod's volumes.
#[derive(Clone, Copy, Debug)]
pub struct VolumeZone;

/// The labels of volumes that say where they are, and their names today.
const LABELS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];

/// The labels that the node has to have, each with one of these values.
#[derive(Clone)]
struct Places(Vec<(&'static str, &'static str, BTreeSet<String>)>);

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn queueing_hint(&self, _: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let helps = event.node().is_some()
            || matches!(
                event,
                ClusterEvent::Claim(_) | ClusterEvent::Volume(_) | ClusterEvent::StorageClass(_)
            );
        helps.into()
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        let (pod, objects) = (&cycle.pod.info, &cycle.snapshot.objects);
        let mut places = Vec::new();
        for name in &pod.claims {
            let key = ObjectKey::namespaced(&pod.class.namespace, name);
            let claim = objects.claims.get(&key);
            let spec = claim.and_then(|claim| claim.spec.as_ref());
            let Some(volume) = spec.and_then(|spec| spec.volume_name.as_deref()) else {
                continue;
            };
            let Some(volume) = objects.volumes.get(&ObjectKey::cluster(volume)) else {
                continue;
            };
            for (label, now) in LABELS {
                if let Some(value) = volume.label(label) {
                    let values = value.split("__").map(str::to_owned).collect();
                    places.push((label, now, values));
                }
            }
        }
        if places.is_empty() {
            return Ok(PreFilter::Skip);
        }
        cycle.state.write(Places(places));
        Ok(PreFilter::AllNodes)
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let Some(Places(places)) = cycle.state.get() else {
            return Ok(());
        };
        // A node that says nothing of zones is in a cluster without any.
        if LABELS.iter().all(|(label, _)| node.label(label).is_none()) {
            return Ok(());
        }
        let is_there = |(label, now, values): &(&str, &str, BTreeSet<String>)| {
            let value = node.label(label).or_else(|| node.label(now));
            value.is_some_and(|value| values.contains(value))
        };
        match places.iter().all(is_there) {
            true => Ok(()),
            false => Err(Rejected::unresolvable(
                "node(s) had no available volume zone",
            )),
        }
    }
}
