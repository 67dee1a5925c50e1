//! StorageObjectInUseProtection: claims and volumes have a finalizer that keeps them
//! while they are in use.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go`: `Admit`

use sendo_apimachinery::{Meta, MetaMut};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin};

pub(super) const STORAGE_OBJECT_IN_USE_PROTECTION: Plugin = Plugin {
    name: "StorageObjectInUseProtection",
    handles: |attributes| {
        attributes.operation == Operation::Create
            && attributes.call.server.protect_storage
            && finalizer(attributes).is_some()
    },
    mutate: Some(Mutate::Now(|attributes, object| {
        if let Some(finalizer) = finalizer(attributes) {
            protect(object, finalizer);
        }
        Ok(())
    })),
    validate: None,
};

/// What keeps a claim while a pod uses it, or a volume while a claim is bound to it.
fn finalizer(attributes: &Attributes<'_>) -> Option<&'static str> {
    if attributes.is_of("", "persistentvolumeclaims", "") {
        Some("kubernetes.io/pvc-protection")
    } else if attributes.is_of("", "persistentvolumes", "") {
        Some("kubernetes.io/pv-protection")
    } else {
        None
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let own: Vec<String> = Meta::new(object).finalizers().map(str::to_owned).collect();
    if !own.iter().any(|own| own == finalizer) {
        let all: Vec<String> = own.into_iter().chain([finalizer.to_owned()]).collect();
        MetaMut::new(object).set_finalizers(all);
    }
}
