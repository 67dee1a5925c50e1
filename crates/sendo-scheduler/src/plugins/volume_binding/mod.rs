//! The volumes of a pod's claims: where they are, and which are yet to be bound or made.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/volumebinding/volume_binding.go`: `podHasPVCs`, `PreFilter`,
//!   `Filter`, `Reserve`, `PreBind`, `Unreserve`
//! - `pkg/scheduler/framework/plugins/volumebinding/binder.go`: `GetPodVolumeClaims`,
//!   `FindPodVolumes`, `BindPodVolumes`, `checkVolumeProvisions`

mod matching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use parking_lot::Mutex;
use sendo::{Context, ObjectExt, ObjectKey, Patch, Result, Uid};
use serde_json::json;

use crate::framework::{
    Binding, BoxFuture, ClusterEvent, Cycle, Plugin, PreFilter, Progress, QueuedPod, QueueingHint,
    Rejected,
};
use crate::node_affinity::selects;
use crate::snapshot::Snapshot;
use crate::snapshot::node_info::NodeInfo;
use matching::{can_be_made, find_volume};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// How often a pod that waits for its volumes looks for them, where no event says so.
const WAIT: Duration = Duration::from_secs(10);

/// Rejects nodes that cannot have the pod's volumes, and has them bound or made on the node that
/// was chosen.
#[derive(Clone, Debug, Default)]
pub struct VolumeBinding {
    /// Volumes that are going to be bound, by name, and the pods that they are for.
    taken: Arc<Mutex<BTreeMap<String, Uid>>>,
}

/// The pod's claims.
#[derive(Clone, Default)]
struct Claims {
    /// Those with a volume, whose name this is.
    bound: Vec<String>,
    /// Those that wait for a node.
    delayed: Vec<Arc<PersistentVolumeClaim>>,
}

/// What is to be done on the node that was chosen.
#[derive(Clone, Default)]
struct Decisions {
    /// Claims and the names of the volumes that they get.
    bind: Vec<(ObjectKey, String)>,
    /// Claims whose volumes are made.
    make: Vec<ObjectKey>,
}

/// Whether the claim and its volume know of each other.
fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    volume.is_some_and(|name| !name.is_empty())
        && claim
            .annotation("pv.kubernetes.io/bind-completed")
            .is_some()
}

fn claims(pod: &QueuedPod, snapshot: &Snapshot) -> Result<Claims, Rejected> {
    let objects = &snapshot.objects;
    let mut claims = Claims::default();
    let mut unbound = false;
    for (name, is_ephemeral) in pod.pod.claims() {
        let key = pod.pod.key_beside(&name);
        let Some(claim) = objects.claims.get(&key) else {
            return Err(Rejected::unresolvable(match is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the \
                     persistentvolumeclaim \"{name}\""
                ),
                false => format!("persistentvolumeclaim \"{name}\" not found"),
            }));
        };
        let phase = claim
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let spec = claim.spec.clone().unwrap_or_default();
        let volume = spec.volume_name.clone().unwrap_or_default();
        if phase == Some("Lost") {
            return Err(Rejected::unresolvable(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \
                 \"{volume}\""
            )));
        }
        if claim.is_being_deleted() {
            return Err(Rejected::unresolvable(format!(
                "persistentvolumeclaim \"{name}\" is being deleted"
            )));
        }
        if is_ephemeral && !claim.is_controlled_by(&*pod.pod) {
            return Err(Rejected::unresolvable(format!(
                "PVC {key} was not created for pod {} (pod is not owner)",
                pod.info.key
            )));
        }
        let class = spec.storage_class_name.as_deref().map(ObjectKey::cluster);
        let class = class.and_then(|class| objects.storage_classes.get(&class));
        let mode = class.and_then(|class| class.volume_binding_mode.as_deref());
        if is_bound(claim) {
            claims.bound.push(volume);
        } else if mode == Some("WaitForFirstConsumer") && volume.is_empty() {
            claims.delayed.push(claim.clone());
        } else {
            unbound = true;
        }
    }
    match unbound {
        true => Err(Rejected::unresolvable(
            "pod has unbound immediate PersistentVolumeClaims",
        )),
        false => Ok(claims),
    }
}

