//! PersistentVolumeClaimResize: a claim grows once it is bound, if its class allows that.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/storage/persistentvolume/resize/admission.go`: `Validate`

use sendo_apimachinery::Status;
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::resources;
use crate::kinds::value::Read;

pub(super) const PERSISTENT_VOLUME_CLAIM_RESIZE: Plugin = Plugin {
    name: "PersistentVolumeClaimResize",
    handles: |attributes| {
        attributes.operation == Operation::Update
            && attributes.is_of("", "persistentvolumeclaims", "")
    },
    mutate: None,
    validate: Some(|attributes, claim, _| Box::pin(validate(attributes, claim))),
};

async fn validate(attributes: &Attributes<'_>, new: &Value) -> Result<(), Status> {
    let Some(old) = attributes.old else {
        return Ok(());
    };
    let size = |claim: &Value| {
        let requests = claim.at("spec").at("resources").at("requests");
        resources::amount(requests.at("storage"))
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    if old.at("status").text("phase") != "Bound" {
        let why = "Only bound persistent volume claims can be expanded";
        return Err(attributes.forbid(new, why));
    }
    let class = class_of(new);
    if !class.is_empty() && class == class_of(old) {
        let keys = Keys::new("storage.k8s.io", "storageclasses", false);
        let found = lookup::get(attributes.call, &keys, None, class).await?;
        if found.is_some_and(|class| class.is_set("allowVolumeExpansion")) {
            return Ok(());
        }
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    Err(attributes.forbid(new, why))
}

/// The class of a claim; an annotation of old times goes first.
fn class_of(claim: &Value) -> &str {
    let annotations = claim.at("metadata").at("annotations");
    match annotations.get("volume.beta.kubernetes.io/storage-class") {
        Some(class) => class.as_str().unwrap_or_default(),
        None => claim.at("spec").text("storageClassName"),
    }
}
