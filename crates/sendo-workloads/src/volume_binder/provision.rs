//! Makes volumes for claims of this cluster's own storage class, and deletes volumes.
//!
//! Nothing is stored: a provisioned volume is a directory on whatever node its pod runs on, which
//! the simulated containers never look at. Classes of other provisioners wait for those.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/persistentvolume/pv_controller.go`: `provisionClaim`,
//!   `provisionClaimOperation`, `provisionClaimOperationExternal`, `deleteVolumeOperation`
//! - `pkg/volume/hostpath/host_path.go`: `hostPathDeleter`, `hostPathProvisioner`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::{Context, Error, EventSeverity::*, ObjectExt, ObjectKey, Patch, Result};
use serde_json::json;

use super::matching::{self, class_of_claim};
use super::{BOUND_BY_CONTROLLER, set_claim_status, set_volume_phase};

/// The provisioner of volumes that are directories of the nodes.
pub const PROVISIONER: &str = "sendo.dev/hostpath";

/// The annotation of a volume with its provisioner.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotations of a claim with the provisioner that it waits for: today's, and the one before.
const STORAGE_PROVISIONER: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// The class of a new cluster: claims that name no other class are simply bound.
pub fn default_class() -> StorageClass {
    StorageClass {
        metadata: ObjectMeta {
            name: Some("standard".to_owned()),
            annotations: Some(
                [("storageclass.kubernetes.io/is-default-class", "true")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("Immediate".to_owned()),
        ..StorageClass::default()
    }
}

/// Whether the volume was made for a claim.
pub(super) fn is_provisioned(volume: &PersistentVolume) -> bool {
    volume.annotation(PROVISIONED_BY).is_some()
}

/// Whether the volume is deleted when its claim is gone.
pub(super) fn is_deleted_after_use(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy == Some("Delete")
}

/// Makes a volume for a claim that no volume fits, or says who has to.
pub(super) async fn provision(
    claim: &Arc<PersistentVolumeClaim>,
    class: Option<&StorageClass>,
    cx: &Context,
) -> Result<()> {
    let Some(class) = class else {
        let name = class_of_claim(claim);
        let message = format!("storageclass.storage.k8s.io {name:?} not found");
        cx.event_on(&**claim, Warning, "ProvisioningFailed", message);
        return set_claim_status(claim, "Pending", None, cx).await;
    };
    let provisioner = class.provisioner.as_str();
    if provisioner != PROVISIONER {
        if provisioner.starts_with("kubernetes.io/") {
            let message = format!("no volume plugin matched name: {provisioner}");
            cx.event_on(&**claim, Warning, "ProvisioningFailed", message);
        } else {
            await_other(claim, provisioner, cx).await?;
        }
        return set_claim_status(claim, "Pending", None, cx).await;
    }
    let volume = volume_for(claim, class);
    match cx.create(&volume).await {
        Ok(_) => {
            let message = format!(
                "Successfully provisioned volume {} using {PROVISIONER}",
                volume.name()
            );
            cx.event_on(&**claim, Normal, "ProvisioningSucceeded", message);
            Ok(())
        }
        // An earlier sync made it.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => {
            let message = format!("Error saving volume: {error}");
            cx.event_on(&**claim, Warning, "ProvisioningFailed", message);
            Err(error.into())
        }
    }
}

/// Tells another provisioner that the claim waits for it.
async fn await_other(claim: &PersistentVolumeClaim, provisioner: &str, cx: &Context) -> Result<()> {
    let known = STORAGE_PROVISIONER.map(|annotation| claim.annotation(annotation));
    if known == [Some(provisioner); 2] {
        return Ok(());
    }
    let annotations = STORAGE_PROVISIONER.map(|name| (name.to_owned(), json!(provisioner)));
    let annotations: serde_json::Map<_, _> = annotations.into_iter().collect();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    cx.patch(claim, patch).await?;
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    cx.event_on(claim, Normal, "ExternalProvisioning", message);
    Ok(())
}

/// A volume that is bound to the claim from the start.
fn volume_for(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    let name = format!("pvc-{}", claim.uid());
    let spec = claim.spec.clone().unwrap_or_default();
    let requests = spec.resources.and_then(|resources| resources.requests);
    let annotations = [(BOUND_BY_CONTROLLER, "yes"), (PROVISIONED_BY, PROVISIONER)];
    let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned()));
    PersistentVolume {
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: requests,
            claim_ref: Some(matching::reference_to(claim)),
            host_path: Some(HostPathVolumeSource {
                path: format!("/var/lib/sendo/volumes/{name}"),
                type_: Some("DirectoryOrCreate".to_owned()),
            }),
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: Some(class.name().to_owned()),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        metadata: ObjectMeta {
            name: Some(name),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        },
        status: None,
    }
}

/// Deletes a volume whose claim is gone, if it is one that this controller can delete.
pub(super) async fn delete(volume: &Arc<PersistentVolume>, cx: &Context) -> Result<()> {
    let provisioner = volume.annotation(PROVISIONED_BY);
    let spec = volume.spec.clone().unwrap_or_default();
    let is_ours = provisioner == Some(PROVISIONER);
    if !is_ours && provisioner.is_some_and(|name| !name.starts_with("kubernetes.io/")) {
        // Whoever made it deletes it.
        return Ok(());
    }
    let problem = match &spec.host_path {
        _ if is_ours => None,
        Some(host_path) if host_path.path.starts_with("/tmp/") => None,
        Some(host_path) => Some(format!(
            "host_path deleter only supports /tmp/.+ but received provided {}",
            host_path.path
        )),
        None => {
            let name = volume.name();
            Some(format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
            ))
        }
    };
    if let Some(problem) = problem {
        if set_volume_phase(volume, "Failed", Some(problem.clone()), cx).await? {
            cx.event_on(&**volume, Warning, "VolumeFailedDelete", problem);
        }
        return Ok(());
    }
    // The cache may be behind: somebody else may have deleted or replaced it.
    let live = cx
        .live()
        .get::<PersistentVolume>(ObjectKey::cluster(volume.name()))
        .await?;
    let unchanged = live.is_some_and(|live| live.uid() == volume.uid() && !live.is_being_deleted());
    if !unchanged {
        return Ok(());
    }
    match cx.delete(&**volume).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(Error::from(error)),
        Ok(_) => Ok(()),
    }
}
