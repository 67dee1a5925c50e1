//! Rules of PersistentVolumes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePersistentVolume`,
//!   `ValidatePersistentVolumeSpec`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_PersistentVolume`
//! - `pkg/api/persistentvolume/util.go`: `GetWarningsForPersistentVolume`
//! - `pkg/registry/core/persistentvolume/strategy.go`

mod source;
mod update;

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::claim;
use crate::kinds::check::{self, Errors};
use crate::kinds::node::{self, Values};
use crate::kinds::pod::affinity::{LabelValues, node_selector};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, resources};

pub(super) const RULES: Rules = Rules {
    default: |volume| {
        volume.object("status").default_if_zero("phase", "Pending");
        let spec = volume.object("spec");
        spec.default_if_zero("persistentVolumeReclaimPolicy", "Retain");
        spec.default_to("volumeMode", "Filesystem");
        if let Some(path) = spec.existing("hostPath") {
            path.default_to("type", "");
        }
        pod::volumes::network_storage(spec);
        resources::round_up_lists(spec, &["capacity"]);
    },
    prepare_for_create: |cx, volume| {
        volume.set(
            "status",
            json!({"phase": "Pending", "lastPhaseTransitionTime": cx.time()}),
        );
    },
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update,
    validate: |_, volume| {
        let mut errors = validate(volume, LabelValues::Validated);
        mount_options(&mut errors, volume);
        errors
    },
    validate_update: |_, new, old| update::validate(new, old),
    validate_status_update: |_, new, old| check::changed_metadata(new, old),
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    ..Rules::NEUTRAL
};

const INLINE: &str = "may not be specified in the context of inline volumes";
const OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Sets `lastPhaseTransitionTime` when the phase changes, unless the update sets it.
fn prepare_for_status_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    const TIME: &str = "lastPhaseTransitionTime";
    new.copy_from("spec", old);
    let (status, old_status) = (new.object("status"), old.at("status"));
    let same_phase = status.text("phase") == old_status.text("phase");
    if same_phase && !status.has(TIME) {
        status.copy_from(TIME, old_status);
    } else if !same_phase && (!status.has(TIME) || status.at(TIME) == old_status.at(TIME)) {
        status.set(TIME, cx.time());
    }
}

fn validate(volume: &Value, values: LabelValues) -> Errors {
    let mut errors = check::new_metadata(volume, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (volume.at("spec"), Path::new("spec"));
    modes(&mut errors, &path, spec);
    capacity(&mut errors, &path.child("capacity"), spec);
    let policy = spec.text("persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        let policies = ["Delete", "Recycle", "Retain"];
        check::one_of(&mut errors, &policy_path, policy, &policies);
    }
    let affinity = spec.at("nodeAffinity");
    if !affinity.is_null() {
        let path = path.child("nodeAffinity").child("required");
        match affinity.at("required") {
            Value::Null => {
                let why = "must specify required node constraints";
                errors.push(Error::required(&path, why));
            }
            required => node_selector(&mut errors, &path, required, values),
        }
    }
    let name = volume.at("metadata").text("name");
    source::validate(&mut errors, &path, spec, name);
    let root = spec.has("hostPath") && is_root(spec.at("hostPath").text("path"));
    if root && policy == "Recycle" {
        let fault = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&policy_path, fault));
    }
    let class_path = path.child("storageClassName");
    claim::optional_class(&mut errors, &class_path, spec.at("storageClassName"));
    check::optional_one_of(
        &mut errors,
        &path.child("volumeMode"),
        spec.at("volumeMode"),
        &["Block", "Filesystem"],
    );
    attributes_class(&mut errors, &path, spec);
    errors
}

/// Validates the inline volume spec of a VolumeAttachment.
pub(super) fn inline_spec(errors: &mut Errors, path: &Path, spec: &Value) {
    for key in ["claimRef", "capacity"] {
        if !crate::kinds::value::is_zero(spec.at(key)) {
            errors.push(Error::forbidden(&path.child(key), INLINE));
        }
    }
    if !spec.has("csi") {
        let why = "has to be specified in the context of inline volumes";
        errors.push(Error::required(&path.child("csi"), why));
    }
    modes(errors, path, spec);
    if !matches!(spec.text("persistentVolumeReclaimPolicy"), "" | "Retain") {
        let fault = "may only be Retain in the context of inline volumes";
        let path = path.child("persistentVolumeReclaimPolicy");
        errors.push(Error::forbidden(&path, fault));
    }
    if spec.has("nodeAffinity") {
        errors.push(Error::forbidden(&path.child("nodeAffinity"), INLINE));
    }
    source::validate(errors, path, spec, "");
    if !spec.text("storageClassName").is_empty() {
        errors.push(Error::forbidden(&path.child("storageClassName"), INLINE));
    }
    if !matches!(spec.at("volumeMode").as_str(), None | Some("Filesystem")) {
        let fault =
            "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(Error::forbidden(&path.child("volumeMode"), fault));
    }
}

fn modes(errors: &mut Errors, path: &Path, spec: &Value) {
    let path = path.child("accessModes");
    if spec.items("accessModes").is_empty() {
        errors.push(Error::required(&path, ""));
    }
    claim::access_modes(errors, &path, spec);
}