impl VolumeBinding {
    /// What is to be done for the claims that wait for a node; `None`: this node cannot have
    /// their volumes.
    fn decide(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Option<Decisions> {
        let claims = cycle.state.get::<Claims>()?;
        let taken = self.taken.lock();
        let mut decisions = Decisions::default();
        for claim in &claims.delayed {
            let is_free = |volume: &PersistentVolume| {
                let name = volume.name();
                let own = |pod: &Uid| *pod == cycle.pod.info.uid;
                taken.get(name).is_none_or(own)
                    && !decisions.bind.iter().any(|(_, chosen)| chosen == name)
            };
            let found = find_volume(claim, &cycle.snapshot.objects, &node.node, is_free);
            if let Some(volume) = found {
                let name = volume.name().to_owned();
                decisions.bind.push((claim.key(), name));
            } else if can_be_made(claim, &cycle.snapshot.objects, &node.node) {
                decisions.make.push(claim.key());
            } else {
                return None;
            }
        }
        Some(decisions)
    }

    fn release(&self, pod: &Uid) {
        self.taken.lock().retain(|_, taken| taken != pod);
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn queueing_hint(&self, pod: &QueuedPod, event: &ClusterEvent<'_>) -> QueueingHint {
        match event {
            ClusterEvent::Claim(claim) => {
                let is_in_namespace = claim.namespace() == Some(&pod.info.class.namespace);
                let mut names = pod.info.claims.iter();
                (is_in_namespace && names.any(|name| name == claim.name())).into()
            }
            ClusterEvent::Volume(_)
            | ClusterEvent::StorageClass(_)
            | ClusterEvent::CsiNode(_)
            | ClusterEvent::NodeAdded(_)
            | ClusterEvent::NodeUpdated { .. } => QueueingHint::Queue,
            _ => QueueingHint::Skip,
        }
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        if cycle.pod.info.claims.is_empty() {
            return Ok(PreFilter::Skip);
        }
        let claims = claims(cycle.pod, cycle.snapshot)?;
        cycle.state.write(claims);
        Ok(PreFilter::AllNodes)
    }

    fn filter(&self, cycle: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let Some(claims) = cycle.state.get::<Claims>() else {
            return Ok(());
        };
        for name in &claims.bound {
            let volumes = &cycle.snapshot.objects.volumes;
            let Some(volume) = volumes.get(&ObjectKey::cluster(name)) else {
                return Err(Rejected::unresolvable(
                    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                ));
            };
            if !matching::is_reachable(volume, &node.node) {
                return Err(Rejected::unresolvable(
                    "node(s) didn't match PersistentVolume's node affinity",
                ));
            }
        }
        if claims.delayed.is_empty() || self.decide(cycle, node).is_some() {
            return Ok(());
        }
        Err(Rejected::unresolvable(
            "node(s) didn't find available persistent volumes to bind",
        ))
    }

    fn reserve(&self, cycle: &mut Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        let delayed = cycle.state.get::<Claims>().map(|claims| &claims.delayed);
        if delayed.is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let Some(decisions) = self.decide(cycle, node) else {
            return Err(Rejected::unresolvable(
                "node(s) didn't find available persistent volumes to bind",
            ));
        };
        let mut taken = self.taken.lock();
        for (_, volume) in &decisions.bind {
            taken.insert(volume.clone(), cycle.pod.info.uid.clone());
        }
        cycle.state.write(decisions);
        Ok(())
    }

    fn unreserve(&self, binding: &Binding) {
        self.release(&binding.pod.info.uid);
    }

    fn pre_bind<'a>(
        &'a self,
        binding: &'a Binding,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Progress>> {
        Box::pin(async move {
            let Some(decisions) = binding.state.get::<Decisions>() else {
                return Ok(Progress::Ready);
            };
            let mut progress = Progress::Ready;
            for (key, volume) in &decisions.bind {
                if !bind_volume(key, volume, cx).await? {
                    progress = Progress::Wait(WAIT);
                }
            }
            for key in &decisions.make {
                if !make_volume(key, &binding.node, cx).await? {
                    progress = Progress::Wait(WAIT);
                }
            }
            Ok(progress)
        })
    }

    fn post_bind(&self, binding: &Binding) {
        self.release(&binding.pod.info.uid);
    }
}

/// Gives a volume to a claim; whether the claim has it already.
async fn bind_volume(key: &ObjectKey, volume: &str, cx: &Context) -> Result<bool> {
    let Some(claim) = cx.get::<PersistentVolumeClaim>(key) else {
        return Err(sendo::Error::conflict(format!("claim {key} is gone")));
    };
    if is_bound(&claim) {
        return Ok(true);
    }
    let Some(volume) = cx.get::<PersistentVolume>(ObjectKey::cluster(volume)) else {
        return Err(sendo::Error::conflict(format!("volume {volume} is gone")));
    };
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    if reference.is_none() {
        let patch = json!({
            "metadata": {
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
                "resourceVersion": volume.metadata.resource_version,
            },
            "spec": {"claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": key.namespace(),
                "name": key.name(),
                "uid": claim.metadata.uid,
                "resourceVersion": claim.metadata.resource_version,
            }},
        });
        cx.patch(&volume, Patch::Merge(patch)).await?;
    }
    Ok(false)
}

/// Has the volume of a claim made where this node can reach it; whether the claim has it already.
async fn make_volume(key: &ObjectKey, node: &str, cx: &Context) -> Result<bool> {
    let Some(claim) = cx.get::<PersistentVolumeClaim>(key) else {
        return Err(sendo::Error::conflict(format!("claim {key} is gone")));
    };
    if is_bound(&claim) {
        return Ok(true);
    }
    if claim.annotation(SELECTED_NODE) != Some(node) {
        let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
        cx.patch(&claim, Patch::Merge(patch)).await?;
    }
    Ok(false)
}

/// Whether a volume's node affinity selects the node.
fn affinity_selects(
    affinity: Option<&k8s_openapi::api::core::v1::VolumeNodeAffinity>,
    node: &k8s_openapi::api::core::v1::Node,
) -> bool {
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| selects(required, node))
}
