//! Finds the volume of a claim.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/persistentvolume/pv_controller.go`: `syncUnboundClaim`,
//!   `syncBoundClaim`, `emitEventForUnboundDelayBindingClaim`, `assignDefaultStorageClass`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use sendo::{Context, Error, EventSeverity::*, ObjectExt, ObjectKey, Patch, Result};
use serde_json::json;

use super::matching::{self, class_of_claim};
use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, bind, provision, set_claim_status};
use crate::pods::{Pod, node_of};

/// The annotation with the node for which the scheduler wants the volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a default class.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) async fn sync(claim: &Arc<PersistentVolumeClaim>, cx: &Context) -> Result<()> {
    if claim.annotation(BIND_COMPLETED).is_some() {
        return sync_bound(claim, cx).await;
    }
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    match wanted {
        Some(name) => sync_with_name(claim, name, cx).await,
        None => sync_without_name(claim, cx).await,
    }
}

/// A claim that has been bound: its volume may have been lost.
async fn sync_bound(claim: &PersistentVolumeClaim, cx: &Context) -> Result<()> {
    let name = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let Some(name) = name else {
        let message =
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lose(claim, "ClaimLost", message, cx).await;
    };
    let Some(volume) = cx.get::<PersistentVolume>(ObjectKey::cluster(name)) else {
        let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lose(claim, "ClaimLost", message, cx).await;
    };
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    if reference.is_none_or(|reference| reference.uid == claim.metadata.uid) {
        return bind(&volume, claim, cx).await;
    }
    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
    lose(claim, "ClaimMisbound", message, cx).await
}

async fn lose(
    claim: &PersistentVolumeClaim,
    reason: &str,
    message: &str,
    cx: &Context,
) -> Result<()> {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase != Some("Lost") {
        set_claim_status(claim, "Lost", None, cx).await?;
        cx.event_on(claim, Warning, reason, message);
    }
    Ok(())
}

/// A claim for one volume.
async fn sync_with_name(claim: &PersistentVolumeClaim, name: &str, cx: &Context) -> Result<()> {
    let Some(volume) = cx.get::<PersistentVolume>(ObjectKey::cluster(name)) else {
        return set_claim_status(claim, "Pending", None, cx).await;
    };
    let is_claimed = volume
        .spec
        .as_ref()
        .is_some_and(|spec| spec.claim_ref.is_some());
    if matching::is_bound_to(&volume, claim) {
        return bind(&volume, claim, cx).await;
    }
    if is_claimed {
        let message = format!("volume {name:?} already bound to a different claim.");
        cx.event_on(claim, Warning, "FailedBinding", message.clone());
        if claim.annotation(BOUND_BY_CONTROLLER).is_some() {
            return Err(Error::message(message));
        }
        return set_claim_status(claim, "Pending", None, cx).await;
    }
    match matching::mismatch(&volume, claim) {
        None => bind(&volume, claim, cx).await,
        Some(why) => {
            let message = format!("Cannot bind to requested volume {name:?}: {why}");
            cx.event_on(claim, Warning, "VolumeMismatch", message);
            set_claim_status(claim, "Pending", None, cx).await
        }
    }
}

/// A claim for any volume that fits.
async fn sync_without_name(claim: &Arc<PersistentVolumeClaim>, cx: &Context) -> Result<()> {
    let class_name = class_of_claim(claim);
    let class = cx.get::<StorageClass>(ObjectKey::cluster(class_name));
    let mode = class
        .as_ref()
        .and_then(|class| class.volume_binding_mode.as_deref());
    let delayed = mode == Some("WaitForFirstConsumer");
    let volumes = cx.list::<PersistentVolume>();
    if let Some(volume) = matching::best(volumes.iter(), claim, delayed) {
        return bind(&volume, claim, cx).await;
    }
    if assign_default_class(claim, cx).await? {
        return Ok(());
    }
    if delayed && claim.annotation(SELECTED_NODE).is_none() {
        report_delayed(claim, cx);
    } else if !class_name.is_empty() {
        return provision::provision(claim, class.as_deref(), cx).await;
    } else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        cx.event_on(&**claim, Normal, "FailedBinding", message);
    }
    set_claim_status(claim, "Pending", None, cx).await
}

/// Gives a claim from before there was a default class that class. Returns whether it did.
async fn assign_default_class(claim: &PersistentVolumeClaim, cx: &Context) -> Result<bool> {
    let has_class = claim
        .spec
        .as_ref()
        .is_some_and(|spec| spec.storage_class_name.is_some());
    if has_class || !class_of_claim(claim).is_empty() {
        return Ok(false);
    }
    let defaults = cx.list::<StorageClass>();
    let defaults = defaults.filter(|class| class.annotation(IS_DEFAULT) == Some("true"));
    let created = |class: &Arc<StorageClass>| {
        let created = class.metadata.creation_timestamp.as_ref();
        (
            created.map(|time| time.0),
            std::cmp::Reverse(class.name().to_owned()),
        )
    };
    let Some(class) = defaults.iter().max_by_key(created) else {
        return Ok(false);
    };
    let patch = Patch::Merge(json!({"spec": {"storageClassName": class.name()}}));
    cx.patch(claim, patch).await?;
    Ok(true)
}

/// Says what a claim waits for whose volume depends on the node of its pod.
fn report_delayed(claim: &PersistentVolumeClaim, cx: &Context) {
    let namespace = claim.namespace().unwrap_or_default();
    let uses = |pod: &Pod| {
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        node_of(pod).is_none() && claims.any(|used| used.claim_name == claim.name())
    };
    let pods = cx.list::<Pod>().in_namespace(namespace).filter(uses);
    let names: Vec<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
    let (reason, message) = match &names[..] {
        [] => (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        [one] => (
            "WaitForPodScheduled",
            format!("waiting for pod {one} to be scheduled"),
        ),
        several => (
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", several.join(",")),
        ),
    };
    cx.event_on(claim, Normal, reason, message);
}
