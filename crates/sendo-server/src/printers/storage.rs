//! Table rows of PersistentVolumes, PersistentVolumeClaims and the kinds of `storage.k8s.io`
//! and `storagemigration.k8s.io`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printPersistentVolume`,
//!   `printPersistentVolumeClaim`, `printStorageClass`, `printCSIDriver`, `printCSINode`,
//!   `printVolumeAttachment`, `printVolumeAttributesClass`,
//!   `printStorageVersionMigration`

use serde_json::Value;

use super::{Cells, Printer, joined, or, text_or};
use crate::kinds::value::Read;

pub(super) fn printer(kind: &str) -> Option<Printer> {
    Some(match kind {
        "CSIDriver" => csi_driver,
        "CSINode" => csi_node,
        "PersistentVolume" => persistent_volume,
        "PersistentVolumeClaim" => persistent_volume_claim,
        "StorageClass" => storage_class,
        "StorageVersionMigration" => storage_version_migration,
        "VolumeAttachment" => volume_attachment,
        "VolumeAttributesClass" => volume_attributes_class,
        _ => return None,
    })
}

/// Name, Resource, Status.
fn storage_version_migration(cells: &Cells<'_>) -> Vec<Value> {
    let resource = cells.spec().at("resource");
    let resource = match (resource.text("group"), resource.text("resource")) {
        ("", name) => name.to_owned(),
        (group, name) => format!("{name}.{group}"),
    };
    let conditions = cells.status().items("conditions").iter();
    let holding = conditions.filter(|own| own.text("status") == "True");
    let known = ["Running", "Failed", "Succeeded"];
    let last = holding
        .map(|own| own.text("type"))
        .rfind(|kind| known.contains(kind));
    vec![
        cells.name(),
        resource.into(),
        last.unwrap_or("Unknown").into(),
    ]
}

/// Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age;
/// wide: VolumeMode.
fn persistent_volume(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let claim = match spec.at("claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", claim.text("namespace"), claim.text("name")),
    };
    vec![
        cells.name(),
        text_or(spec.at("capacity"), "storage", "0").into(),
        access_modes(spec).into(),
        spec.text("persistentVolumeReclaimPolicy").into(),
        phase(cells).into(),
        claim.into(),
        storage_class_name(cells).into(),
        text_or(spec, "volumeAttributesClassName", "<unset>").into(),
        status.text("reason").into(),
        cells.age(),
        text_or(spec, "volumeMode", "<unset>").into(),
    ]
}

/// Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age; wide: VolumeMode.
fn persistent_volume_claim(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let volume = spec.text("volumeName");
    let is_bound = !volume.is_empty();
    let capacity = if is_bound {
        text_or(status.at("capacity"), "storage", "0")
    } else {
        ""
    };
    let access_modes = if is_bound {
        access_modes(status)
    } else {
        String::new()
    };
    vec![
        cells.name(),
        phase(cells).into(),
        volume.into(),
        capacity.into(),
        access_modes.into(),
        storage_class_name(cells).into(),
        text_or(spec, "volumeAttributesClassName", "<unset>").into(),
        cells.age(),
        text_or(spec, "volumeMode", "<unset>").into(),
    ]
}

fn phase<'a>(cells: &Cells<'a>) -> &'a str {
    if cells.is_being_deleted() {
        "Terminating"
    } else {
        cells.status().text("phase")
    }
}

fn storage_class_name<'a>(cells: &Cells<'a>) -> &'a str {
    let annotations = cells.metadata().at("annotations");
    let annotated = annotations
        .at("volume.beta.kubernetes.io/storage-class")
        .as_str();
    annotated.unwrap_or(cells.spec().text("storageClassName"))
}

fn access_modes(object: &Value) -> String {
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = object.items("accessModes");
    let short = modes
        .iter()
        .filter(|(mode, _)| given.iter().any(|m| m == mode))
        .map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}

/// Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age.
fn storage_class(cells: &Cells<'_>) -> Vec<Value> {
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let name = cells.metadata().text("name");
    let is_default = marks.iter().any(|mark| cells.annotation(mark) == "true");
    let object = cells.object;
    vec![
        if is_default {
            format!("{name} (default)").into()
        } else {
            name.into()
        },
        object.text("provisioner").into(),
        text_or(object, "reclaimPolicy", "Delete").into(),
        text_or(object, "volumeBindingMode", "Immediate").into(),
        object.is_set("allowVolumeExpansion").into(),
        cells.age(),
    ]
}

/// Name, AttachRequired, PodInfoOnMount, StorageCapacity, TokenRequests, RequiresRepublish, Modes, Age.
fn csi_driver(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let token_requests = if spec.has("tokenRequests") {
        let requests = spec.items("tokenRequests").iter();
        requests
            .map(|request| request.text("audience"))
            .collect::<Vec<_>>()
            .join(",")
    } else {
        "<unset>".to_owned()
    };
    vec![
        cells.name(),
        spec.switch("attachRequired").unwrap_or(true).into(),
        spec.is_set("podInfoOnMount").into(),
        spec.is_set("storageCapacity").into(),
        token_requests.into(),
        spec.is_set("requiresRepublish").into(),
        or(&joined(spec.items("volumeLifecycleModes"), ","), "<none>").into(),
        cells.age(),
    ]
}

/// Name, Drivers, Age.
fn csi_node(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.spec().items("drivers").len().into(),
        cells.age(),
    ]
}

/// Name, Attacher, PV, Node, Attached, Age.
fn volume_attachment(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    vec![
        cells.name(),
        spec.text("attacher").into(),
        spec.at("source").text("persistentVolumeName").into(),
        spec.text("nodeName").into(),
        cells.status().is_set("attached").into(),
        cells.age(),
    ]
}

/// Name, DriverName, Age.
fn volume_attributes_class(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.object.text("driverName").into(),
        cells.age(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::printers::row;

    #[test]
    fn a_claim_shows_capacity_and_modes_once_it_is_bound() {
        let claim = |volume: &str| {
            let object = json!({
                "metadata": {"name": "c"},
                "spec": {"volumeName": volume, "storageClassName": "fast", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"},
                           "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
            });
            Value::from(row(
                "",
                "PersistentVolumeClaim",
                &object,
                "2026-01-01T00:00:00Z".parse().expect("a time"),
            ))
        };
        assert_eq!(
            claim("v"),
            json!([
                "c",
                "Bound",
                "v",
                "1Gi",
                "RWO,RWX",
                "fast",
                "<unset>",
                "<unknown>",
                "Filesystem"
            ])
        );
        assert_eq!(claim("")[3], "");
    }
}
