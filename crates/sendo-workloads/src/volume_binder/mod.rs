//! Binds claims to volumes, provisions volumes for claims, and reclaims those of deleted claims.
//!
//! A claim and its volume name each other: first the volume, which then is nobody else's, then
//! the claim. `claim` looks for the volume of a claim, `volume` at what has become of a volume's
//! claim, `matching` says which volumes fit, `provision` makes and deletes volumes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/persistentvolume/pv_controller.go`: `syncClaim`, `syncVolume`, `bind`,
//!   `updateClaimStatus`, `updateVolumePhase`
//! - `pkg/controller/volume/persistentvolume/pv_controller_base.go`: `claimWorker`, `volumeWorker`

mod claim;
mod matching;
mod provision;
mod volume;

use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Patch, Reader, Result};
use serde_json::{Value, json};

use self::matching::class_of_claim;
use crate::pods::Pod;

pub use self::provision::{PROVISIONER, default_class};

/// The annotation of claims that have been bound: their volume is theirs.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of claims and volumes that this controller brought together, and no user.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Claim(ObjectKey),
    Volume(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Claim(key) => write!(f, "claim {key}"),
            Key::Volume(key) => write!(f, "volume {key}"),
        }
    }
}

/// The controller of volumes and claims.
pub fn controller() -> Controller {
    Controller::keyed::<Key>("persistentvolume-binder-controller")
        .events_as("persistentvolume-controller")
        .watches(kind::<PersistentVolumeClaim>(), map_object(keys_of_claim))
        .watches(kind::<PersistentVolume>(), map_object(keys_of_volume))
        .watches(kind::<StorageClass>(), map_object(keys_of_class))
        .reads::<Pod>()
        .reconcile(sync)
}

/// The claim, and the volume that it is bound to.
fn keys_of_claim(claim: &PersistentVolumeClaim, cx: &Reader) -> Vec<Key> {
    let key = claim.key();
    let volumes = cx.list::<PersistentVolume>().filter(|volume| {
        let reference = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        reference.is_some_and(|reference| matching::names(reference, claim))
    });
    let volumes = volumes.keys().into_iter().map(Key::Volume);
    [Key::Claim(key)].into_iter().chain(volumes).collect()
}

/// The volume, the claim that it is bound to, and claims that it might be bound to.
fn keys_of_volume(volume: &PersistentVolume, cx: &Reader) -> Vec<Key> {
    let mut keys = vec![Key::Volume(volume.key())];
    let bound_to = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    if let Some(reference) = bound_to {
        let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
        let key = ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default());
        keys.push(Key::Claim(key));
    }
    let name = volume.name();
    let waiting = cx.list::<PersistentVolumeClaim>().filter(move |claim| {
        let wanted = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.as_deref());
        match wanted {
            Some(wanted) => wanted == name,
            None => {
                bound_to.is_none() && class_of_claim(claim) == matching::class_of_volume(volume)
            }
        }
    });
    keys.extend(waiting.keys().into_iter().map(Key::Claim));
    keys
}

/// The claims of a class without a volume, and those without a class.
fn keys_of_class(class: &StorageClass, cx: &Reader) -> Vec<Key> {
    let waiting = cx.list::<PersistentVolumeClaim>().filter(|claim| {
        let spec = claim.spec.clone().unwrap_or_default();
        let is_of_class = spec
            .storage_class_name
            .is_none_or(|name| name == class.name());
        spec.volume_name.is_none() && is_of_class
    });
    waiting.keys().into_iter().map(Key::Claim).collect()
}

async fn sync(key: Key, cx: Context) -> Result<Action> {
    match key {
        Key::Claim(key) => {
            if let Some(claim) = cx.get::<PersistentVolumeClaim>(key) {
                claim::sync(&claim, &cx).await?;
            }
        }
        Key::Volume(key) => {
            if let Some(volume) = cx.get::<PersistentVolume>(key) {
                volume::sync(&volume, &cx).await?;
            }
        }
    }
    Ok(Action::done())
}

/// Brings a volume and a claim together; what is done already stays as it is.
async fn bind(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    cx: &Context,
) -> Result<()> {
    let volume = bind_volume(volume, claim, cx).await?;
    set_volume_phase(&volume, "Bound", None, cx).await?;
    let claim = bind_claim(claim, &volume, cx).await?;
    set_claim_status(&claim, "Bound", Some(&volume), cx).await
}

async fn bind_volume(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    cx: &Context,
) -> Result<PersistentVolume> {
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    if reference.is_some_and(|known| known.uid == claim.metadata.uid) {
        return Ok(volume.clone());
    }
    let mut annotations = json!({});
    if reference.is_none() {
        annotations[BOUND_BY_CONTROLLER] = json!("yes");
    }
    let patch = json!({
        "metadata": {"annotations": annotations},
        "spec": {"claimRef": matching::reference_to(claim)},
    });
    Ok(cx.patch(volume, unchanged_since(volume, patch)).await?)
}

async fn bind_claim(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    cx: &Context,
) -> Result<PersistentVolumeClaim> {
    let bound_to = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let mut annotations = json!({});
    let mut spec = json!({});
    if bound_to != Some(volume.name()) {
        spec["volumeName"] = json!(volume.name());
        annotations[BOUND_BY_CONTROLLER] = json!("yes");
    }
    if claim.annotation(BIND_COMPLETED).is_none() {
        annotations[BIND_COMPLETED] = json!("yes");
    }
    if annotations == json!({}) {
        return Ok(claim.clone());
    }
    let patch = json!({"metadata": {"annotations": annotations}, "spec": spec});
    Ok(cx.patch(claim, unchanged_since(claim, patch)).await?)
}

/// A merge patch that is refused if the object has changed.
fn unchanged_since<K: ObjectExt>(object: &K, mut patch: Value) -> Patch {
    patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
    Patch::Merge(patch)
}

/// Writes the phase of a volume if it changed. Returns whether it did.
async fn set_volume_phase(
    volume: &PersistentVolume,
    phase: &str,
    message: Option<String>,
    cx: &Context,
) -> Result<bool> {
    let now = cx.now();
    let written = cx.client().status(volume, |status| {
        if status.phase.as_deref() != Some(phase) {
            let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
            status.last_phase_transition_time = Some(time);
            status.phase = Some(phase.to_owned());
            status.message = message;
        }
    });
    Ok(written.await?.is_some())
}

/// Writes the phase of a claim, and what it got, if they changed.
async fn set_claim_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
    cx: &Context,
) -> Result<()> {
    let was_bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    cx.client()
        .status(claim, |status| {
            status.phase = Some(phase.to_owned());
            let spec = volume.and_then(|volume| volume.spec.as_ref());
            status.access_modes = spec.and_then(|spec| spec.access_modes.clone());
            // A volume that grows later is reported by what resizes it.
            let known = status
                .capacity
                .take()
                .filter(|_| was_bound && volume.is_some());
            status.capacity = known.or_else(|| spec.and_then(|spec| spec.capacity.clone()));
        })
        .await?;
    Ok(())
}
