//! Validation of the volume sources that pods and persistent volumes share.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateVolumeSource`,
//!   `ValidatePersistentVolumeSpec`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

pub(super) const LONG_ISCSI_NAME: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                                          characters if iscsi.initiatorName is specified.";
const PARTITION: &str = "must be between 1 and 255, inclusive";
const UNIT: &str = "must be between 0 and 255, inclusive";

/// The owner of a volume source: some sources have more fields in a persistent volume.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    /// A pod.
    Pod,
    /// The persistent volume with this name.
    Volume(&'a str),
}

/// Validates the source `key` of a volume.
pub(crate) fn validate(
    errors: &mut Errors,
    path: &Path,
    key: &str,
    source: &Value,
    holder: Holder<'_>,
) {
    let mut require = |field: &str| check::required(errors, &path.child(field), source.text(field));
    match key {
        "azureFile" => {
            ["secretName", "shareName"].into_iter().for_each(require);
            if source.at("secretNamespace").as_str() == Some("") {
                errors.push(Error::required(&path.child("secretNamespace"), ""));
            }
        }
        "cinder" => {
            require("volumeID");
            secret_reference(errors, path, source, holder);
        }
        "flexVolume" => {
            require("driver");
            flex_options(errors, &path.child("options"), source);
        }
        "glusterfs" => {
            ["endpoints", "path"].into_iter().for_each(require);
            endpoints_namespace(errors, path, source);
        }
        "photonPersistentDisk" => require("pdID"),
        "portworxVolume" => require("volumeID"),
        "scaleIO" => ["gateway", "system", "volumeName"]
            .into_iter()
            .for_each(require),
        "vsphereVolume" => require("volumePath"),
        "awsElasticBlockStore" => disk(errors, path, source, "volumeID"),
        "gcePersistentDisk" => disk(errors, path, source, "pdName"),
        "azureDisk" => azure_disk(errors, path, source),
        "cephfs" => monitors(errors, path, source),
        "fc" => fibre_channel(errors, path, source),
        "flocker" => flocker(errors, path, source),
        "iscsi" => iscsi(errors, path, source, holder),
        "nfs" => nfs(errors, path, source),
        "quobyte" => quobyte(errors, path, source),
        "rbd" => {
            monitors(errors, path, source);
            check::required(errors, &path.child("image"), source.text("image"));
        }
        "storageos" => storage_os(errors, path, source, holder),
        _ => {}
    }
}

/// Validates a Secret reference, which in a persistent volume also has a namespace.
fn secret_reference(errors: &mut Errors, path: &Path, source: &Value, holder: Holder<'_>) {
    let (secret, path) = (source.at("secretRef"), path.child("secretRef"));
    if secret.is_null() {
        return;
    }
    check::required(errors, &path.child("name"), secret.text("name"));
    if matches!(holder, Holder::Volume(_)) {
        check::required(errors, &path.child("namespace"), secret.text("namespace"));
    }
}

fn flex_options(errors: &mut Errors, path: &Path, source: &Value) {
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let fault = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid(&path.key(key), key, fault));
        }
    }
}

fn endpoints_namespace(errors: &mut Errors, path: &Path, source: &Value) {
    let path = path.child("endpointsNamespace");
    match source.at("endpointsNamespace").as_str() {
        None => {}
        Some("") => {
            let fault = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(Error::invalid(&path, "", fault));
        }
        Some(name) => check::faults(errors, &path, name, names::dns1123_label(name)),
    }
}

fn storage_os(errors: &mut Errors, path: &Path, source: &Value, holder: Holder<'_>) {
    let name = source.text("volumeName");
    check::required_name(
        errors,
        &path.child("volumeName"),
        name,
        names::dns1123_label,
    );
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        let faults = names::dns1123_label(namespace);
        check::faults(errors, &path.child("volumeNamespace"), namespace, faults);
    }
    secret_reference(errors, path, source, holder);
}

