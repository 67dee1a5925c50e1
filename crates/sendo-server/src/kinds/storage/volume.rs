//! PersistentVolumes.

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Map, Value, json};

use super::claim;
use crate::kinds::check::{self, Errors};
use crate::kinds::node::{self, Values};
use crate::kinds::pod::affinity::{LabelValues, node_selector};
use crate::kinds::pod::sources::{driver_name, host_path};
use crate::kinds::pod::storage_systems::{self, Holder};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, internal, pod};

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
        let mut errors = validate(volume, LabelValues::Judged);
        mount_options(&mut errors, volume);
        errors
    },
    validate_update: |_, new, old| validate_update(new, old),
    validate_status_update: |_, new, old| check::changed_metadata(new, old),
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    ..Rules::NEUTRAL
};

/// The systems a volume can be of, in the order they are judged.
const SOURCES: [&str; 22] = [
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

const INLINE: &str = "may not be specified in the context of inline volumes";
const OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The time of a change of phase is kept beside it, unless the writer says better.
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
    sources(&mut errors, &path, spec, name);
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

/// The spec of a volume that exists only as part of an attachment.
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
    sources(errors, path, spec, "");
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

/// What a volume is made of: there must be exactly one source.
fn sources(errors: &mut Errors, path: &Path, spec: &Value, name: &str) {
    let mut found = SOURCES.into_iter().filter(|key| spec.has(key));
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
            // It alone is judged beside another one.
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

/// Whether a path, with its steps back taken, is the root.
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

/// The annotation before the field: only some systems know mount options by it.
fn mount_options(errors: &mut Errors, volume: &Value) {
    const UNKNOWING: [&str; 9] = [
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
    let mut found = SOURCES.iter().filter(|key| spec.has(key));
    let is_unknown = found.all(|key| UNKNOWING.contains(key));
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

fn validate_update(new: &Value, old: &Value) -> Errors {
    let affinity = |volume: &Value| volume.at("spec").at("nodeAffinity").clone();
    let mut old_faults = Vec::new();
    if let Some(required) = affinity(old).get("required") {
        let path = Path::root();
        node_selector(&mut old_faults, &path, required, LabelValues::Judged);
    }
    let values = match old_faults.is_empty() {
        true => LabelValues::Judged,
        false => LabelValues::Ignored,
    };
    let mut errors = validate(new, values);
    mount_options(&mut errors, new);
    // Kubernetes judges the whole volume a second time here.
    errors.extend(validate(new, values));
    let (source, old_source) = fixed_sources(new.at("spec"), old.at("spec"));
    if source != old_source {
        let fault = format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            internal::difference("PersistentVolumeSource", &old_source, &source)
        );
        let path = Path::new("spec").child("persistentvolumesource");
        errors.push(Error::forbidden(&path, fault));
    }
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let path = Path::new("volumeMode");
    let mode = spec.at("volumeMode");
    check::immutable(&mut errors, &path, mode, old_spec.at("volumeMode"));
    let (affinity, old_affinity) = (affinity(new), affinity(old));
    if !old_affinity.is_null() && !is_same_affinity(&affinity, &old_affinity) {
        let fault = "field is immutable, except for updating from beta label to GA";
        let path = Path::new("nodeAffinity");
        let shown = match affinity.is_null() {
            true => Value::Null.into(),
            false => internal::bad_value("VolumeNodeAffinity", &affinity),
        };
        errors.push(Error::invalid(&path, shown, fault));
    }
    let key = "volumeAttributesClassName";
    if old_spec.has(key) && !spec.has(key) {
        let fault = "update from non-nil value to nil is forbidden";
        errors.push(Error::forbidden(&Path::new("spec").child(key), fault));
    }
    errors
}

/// The sources of two states of a volume, without the one secret that may be added.
fn fixed_sources(new: &Value, old: &Value) -> (Value, Value) {
    let sources = |spec: &Value| -> Map<String, Value> {
        let found = SOURCES.into_iter().filter(|key| spec.has(key));
        found
            .map(|key| (key.to_owned(), spec.at(key).clone()))
            .collect()
    };
    let (mut new, old) = (sources(new), sources(old));
    let secret = "controllerExpandSecretRef";
    if let (Some(new), Some(old)) = (new.get_mut("csi"), old.get("csi"))
        && !old.has(secret)
    {
        new.remove(secret);
    }
    (new.into(), old.into())
}

/// Whether two affinities are one, but for labels of nodes that have new names.
fn is_same_affinity(new: &Value, old: &Value) -> bool {
    let terms = |affinity: &Value| affinity.at("required").items("nodeSelectorTerms").to_vec();
    let (new_terms, old_terms) = (terms(new), terms(old));
    let requirements = |term: &Value, key: &str| term.items(key).to_vec();
    let same = |new: &Value, old: &Value| {
        let renamed = renamed_label(old.text("key")) == new.text("key");
        let parts = ["operator", "values"];
        (new.text("key") == old.text("key") || renamed)
            && parts.iter().all(|key| new.at(key) == old.at(key))
    };
    new.has("required") == old.has("required")
        && new_terms.len() == old_terms.len()
        && new_terms.iter().zip(&old_terms).all(|(new, old)| {
            ["matchExpressions", "matchFields"].iter().all(|key| {
                let (new, old) = (requirements(new, key), requirements(old, key));
                new.len() == old.len() && new.iter().zip(&old).all(|(new, old)| same(new, old))
            })
        })
}

/// The new name of a label of nodes; empty for one that has none, which any key may become then.
fn renamed_label(key: &str) -> &'static str {
    match key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => "",
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

    fn volume(change: impl FnOnce(&mut Value)) -> Value {
        let mut volume = json!({
            "metadata": {"name": "v", "resourceVersion": "1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "volumeMode": "Filesystem",
                     "hostPath": {"path": "/data", "type": ""}},
        });
        change(&mut volume["spec"]);
        volume
    }

    fn faults(volume: &Value) -> Vec<String> {
        let errors = validate(volume, LabelValues::Judged);
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

    #[test]
    fn the_source_stays_but_labels_of_nodes_may_be_renamed() {
        let with_label = |key: &str| {
            let requirement = json!({"key": key, "operator": "In", "values": ["a"]});
            let terms = json!([{"matchExpressions": [requirement]}]);
            volume(|spec| {
                spec.set(
                    "nodeAffinity",
                    json!({"required": {"nodeSelectorTerms": terms}}),
                )
            })
        };
        let old = with_label("failure-domain.beta.kubernetes.io/zone");
        assert_eq!(
            validate_update(&with_label("topology.kubernetes.io/zone"), &old),
            []
        );
        assert_eq!(validate_update(&with_label("other"), &old).len(), 1);
        // A label without a new name may become none at all, which is refused for itself.
        let changed = validate_update(&with_label(""), &with_label("other"));
        assert!(!changed.iter().any(|error| error.field == "nodeAffinity"));
        let moved = volume(|spec| spec["hostPath"]["path"] = "/other".into());
        let errors = validate_update(&moved, &volume(|_| {}));
        assert_eq!(errors[0].field, "spec.persistentvolumesource");
    }
}
