//! Validation of the source of a PersistentVolume.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePersistentVolumeSpec`,
//!   `validateCSIPersistentVolumeSource`, `validateLocalVolumeSource`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::pod::sources::{driver_name, host_path};
use crate::kinds::pod::storage_systems::{self, Holder};
use crate::kinds::value::Read;

/// The sources of a PersistentVolume, in the order Kubernetes validates them.
pub(super) const ALL: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Validates that there is exactly one source, and that it is valid.
pub(super) fn validate(errors: &mut Errors, path: &Path, spec: &Value, name: &str) {
    let mut found = ALL.into_iter().filter(|key| spec.has(key));
    match found.next() {
        Some(key) => {
            source(errors, path, key, spec.at(key), name);
            if key == "local" && !spec.has("nodeAffinity") {
                let why = "Local volume requires node affinity";
                errors.push(Error::required(&path.child("nodeAffinity"), why));
            }
        }
        None => errors.push(Error::required(path, "must specify a volume type")),
    }
    for key in found {
        match key {
            // Kubernetes validates `flexVolume` even if there is another source.
            "flexVolume" => source(errors, path, key, spec.at(key), name),
            key => {
                let shown = if key == "cephfs" { "cephFS" } else { key };
                let fault = "may not specify more than 1 volume type";
                errors.push(Error::forbidden(&path.child(shown), fault));
            }
        }
    }
}

fn source(errors: &mut Errors, path: &Path, key: &str, source: &Value, name: &str) {
    let shown = if key == "gcePersistentDisk" {
        "persistentDisk"
    } else {
        key
    };
    let path = &path.child(shown);
    match key {
        "hostPath" => host_path(errors, path, source),
        "local" => match source.text("path") {
            "" => errors.push(Error::required(&path.child("path"), "")),
            local => check::no_backsteps(errors, &path.child("path"), local),
        },
        "csi" => csi(errors, path, source),
        _ => storage_systems::validate(errors, path, key, source, Holder::Volume(name)),
    }
}

fn csi(errors: &mut Errors, path: &Path, source: &Value) {
    driver_name(errors, &path.child("driver"), source.text("driver"));
    let handle = source.text("volumeHandle");
    check::required(errors, &path.child("volumeHandle"), handle);
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let (path, secret) = (path.child(key), source.at(key));
        if secret.is_null() {
            continue;
        }
        let (name, namespace) = (secret.text("name"), secret.text("namespace"));
        check::required_name(errors, &path.child("name"), name, names::dns1123_subdomain);
        let path = path.child("namespace");
        check::required_name(errors, &path, namespace, names::dns1123_label);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{faults, volume};
    use crate::kinds::value::Write;

    #[test]
    fn a_local_volume_is_bound_to_nodes() {
        let local = volume(|spec| {
            spec.remove("hostPath");
            spec.set("local", json!({"path": "/disk"}));
        });
        assert_eq!(
            faults(&local),
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"]
        );
        let two = volume(|spec| {
            spec.remove("hostPath");
            spec.set("local", json!({"path": "/disk"}));
            spec.set("csi", json!({"driver": "d", "volumeHandle": "h"}));
        });
        assert_eq!(
            faults(&two),
            [
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
                "spec.csi: Forbidden: may not specify more than 1 volume type",
            ]
        );
    }
}