fn capacity(errors: &mut Errors, path: &Path, spec: &Value) {
    let amounts = spec.entries("capacity").count();
    if amounts == 0 {
        errors.push(Error::required(path, ""));
    }
    if amounts != 1 || !spec.at("capacity").has("storage") {
        let shown = spec.at("capacity").clone();
        errors.push(Error::not_supported(path, shown, &["storage"]));
    }
    for (name, amount) in spec.entries("capacity") {
        claim::basic_amount(errors, &path.key(name), amount);
        claim::positive_amount(errors, &path.key(name), amount);
    }
}

fn attributes_class(errors: &mut Errors, path: &Path, spec: &Value) {
    let class_path = path.child("volumeAttributesClassName");
    match spec.at("volumeAttributesClassName").as_str() {
        None => return,
        Some("") => errors.push(Error::required(
            &class_path,
            "an empty string is disallowed",
        )),
        Some(class) => {
            let faults = names::dns1123_subdomain(class);
            check::faults(errors, &class_path, class, faults);
        }
    }
    if !spec.has("csi") {
        let why = "has to be specified when using volumeAttributesClassName";
        errors.push(Error::required(&path.child("csi"), why));
    }
}

/// Whether a path, with `..` resolved, is the root directory.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Validates the legacy annotation for mount options, which only some volume types support.
fn mount_options(errors: &mut Errors, volume: &Value) {
    const WITHOUT_MOUNT_OPTIONS: [&str; 9] = [
        "hostPath",
        "flocker",
        "fc",
        "flexVolume",
        "portworxVolume",
        "scaleIO",
        "local",
        "storageos",
        "csi",
    ];
    let spec = volume.at("spec");
    let mut found = source::ALL.iter().filter(|key| spec.has(key));
    let is_unknown = found.all(|key| WITHOUT_MOUNT_OPTIONS.contains(key));
    if is_unknown
        && volume
            .at("metadata")
            .at("annotations")
            .has(OPTIONS_ANNOTATION)
    {
        let path = Path::new("metadata").child("annotations");
        let fault = "may not specify mount options for this volume type";
        errors.push(Error::forbidden(&path.child(OPTIONS_ANNOTATION), fault));
    }
}

fn warnings(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = volume.at("metadata").at("annotations");
    for (key, why) in [
        (
            CLASS_ANNOTATION,
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            OPTIONS_ANNOTATION,
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations.has(key) {
            warnings.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
    let spec = volume.at("spec");
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
                    recommended approach is to use dynamic provisioning.";
        warnings.push(text.to_owned());
    }
    let required = spec.at("nodeAffinity").at("required");
    let path = Path::new("spec").child("nodeAffinity").child("required");
    for (i, term) in required.items("nodeSelectorTerms").iter().enumerate() {
        let path = path.child("nodeSelectorTerms").index(i);
        let expressions = term.items("matchExpressions");
        warnings.extend(node::requirement_warnings(
            &path.child("matchExpressions"),
            expressions,
            Values::Ignored,
        ));
    }
    for (key, shown, since, gone) in [
        ("cephfs", "cephfs", "v1.28", "v1.31"),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "v1.11",
            "v1.16",
        ),
        ("scaleIO", "scaleIO", "v1.16", "v1.22"),
        ("storageos", "storageOS", "v1.22", "v1.25"),
        ("glusterfs", "glusterfs", "v1.25", "v1.26"),
        ("rbd", "rbd", "v1.28", "v1.31"),
    ] {
        if spec.has(key) {
            let text = format!("spec.{shown}: deprecated in {since}, non-functional in {gone}+");
            warnings.push(text);
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn volume(change: impl FnOnce(&mut Value)) -> Value {
        let mut volume = json!({
            "metadata": {"name": "v", "resourceVersion": "1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "volumeMode": "Filesystem",
                     "hostPath": {"path": "/data", "type": ""}},
        });
        change(&mut volume["spec"]);
        volume
    }

    pub(super) fn faults(volume: &Value) -> Vec<String> {
        let errors = validate(volume, LabelValues::Validated);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_volume_is_of_one_system_and_has_a_size() {
        assert_eq!(faults(&volume(|_| {})), Vec::<String>::new());
        assert_eq!(
            faults(&volume(|spec| spec.remove("hostPath"))),
            ["spec: Required value: must specify a volume type"]
        );
        let two = volume(|spec| spec.set("nfs", json!({"server": "s", "path": "/"})));
        assert_eq!(
            faults(&two),
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(
            faults(&volume(|spec| spec.remove("capacity"))),
            [
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
            ]
        );
    }

    #[test]
    fn the_root_of_a_host_is_not_recycled() {
        for (path, is_forbidden) in [("/", true), ("/a/..", true), ("/a", false)] {
            let volume = volume(|spec| {
                spec["hostPath"]["path"] = path.into();
                spec.set("persistentVolumeReclaimPolicy", "Recycle");
            });
            let text = "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'";
            assert_eq!(
                faults(&volume).contains(&text.to_owned()),
                is_forbidden,
                "{path}"
            );
        }
    }
}