fn monitors(errors: &mut Errors, path: &Path, source: &Value) {
    if source.items("monitors").is_empty() {
        errors.push(Error::required(&path.child("monitors"), ""));
    }
}

fn disk(errors: &mut Errors, path: &Path, source: &Value, name: &str) {
    check::required(errors, &path.child(name), source.text(name));
    let partition = source.count("partition");
    if !(0..=255).contains(&partition) {
        errors.push(Error::invalid(
            &path.child("partition"),
            partition,
            PARTITION,
        ));
    }
}

fn nfs(errors: &mut Errors, path: &Path, source: &Value) {
    let file = source.text("path");
    check::required(errors, &path.child("server"), source.text("server"));
    check::required(errors, &path.child("path"), file);
    if !file.starts_with('/') {
        errors.push(Error::invalid(
            &path.child("path"),
            file,
            "must be an absolute path",
        ));
    }
}

fn azure_disk(errors: &mut Errors, path: &Path, source: &Value) {
    check::required(errors, &path.child("diskName"), source.text("diskName"));
    check::required(errors, &path.child("diskURI"), source.text("diskURI"));
    let modes = ["None", "ReadOnly", "ReadWrite"];
    check::optional_one_of(
        errors,
        &path.child("cachingMode"),
        source.at("cachingMode"),
        &modes,
    );
    let kinds = ["Dedicated", "Managed", "Shared"];
    check::optional_one_of(errors, &path.child("kind"), source.at("kind"), &kinds);
    let (start, form) = match source.at("kind").as_str() {
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        ),
        None => return,
    };
    let uri = source.text("diskURI");
    if !uri.starts_with(start) {
        errors.push(Error::not_supported(&path.child("diskURI"), uri, &[form]));
    }
}

fn fibre_channel(errors: &mut Errors, path: &Path, source: &Value) {
    let targets = source.items("targetWWNs");
    let targets_path = path.child("targetWWNs");
    match (targets.is_empty(), source.items("wwids").is_empty()) {
        (true, true) => {
            let fault = "must specify either targetWWNs or wwids, but not both";
            errors.push(Error::required(&targets_path, fault));
        }
        (false, false) => {
            let fault = "targetWWNs and wwids can not be specified simultaneously";
            errors.push(Error::invalid(
                &targets_path,
                source.at("targetWWNs").clone(),
                fault,
            ));
        }
        _ => {}
    }
    if !targets.is_empty() {
        match source.number("lun") {
            None => {
                let fault = "lun is required if targetWWNs is specified";
                errors.push(Error::required(&path.child("lun"), fault));
            }
            Some(lun) => logical_unit(errors, path, lun),
        }
    }
}

fn logical_unit(errors: &mut Errors, path: &Path, lun: i64) {
    if !(0..=255).contains(&lun) {
        errors.push(Error::invalid(&path.child("lun"), lun, UNIT));
    }
}

fn flocker(errors: &mut Errors, path: &Path, source: &Value) {
    let (name, id) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.push(Error::required(
            path,
            "one of datasetName and datasetUUID is required",
        ));
    }
    if !name.is_empty() && !id.is_empty() {
        let fault = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid(path, "resource", fault));
    }
    if name.contains('/') {
        errors.push(Error::invalid(
            &path.child("datasetName"),
            name,
            "must not contain '/'",
        ));
    }
}

fn quobyte(errors: &mut Errors, path: &Path, source: &Value) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.push(Error::required(&path.child("registry"), PAIRS));
    } else if source.text("tenant").len() >= 65 {
        let fault = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(Error::required(&path.child("tenant"), fault));
    } else {
        for pair in registry.split(',') {
            let is_pair = pair
                .rsplit_once(':')
                .is_some_and(|(host, _)| !host.contains(':') || host.starts_with('['));
            if !is_pair {
                errors.push(Error::invalid(&path.child("registry"), registry, PAIRS));
            }
        }
    }
    check::required(errors, &path.child("volume"), source.text("volume"));
}

