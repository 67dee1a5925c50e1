//! Looks at what has become of a volume's claim, and reclaims the volume when that is gone.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/persistentvolume/pv_controller.go`: `syncVolume`, `reclaimVolume`,
//!   `unbindVolume`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use sendo::{Context, EventSeverity::*, ObjectExt, ObjectKey, Result};
use serde_json::json;

use super::{BOUND_BY_CONTROLLER, claim, matching, provision, set_volume_phase, unchanged_since};

pub(super) async fn sync(volume: &Arc<PersistentVolume>, cx: &Context) -> Result<()> {
    let spec = volume.spec.as_ref();
    let reference = spec.and_then(|spec| spec.claim_ref.as_ref());
    let Some(reference) =
        reference.filter(|known| known.uid.as_deref().is_some_and(|uid| !uid.is_empty()))
    else {
        // Nobody's, or meant for a claim that does not exist yet.
        set_volume_phase(volume, "Available", None, cx).await?;
        return Ok(());
    };
    let Some(claim) = claim_of(volume, reference, cx).await? else {
        return release(volume, cx).await;
    };
    let bound_to = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    match bound_to {
        Some(name) if name == volume.name() => {
            set_volume_phase(volume, "Bound", None, cx).await?;
            Ok(())
        }
        None => {
            if !matching::has_same_mode(volume, &claim) {
                let (volume_name, claim_name) = (volume.name(), claim.name());
                let message = format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim_name:?} due to incompatible volumeMode."
                );
                cx.event_on(&**volume, Warning, "VolumeMismatch", message);
                let message = format!(
                    "Cannot bind PersistentVolume {volume_name:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
                );
                cx.event_on(&*claim, Warning, "VolumeMismatch", message);
            }
            claim::sync(&claim, cx).await
        }
        // The claim has another volume.
        Some(_) if provision::is_provisioned(volume) && provision::is_deleted_after_use(volume) => {
            release(volume, cx).await
        }
        Some(_) => unbind(volume, cx).await,
    }
}

/// The claim that a volume is bound to, if it still exists.
async fn claim_of(
    volume: &PersistentVolume,
    reference: &ObjectReference,
    cx: &Context,
) -> Result<Option<Arc<PersistentVolumeClaim>>> {
    let is_it = |claim: &PersistentVolumeClaim| claim.metadata.uid == reference.uid;
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    let key = ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default());
    if let Some(claim) = cx.get::<PersistentVolumeClaim>(&key)
        && is_it(&claim)
    {
        return Ok(Some(claim));
    }
    if is_released(volume) {
        return Ok(None);
    }
    // The cache may not have it yet.
    let live = cx.live().get::<PersistentVolumeClaim>(key).await?;
    Ok(live.filter(is_it).map(Arc::new))
}

fn is_released(volume: &PersistentVolume) -> bool {
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Released" | "Failed"))
}

/// The claim is gone: does what the reclaim policy says.
async fn release(volume: &Arc<PersistentVolume>, cx: &Context) -> Result<()> {
    if !is_released(volume) {
        set_volume_phase(volume, "Released", None, cx).await?;
    }
    match provision::is_deleted_after_use(volume) {
        true => provision::delete(volume, cx).await,
        false => Ok(()),
    }
}

/// Takes back a binding that this controller made; one that a user made keeps the claim's name.
async fn unbind(volume: &PersistentVolume, cx: &Context) -> Result<()> {
    let by_controller = volume.annotation(BOUND_BY_CONTROLLER).is_some();
    let patch = match by_controller {
        true => json!({
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}},
            "spec": {"claimRef": null},
        }),
        false => json!({"metadata": {}, "spec": {"claimRef": {"uid": null}}}),
    };
    let unbound = cx.patch(volume, unchanged_since(volume, patch)).await?;
    set_volume_phase(&unbound, "Available", None, cx).await?;
    Ok(())
}
