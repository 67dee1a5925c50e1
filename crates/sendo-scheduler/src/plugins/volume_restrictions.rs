//! Volumes that pods cannot share.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`: `PreFilter`,
//!   `Filter`, `isVolumeConflict`, `calPreFilterState`

use std::collections::BTreeSet;

use sendo::ObjectKey;

use crate::framework::{ClusterEvent, Cycle, Plugin, PreFilter, QueuedPod, QueueingHint, Rejected};
use crate::pod::Pod;
use crate::snapshot::node_info::NodeInfo;
use crate::snapshot::pod_info::{ExclusiveDisk, PodInfo};

/// Rejects nodes where another pod uses a disk of the pod, and pods whose claim is for one pod
/// and has one.
#[derive(Clone, Copy, Debug)]
pub struct VolumeRestrictions;

/// The claims of the pod that are for one pod only, and how many pods use them.
#[derive(Clone)]
struct OnePodOnly {
    claims: BTreeSet<String>,
    users: i64,
}

fn conflict(one: &ExclusiveDisk, other: &ExclusiveDisk) -> bool {
    let shared = one.shared_by_readers && one.read_only && other.read_only;
    !shared && one.names.iter().any(|name| other.names.contains(name))
}

fn change(cycle: &mut Cycle<'_>, other: &PodInfo, by: i64) {
    if other.class.namespace != cycle.pod.info.class.namespace {
        return;
    }
    if let Some(state) = cycle.state.get_mut::<OnePodOnly>() {
        let claims = other.claims.iter();
        let shared = claims.filter(|claim| state.claims.contains(*claim));
        state.users += by * shared.count() as i64;
    }
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        let shares = |other: &Pod| {
            let other = PodInfo::new(other);
            other
                .claims
                .iter()
                .any(|claim| pod.info.claims.contains(claim))
                || !other.disks.is_empty()
        };
        match event {
            ClusterEvent::AssignedPodDeleted(other) => shares(other).into(),
            ClusterEvent::NodeAdded(_) | ClusterEvent::Claim(_) => QueueingHint::Queue,
            _ => QueueingHint::Skip,
        }
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        let (pod, snapshot) = (&cycle.pod.info, cycle.snapshot);
        let namespace = &pod.class.namespace;
        let is_for_one_pod = |name: &&String| {
            let key = ObjectKey::namespaced(namespace, name);
            let claim = snapshot.objects.claims.get(&key);
            let spec = claim.and_then(|claim| claim.spec.as_ref());
            let modes = spec.and_then(|spec| spec.access_modes.as_ref());
            modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"))
        };
        let claims: BTreeSet<String> = pod.claims.iter().filter(is_for_one_pod).cloned().collect();
        if claims.is_empty() && pod.disks.is_empty() {
            return Ok(PreFilter::Skip);
        }
        let users = claims.iter().map(|name| {
            let key = ObjectKey::namespaced(namespace, name);
            i64::from(snapshot.users_of_claim(&key))
        });
        let users = users.sum();
        cycle.state.write(OnePodOnly { claims, users });
        Ok(PreFilter::AllNodes)
    }

    fn add_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, _: &NodeInfo) {
        change(cycle, other, 1);
    }

    fn remove_pod(&self, cycle: &mut Cycle<'_>, other: &PodInfo, _: &NodeInfo) {
        change(cycle, other, -1);
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let in_use = |disk| node.used_disks.iter().any(|(_, used)| conflict(disk, used));
        if cycle.pod.info.disks.iter().any(in_use) {
            return Err(Rejected::unschedulable("node(s) had no available disk"));
        }
        let state = cycle.state.get::<OnePodOnly>();
        if state.is_some_and(|state| state.users > 0) {
            return Err(Rejected::unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod",
            ));
        }
        Ok(())
    }
}
