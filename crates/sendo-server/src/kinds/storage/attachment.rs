//! Rules of VolumeAttachments, which request that a volume be attached to a node.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/storage/validation/validation.go`: `ValidateVolumeAttachment`,
//!   `ValidateVolumeAttachmentUpdate`
//! - `pkg/registry/storage/volumeattachment/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::volume;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::pod::sources::driver_name;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, internal, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |_, attachment| attachment.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    validate: |_, attachment| validate(attachment),
    validate_update: |_, new, old| validate_update(new, old),
    validate_status_update: |_, new, old| validate_update(new, old),
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

const MAX_METADATA: usize = 256 * 1024;
const MAX_MESSAGE: usize = 1024;

fn validate(attachment: &Value) -> Errors {
    let mut errors = check::new_metadata(attachment, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (attachment.at("spec"), Path::new("spec"));
    driver_name(&mut errors, &path.child("attacher"), spec.text("attacher"));
    source(&mut errors, &path.child("source"), spec.at("source"));
    let node = spec.text("nodeName");
    let faults = names::dns1123_subdomain(node);
    check::faults(&mut errors, &path.child("nodeName"), node, faults);
    status(&mut errors, attachment.at("status"));
    if let Some(name) = spec.at("source").at("persistentVolumeName").as_str() {
        let path = path.child("source").child("persistentVolumeName");
        check::faults(&mut errors, &path, name, names::dns1123_subdomain(name));
    }
    errors
}

fn source(errors: &mut Errors, path: &Path, source: &Value) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let inline = source.at("inlineVolumeSpec");
    match (source.at("persistentVolumeName").as_str(), inline.is_null()) {
        (None, true) => errors.push(Error::required(path, ONE)),
        (Some(_), false) => errors.push(Error::forbidden(path, ONE)),
        (Some(""), true) => {
            let why = "must specify non empty persistentVolumeName";
            errors.push(Error::required(&path.child("persistentVolumeName"), why));
        }
        (Some(_), true) => {}
        (None, false) => volume::inline_spec(errors, &path.child("inlineVolumeSpec"), inline),
    }
}

fn status(errors: &mut Errors, status: &Value) {
    let path = Path::new("status");
    let size: usize = status
        .entries("attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if size > MAX_METADATA {
        errors.push(Error::too_long(
            &path.child("attachmentMetadata"),
            MAX_METADATA,
        ));
    }
    for key in ["attachError", "detachError"] {
        let (path, error) = (path.child(key), status.at(key));
        if error.text("message").len() > MAX_MESSAGE {
            errors.push(Error::too_long(&path.child("message"), MAX_METADATA));
        }
        let code = error.count("errorCode");
        if code < 0 {
            let fault = "must be between 0 and 2147483647, inclusive";
            errors.push(Error::invalid(&path.child("errorCode"), code, fault));
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = validate(new);
    let spec = new.at("spec");
    if spec != old.at("spec") {
        let source = spec.at("source");
        let shown_source = Ordered::new()
            .with("PersistentVolumeName", source.at("persistentVolumeName"))
            .raw(
                "InlineVolumeSpec",
                internal::text("*PersistentVolumeSpec", source.at("inlineVolumeSpec")),
            );
        let shown = Ordered::new()
            .text("Attacher", spec.text("attacher"))
            .raw("Source", shown_source.finish())
            .text("NodeName", spec.text("nodeName"));
        let path = Path::new("spec");
        errors.push(Error::invalid(
            &path,
            shown.bad_value(),
            "field is immutable",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(source: Value) -> Value {
        json!({"metadata": {"name": "a"},
               "spec": {"attacher": "example.com", "nodeName": "n", "source": source}})
    }

    #[test]
    fn one_volume_is_attached() {
        let inline = json!({"accessModes": ["ReadWriteOnce"],
                            "csi": {"driver": "example.com", "volumeHandle": "h"}});
        let cases = [
            (json!({"persistentVolumeName": "v"}), 0),
            (json!({"inlineVolumeSpec": inline}), 0),
            (json!({}), 1),
            (
                json!({"persistentVolumeName": "v", "inlineVolumeSpec": inline}),
                1,
            ),
        ];
        for (source, count) in cases {
            assert_eq!(
                validate(&attachment(source.clone())).len(),
                count,
                "{source}"
            );
        }
    }

    #[test]
    fn what_is_attached_where_stays() {
        let old = attachment(json!({"persistentVolumeName": "v"}));
        let new = attachment(json!({"persistentVolumeName": "w"}));
        assert_eq!(
            validate_update(&new, &old)[0].to_string(),
            concat!(
                r#"spec: Invalid value: {"Attacher":"example.com","Source":{"PersistentVolumeName":"w","#,
                r#""InlineVolumeSpec":null},"NodeName":"n"}: field is immutable"#
            )
        );
    }
}
