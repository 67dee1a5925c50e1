//! Validation of the volume sources of pods.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateVolumeSource`,
//!   `validateHostPathVolumeSource`, `validateProjectedVolumeSource`,
//!   `validateDownwardAPIVolumeFile`, `ValidateCSIDriverName`, `validateEphemeralVolumeSource`,
//!   `ValidateTemplateObjectMeta`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::env::{self, InFile};
use super::storage_systems::{self, Holder};
use crate::kinds::check::{self, Errors};
use crate::kinds::storage::claim;
use crate::kinds::value::{Read, is_zero};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The values of `hostPath.type`.
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The sources of a volume in the order Kubernetes validates them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// What the validation of a volume depends on besides the volume.
pub(super) struct VolumeContext<'a> {
    /// The name of the pod, empty for a template.
    pub(super) pod: &'a str,
    /// Whether it is a pod and not a template.
    pub(super) is_pod: bool,
}

/// Validates the source of a volume: there must be exactly one.
pub(super) fn source(
    errors: &mut Errors,
    path: &Path,
    volume: &Value,
    context: &VolumeContext<'_>,
) {
    let mut first = true;
    let present = volume.present();
    for key in SOURCES.into_iter().filter(|key| present.contains(key)) {
        if first {
            one_source(errors, path, key, volume, context);
        } else {
            // The paths of these two fields are spelled as in Kubernetes.
            let shown = match key {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                key => key,
            };
            errors.push(Error::forbidden(
                &path.child(shown),
                "may not specify more than 1 volume type",
            ));
        }
        if key == "iscsi" {
            long_iscsi_name(errors, path, volume);
        }
        first = false;
    }
    if first {
        errors.push(Error::required(path, "must specify a volume type"));
    }
}

fn one_source(
    errors: &mut Errors,
    path: &Path,
    key: &str,
    volume: &Value,
    context: &VolumeContext<'_>,
) {
    let source = volume.at(key);
    let at = &path.child(if key == "gcePersistentDisk" {
        "persistentDisk"
    } else {
        key
    });
    match key {
        "emptyDir" => {
            if source.text("sizeLimit").starts_with('-') {
                let fault = "SizeLimit field must be a valid resource quantity";
                errors.push(Error::forbidden(&at.child("sizeLimit"), fault));
            }
        }
        "hostPath" => host_path(errors, at, source),
        "gitRepo" => {
            check::required(errors, &at.child("repository"), source.text("repository"));
            check::descending_path(errors, &at.child("directory"), source.text("directory"));
        }
        "secret" => files(errors, at, source, "secretName"),
        "configMap" => files(errors, at, source, "name"),
        "downwardAPI" => {
            mode(
                errors,
                &at.child("defaultMode"),
                source.number("defaultMode"),
            );
            for file in source.items("items") {
                downward_file(errors, at, file);
            }
        }
        "projected" => projected(errors, at, source),
        "persistentVolumeClaim" => {
            check::required(errors, &at.child("claimName"), source.text("claimName"))
        }
        "csi" => csi(errors, at, source),
        "ephemeral" => ephemeral(errors, path, volume, context),
        "image" => {
            if context.is_pod {
                check::required(errors, &at.child("reference"), source.text("reference"));
            }
            super::containers::pull_policy(
                errors,
                &at.child("pullPolicy"),
                source.text("pullPolicy"),
            );
        }
        _ => storage_systems::validate(errors, at, key, source, Holder::Pod),
    }
}

pub(crate) fn host_path(errors: &mut Errors, path: &Path, source: &Value) {
    if source.text("path").is_empty() {
        errors.push(Error::required(&path.child("path"), ""));
        return;
    }
    check::no_backsteps(errors, &path.child("path"), source.text("path"));
    check::optional_one_of(
        errors,
        &path.child("type"),
        source.at("type"),
        &HOST_PATH_TYPES,
    );
}

fn long_iscsi_name(errors: &mut Errors, path: &Path, volume: &Value) {
    let (name, iscsi) = (volume.text("name"), volume.at("iscsi"));
    if iscsi.has("initiatorName") && name.len() + 1 + iscsi.text("targetPortal").len() > 64 {
        errors.push(Error::invalid(
            &path.child("name"),
            name,
            storage_systems::LONG_ISCSI_NAME,
        ));
    }
}

fn mode(errors: &mut Errors, path: &Path, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(path, mode, MODE));
    }
}

/// Validates a Secret or ConfigMap as a volume or projection.
fn files(errors: &mut Errors, path: &Path, source: &Value, name: &str) {
    check::required(errors, &path.child(name), source.text(name));
    mode(
        errors,
        &path.child("defaultMode"),
        source.number("defaultMode"),
    );
    for (i, item) in source.items("items").iter().enumerate() {
        key_to_path(errors, &path.child("items").index(i), item);
    }
}

fn key_to_path(errors: &mut Errors, path: &Path, item: &Value) {
    check::required(errors, &path.child("key"), item.text("key"));
    check::required(errors, &path.child("path"), item.text("path"));
    check::unreserved_path(errors, &path.child("path"), item.text("path"));
    mode(errors, &path.child("mode"), item.number("mode"));
}

