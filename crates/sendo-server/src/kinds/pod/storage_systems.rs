//! Volume sources that name a storage system, in pods and persistent volumes.

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

pub(super) const LONG_ISCSI_NAME: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                                          characters if iscsi.initiatorName is specified.";
const PARTITION: &str = "must be between 1 and 255, inclusive";
const UNIT: &str = "must be between 0 and 255, inclusive";

/// The source `key` of a volume.
pub(crate) fn validate(errors: &mut Errors, path: &Path, key: &str, source: &Value) {
    let mut require = |field: &str| check::required(errors, &path.child(field), source.text(field));
    match key {
        "azureFile" => ["secretName", "shareName"].into_iter().for_each(require),
        "cinder" => require("volumeID"),
        "flexVolume" => require("driver"),
        "glusterfs" => ["endpoints", "path"].into_iter().for_each(require),
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
        "iscsi" => iscsi(errors, path, source),
        "nfs" => nfs(errors, path, source),
        "quobyte" => quobyte(errors, path, source),
        "rbd" => {
            monitors(errors, path, source);
            check::required(errors, &path.child("image"), source.text("image"));
        }
        _ => {}
    }
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

fn iscsi(errors: &mut Errors, path: &Path, source: &Value) {
    check::required(
        errors,
        &path.child("targetPortal"),
        source.text("targetPortal"),
    );
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.push(Error::required(&path.child("iqn"), ""));
    } else if let Some(fault) = initiator_fault(iqn) {
        errors.push(Error::invalid(&path.child("iqn"), iqn, fault));
    }
    logical_unit(errors, path, source.count("lun"));
    let authenticates = source.is_set("chapAuthDiscovery") || source.is_set("chapAuthSession");
    if authenticates && !source.has("secretRef") {
        errors.push(Error::required(&path.child("secretRef"), ""));
    }
    if let Some(name) = source.at("initiatorName").as_str()
        && let Some(fault) = initiator_fault(name)
    {
        errors.push(Error::invalid(&path.child("initiatorname"), name, fault));
    }
}

/// What is wrong with the name of an initiator: it is of one of three forms.
fn initiator_fault(name: &str) -> Option<&'static str> {
    let hex = |text: &str, length: usize| {
        text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit())
    };
    let is_well_formed = match name.get(..3) {
        Some("iqn") => is_qualified_initiator(name),
        Some("eui") => name.strip_prefix("eui.").is_some_and(|id| hex(id, 16)),
        Some("naa") => name.strip_prefix("naa.").is_some_and(|id| hex(id, 32)),
        _ => return Some("must be valid format starting with iqn, eui, or naa"),
    };
    (!is_well_formed).then_some("must be valid format")
}

/// `iqn.` with a year and month, a reversed domain name, and anything after a colon.
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
    fn each_system_asks_for_its_own_fields() {
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
            validate(&mut errors, &Path::new("x"), key, &source);
            let found: Vec<String> = errors.iter().map(Error::to_string).collect();
            assert_eq!(found, expected);
        }
    }
}
