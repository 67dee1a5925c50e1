//! Defaults of volumes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Volume`, `SetDefaults_SecretVolumeSource`,
//!   `SetDefaults_ConfigMapVolumeSource`, `SetDefaults_DownwardAPIVolumeSource`,
//!   `SetDefaults_ProjectedVolumeSource`, `SetDefaults_ServiceAccountTokenProjection`,
//!   `SetDefaults_HostPathVolumeSource`, `SetDefaults_ObjectFieldSelector`
//! - `staging/src/k8s.io/api/core/v1/types.go`: `AzureDiskVolumeSource`, `ISCSIVolumeSource`,
//!   `RBDVolumeSource`, `ScaleIOVolumeSource`

use serde_json::{Value, json};

use super::image;
use crate::kinds::resources;
use crate::kinds::value::{Read, Write};

/// The default mode of projected files: `rw-r--r--`.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of a volume. A volume without a source is an `emptyDir`.
pub(super) fn default(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|members| {
        members
            .iter()
            .any(|(key, value)| key != "name" && !value.is_null())
    });
    if !has_source {
        volume.set("emptyDir", json!({}));
    }
    if let Some(source) = volume.existing("image") {
        let policy = image::pull_policy(source.text("reference"));
        source.default_if_zero("pullPolicy", policy);
    }
    if let Some(source) = volume.existing("hostPath") {
        source.default_to("type", "");
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.existing(key) {
            source.default_to("defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = volume.existing("downwardAPI") {
        field_references(source);
    }
    if let Some(source) = volume.existing("projected") {
        for projection in source.items_mut("sources") {
            if let Some(downward) = projection.existing("downwardAPI") {
                field_references(downward);
            }
            if let Some(token) = projection.existing("serviceAccountToken") {
                token.default_to("expirationSeconds", 3600);
            }
        }
    }
    if let Some(template) = volume
        .existing("ephemeral")
        .and_then(|e| e.existing("volumeClaimTemplate"))
    {
        let spec = template.object("spec");
        spec.default_to("volumeMode", "Filesystem");
        if let Some(resources) = spec.existing("resources") {
            resources::round_up_requirements(resources);
        }
    }
    network_storage(volume);
}

/// Sets the defaults of the sources that pods and persistent volumes share.
pub(crate) fn network_storage(source: &mut Value) {
    if let Some(iscsi) = source.existing("iscsi") {
        iscsi.default_if_zero("iscsiInterface", "default");
    }
    if let Some(rbd) = source.existing("rbd") {
        rbd.default_if_zero("pool", "rbd");
        rbd.default_if_zero("user", "admin");
        rbd.default_if_zero("keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = source.existing("azureDisk") {
        disk.default_to("cachingMode", "ReadWrite");
        disk.default_to("fsType", "ext4");
        disk.default_to("readOnly", false);
        disk.default_to("kind", "Shared");
    }
    if let Some(scale_io) = source.existing("scaleIO") {
        scale_io.default_if_zero("storageMode", "ThinProvisioned");
        scale_io.default_if_zero("fsType", "xfs");
    }
}

fn field_references(downward: &mut Value) {
    for item in downward.items_mut("items") {
        if let Some(field) = item.existing("fieldRef") {
            field.default_if_zero("apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_get_their_modes_and_a_source() {
        let cases = [
            (json!({"name": "v"}), json!({"name": "v", "emptyDir": {}})),
            (
                json!({"name": "v", "secret": {"secretName": "s"}}),
                json!({"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}),
            ),
            (
                json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
                json!({"name": "v", "projected": {"defaultMode": 420,
                       "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}),
            ),
            (
                json!({"name": "v", "downwardAPI": {"items": [{"fieldRef": {"fieldPath": "x"}}]}}),
                json!({"name": "v", "downwardAPI": {"defaultMode": 420,
                       "items": [{"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}]}}),
            ),
            (
                json!({"name": "v", "hostPath": {"path": "/"}}),
                json!({"name": "v", "hostPath": {"path": "/", "type": ""}}),
            ),
        ];
        for (mut volume, expected) in cases {
            default(&mut volume);
            assert_eq!(volume, expected);
        }
    }
}