fn downward_file(errors: &mut Errors, path: &Path, file: &Value) {
    check::required(errors, &path.child("path"), file.text("path"));
    check::unreserved_path(errors, &path.child("path"), file.text("path"));
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, has_resource) => {
            let reference = file.at("fieldRef");
            env::field_reference(
                errors,
                &path.child("fieldRef"),
                reference,
                &env::FILE_FIELDS,
            );
            if has_resource {
                let fault = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(path, "resource", fault));
            }
        }
        (false, true) => {
            let reference = file.at("resourceFieldRef");
            env::resource_reference(
                errors,
                &path.child("resourceFieldRef"),
                reference,
                InFile::Yes,
            );
        }
        (false, false) => {
            errors.push(Error::required(
                path,
                "one of fieldRef and resourceFieldRef is required",
            ));
        }
    }
    mode(errors, &path.child("mode"), file.number("mode"));
}

fn projected(errors: &mut Errors, path: &Path, volume: &Value) {
    mode(
        errors,
        &path.child("defaultMode"),
        volume.number("defaultMode"),
    );
    let mut paths: Vec<&str> = Vec::new();
    for (i, source) in volume.items("sources").iter().enumerate() {
        let at = path.child("sources").index(i);
        for key in ["secret", "configMap"] {
            let Some(files) = source.get(key).filter(|files| !files.is_null()) else {
                continue;
            };
            let at = at.child(key);
            check::required(errors, &at.child("name"), files.text("name"));
            for (i, item) in files.items("items").iter().enumerate() {
                key_to_path(errors, &at.child("items").index(i), item);
                unique_path(
                    errors,
                    path,
                    &mut paths,
                    item.text("path"),
                    files.text("name"),
                );
            }
        }
        for file in source.at("downwardAPI").items("items") {
            downward_file(errors, &at.child("downwardAPI"), file);
            unique_path(
                errors,
                path,
                &mut paths,
                file.text("path"),
                file.text("path"),
            );
        }
        if source.has("serviceAccountToken") {
            token(
                errors,
                path,
                &at.child("serviceAccountToken"),
                source.at("serviceAccountToken"),
            );
        }
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        if kinds.iter().filter(|key| source.has(key)).count() > 1 {
            errors.push(Error::forbidden(
                &at,
                "may not specify more than 1 volume type per source",
            ));
        }
    }
}

fn unique_path<'a>(
    errors: &mut Errors,
    path: &Path,
    paths: &mut Vec<&'a str>,
    file: &'a str,
    shown: &str,
) {
    if paths.contains(&file) {
        errors.push(Error::invalid(path, shown, "conflicting duplicate paths"));
    } else if !file.is_empty() {
        paths.push(file);
    }
}

fn token(errors: &mut Errors, volume: &Path, path: &Path, token: &Value) {
    let seconds = token.count("expirationSeconds");
    let seconds_path = path.child("expirationSeconds");
    if seconds < 600 {
        let fault = "may not specify a duration less than 10 minutes";
        errors.push(Error::invalid(&seconds_path, seconds, fault));
    }
    if seconds > 1 << 32 {
        let fault = "may not specify a duration larger than 2^32 seconds";
        errors.push(Error::invalid(&seconds_path, seconds, fault));
    }
    match token.text("path") {
        "" => errors.push(Error::required(&volume.child("path"), "")),
        file => check::unreserved_path(errors, &volume.child("path"), file),
    }
}

fn csi(errors: &mut Errors, path: &Path, source: &Value) {
    driver_name(errors, &path.child("driver"), source.text("driver"));
    let secret = source.at("nodePublishSecretRef");
    if secret.is_null() {
        return;
    }
    match secret.text("name") {
        "" => errors.push(Error::required(
            &path.child("nodePublishSecretRef").child("name"),
            "",
        )),
        name => check::faults(
            errors,
            &path.child("name"),
            name,
            names::dns1123_subdomain(name),
        ),
    }
}

/// Validates the name of a CSI driver: a DNS subdomain in any case, of at most 63 characters.
pub(crate) fn driver_name(errors: &mut Errors, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(Error::too_long(path, 63));
    }
    check::faults(
        errors,
        path,
        name,
        names::dns1123_subdomain(&name.to_lowercase()),
    );
}

fn ephemeral(errors: &mut Errors, path: &Path, volume: &Value, context: &VolumeContext<'_>) {
    let at = &path.child("ephemeral").child("volumeClaimTemplate");
    let template = volume.at("ephemeral").at("volumeClaimTemplate");
    if template.is_null() {
        errors.push(Error::required(at, ""));
    } else {
        template_metadata(errors, &at.child("metadata"), template.at("metadata"));
        claim::validate_spec(errors, &at.child("spec"), template.at("spec"));
    }
    let name = volume.text("name");
    if !context.pod.is_empty() && !name.is_empty() {
        let claim = format!("{}-{name}", context.pod);
        for fault in names::dns1123_subdomain(&claim) {
            let fault = format!("PVC name \"{claim}\": {fault}");
            errors.push(Error::invalid(&path.child("name"), name, fault));
        }
    }
}

/// Validates the metadata of an embedded template, which may have only labels and annotations.
pub(in crate::kinds) fn template_metadata(errors: &mut Errors, path: &Path, metadata: &Value) {
    check::annotations(
        errors,
        &path.child("annotations"),
        metadata.at("annotations"),
    );
    check::labels(errors, &path.child("labels"), metadata.at("labels"));
    let members = metadata.as_object().into_iter().flatten();
    for (key, value) in members.filter(|(key, _)| !matches!(key.as_str(), "annotations" | "labels"))
    {
        // For a pointer field, zero counts as set.
        if !is_zero(value) || key == "deletionGracePeriodSeconds" {
            // Kubernetes prints the Go field name with a lowercase first character.
            let shown = if key == "uid" { "uID" } else { key };
            errors.push(Error::forbidden(&path.child(shown), "cannot be set"));
        }
    }
}
