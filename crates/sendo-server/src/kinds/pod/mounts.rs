//! Validation of a pod's volumes, volume mounts and volume devices.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateVolumes`, `ValidateVolumeMounts`,
//!   `ValidateVolumeDevices`, `validateMountPropagation`, `validateMountRecursiveReadOnly`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::sources::{self, VolumeContext};
use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

/// Validates all volumes. Returns the valid ones, which containers may mount.
pub(super) fn volumes<'a>(
    errors: &mut Errors,
    path: &Path,
    volumes: &'a [Value],
    context: &VolumeContext<'_>,
) -> Vec<&'a Value> {
    let created: Vec<String> = volumes
        .iter()
        .filter(|volume| !context.pod.is_empty() && volume.has("ephemeral"))
        .map(|volume| format!("{}-{}", context.pod, volume.text("name")))
        .collect();
    let mut sound: Vec<&Value> = Vec::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = path.index(i);
        let name = volume.text("name");
        let before = errors.len();
        sources::source(errors, &path, volume, context);
        check::required_name(errors, &path.child("name"), name, names::dns1123_label);
        if sound.iter().any(|other| other.text("name") == name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        if errors.len() == before {
            sound.push(volume);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        if created.iter().any(|created| created == claim) {
            let fault = "must not reference a PVC that gets created for an ephemeral volume";
            let path = path.child("persistentVolumeClaim").child("claimName");
            errors.push(Error::invalid(&path, claim, fault));
        }
    }
    sound
}

/// Validates the volume mounts of a container.
pub(super) fn mounts(errors: &mut Errors, path: &Path, container: &Value, volumes: &[&Value]) {
    let devices = container.items("volumeDevices");
    let mut seen: Vec<&str> = Vec::new();
    for (i, mount) in container.items("volumeMounts").iter().enumerate() {
        let item = path.index(i);
        let (name, mount_path) = (mount.text("name"), mount.text("mountPath"));
        check::required(errors, &item.child("name"), name);
        if !volumes.iter().any(|volume| volume.text("name") == name) {
            errors.push(Error::not_found(&item.child("name"), name));
        }
        check::required(errors, &item.child("mountPath"), mount_path);
        if seen.contains(&mount_path) {
            errors.push(Error::invalid(
                &item.child("mountPath"),
                mount_path,
                "must be unique",
            ));
        }
        seen.push(mount_path);
        if devices.iter().any(|device| device.text("name") == name) {
            let fault = "must not already exist in volumeDevices";
            errors.push(Error::invalid(&item.child("name"), name, fault));
        }
        if devices
            .iter()
            .any(|device| device.text("devicePath") == mount_path)
        {
            let fault = "must not already exist as a path in volumeDevices";
            errors.push(Error::invalid(&item.child("mountPath"), mount_path, fault));
        }
        parts_of_volume(errors, path, &item, mount);
        propagation(errors, &path.child("mountPropagation"), mount, container);
        recursive_read_only(errors, &path.child("recursiveReadOnly"), mount);
    }
}

/// Validates `subPath` and `subPathExpr`. Kubernetes reports faults of the path at the list, not at
/// its item.
fn parts_of_volume(errors: &mut Errors, list: &Path, item: &Path, mount: &Value) {
    let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    if !sub_path.is_empty() {
        check::descending_path(errors, &list.child("subPath"), sub_path);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let fault = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(
                &item.child("subPathExpr"),
                expression,
                fault,
            ));
        }
        check::descending_path(errors, &list.child("subPathExpr"), expression);
    }
}

fn propagation(errors: &mut Errors, path: &Path, mount: &Value, container: &Value) {
    let Some(mode) = mount.at("mountPropagation").as_str() else {
        return;
    };
    check::one_of(
        errors,
        path,
        mode,
        &["Bidirectional", "HostToContainer", "None"],
    );
    if mode == "Bidirectional" && !container.at("securityContext").is_set("privileged") {
        let fault = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(Error::forbidden(path, fault));
    }
}

fn recursive_read_only(errors: &mut Errors, path: &Path, mount: &Value) {
    match mount.at("recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.is_set("readOnly") {
                errors.push(Error::forbidden(
                    path,
                    "may only be specified when readOnly is true",
                ));
            }
            if mount
                .at("mountPropagation")
                .as_str()
                .is_some_and(|mode| mode != "None")
            {
                let fault = "may only be specified when mountPropagation is None or not specified";
                errors.push(Error::forbidden(path, fault));
            }
        }
        Some(other) => check::one_of(errors, path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Validates the volume devices of a container.
pub(super) fn devices(errors: &mut Errors, path: &Path, container: &Value, volumes: &[&Value]) {
    let mounts = container.items("volumeMounts");
    let (mut names, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (i, device) in container.items("volumeDevices").iter().enumerate() {
        let item = path.index(i);
        let (name_path, path_path) = (item.child("name"), item.child("devicePath"));
        let (name, device_path) = (device.text("name"), device.text("devicePath"));
        let volume = volumes.iter().find(|volume| volume.text("name") == name);
        check::required(errors, &name_path, name);
        if names.contains(&name) {
            errors.push(Error::invalid(&name_path, name, "must be unique"));
        }
        match volume {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let fault = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(Error::invalid(&name_path, name, fault));
            }
            Some(_) => {}
            None => errors.push(Error::not_found(&name_path, name)),
        }
        check::required(errors, &path_path, device_path);
        if paths.contains(&device_path) {
            errors.push(Error::invalid(&path_path, device_path, "must be unique"));
        }
        if device_path.split('/').any(|part| part == "..") {
            errors.push(Error::invalid(
                &path_path,
                device_path,
                "can not contain backsteps ('..')",
            ));
        } else {
            paths.push(device_path);
        }
        if mounts.iter().any(|mount| mount.text("name") == name) {
            errors.push(Error::invalid(
                &name_path,
                name,
                "must not already exist in volumeMounts",
            ));
        }
        if mounts
            .iter()
            .any(|mount| mount.text("mountPath") == device_path)
        {
            let fault = "must not already exist as a path in volumeMounts";
            errors.push(Error::invalid(&path_path, device_path, fault));
        }
        if !name.is_empty() {
            names.push(name);
        }
    }
}