fn iscsi(errors: &mut Errors, path: &Path, source: &Value, holder: Holder<'_>) {
    let portal = source.text("targetPortal");
    check::required(errors, &path.child("targetPortal"), portal);
    let has_initiator = source.has("initiatorName");
    if let Holder::Volume(name) = holder
        && has_initiator
        && name.len() + 1 + portal.len() > 64
    {
        let path = path.child("targetportal");
        errors.push(Error::invalid(&path, portal, LONG_ISCSI_NAME));
    }
    if source.text("iqn").is_empty() {
        errors.push(Error::required(&path.child("iqn"), ""));
    } else {
        initiator(errors, &path.child("iqn"), source.text("iqn"), holder);
    }
    logical_unit(errors, path, source.count("lun"));
    let authenticates = source.is_set("chapAuthDiscovery") || source.is_set("chapAuthSession");
    let (secret, secret_path) = (source.at("secretRef"), path.child("secretRef"));
    if authenticates && secret.is_null() {
        errors.push(Error::required(&secret_path, ""));
    }
    if matches!(holder, Holder::Volume(_)) && !secret.is_null() {
        check::required(errors, &secret_path.child("name"), secret.text("name"));
    }
    if has_initiator {
        let path = path.child("initiatorname");
        initiator(errors, &path, source.text("initiatorName"), holder);
    }
}

/// Validates the name of an iSCSI initiator: `iqn.`, `eui.` or `naa.`.
fn initiator(errors: &mut Errors, path: &Path, name: &str, holder: Holder<'_>) {
    let hex = |text: &str, length: usize| {
        text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit())
    };
    let malformed = "must be valid format";
    let fault = match (name.get(..3), holder) {
        (Some("iqn"), _) if is_qualified_initiator(name) => return,
        (Some("eui"), _) if name.strip_prefix("eui.").is_some_and(|id| hex(id, 16)) => return,
        (Some("naa"), _) if name.strip_prefix("naa.").is_some_and(|id| hex(id, 32)) => return,
        (Some("iqn" | "eui" | "naa"), _) | (_, Holder::Volume(_)) => malformed,
        (_, Holder::Pod) => "must be valid format starting with iqn, eui, or naa",
    };
    errors.push(Error::invalid(path, name, fault));
}

/// Whether a name is `iqn.` with a year and month, a reversed domain name, and an optional suffix
/// after a colon.
fn is_qualified_initiator(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("iqn.") else {
        return false;
    };
    let date = rest.get(..7).unwrap_or_default();
    let is_date = date.len() == 7
        && date
            .char_indices()
            .all(|(i, c)| if i == 4 { c == '-' } else { c.is_ascii_digit() });
    let Some(domain) = rest.get(7..).and_then(|rest| rest.strip_prefix('.')) else {
        return false;
    };
    let (domain, has_suffix) = match domain.split_once(':') {
        Some((domain, suffix)) => (domain, !suffix.is_empty()),
        None => (domain, true),
    };
    let label = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    is_date && has_suffix && domain.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_system_requires_its_own_fields() {
        let cases = [
            (
                "nfs",
                json!({"server": "s", "path": "p"}),
                vec!["x.path: Invalid value: \"p\": must be an absolute path"],
            ),
            (
                "iscsi",
                json!({"targetPortal": "t", "iqn": "nope", "lun": 300}),
                vec![
                    "x.iqn: Invalid value: \"nope\": must be valid format starting with iqn, eui, or naa",
                    "x.lun: Invalid value: 300: must be between 0 and 255, inclusive",
                ],
            ),
            (
                "iscsi",
                json!({"targetPortal": "t", "iqn": "iqn.2015-02.example.com:test"}),
                vec![],
            ),
            (
                "glusterfs",
                json!({}),
                vec!["x.endpoints: Required value", "x.path: Required value"],
            ),
        ];
        for (key, source, expected) in cases {
            let mut errors = Vec::new();
            validate(&mut errors, &Path::new("x"), key, &source, Holder::Pod);
            let found: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(found, expected);
        }
    }
}
