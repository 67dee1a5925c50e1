//! Validation of updates of PersistentVolumes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePersistentVolumeUpdate`,
//!   `validatePvNodeAffinity`, `getMaskNodeSelectorLabelChangeEqualities`

use sendo_apimachinery::field::{Error, Path};
use serde_json::{Map, Value};

use super::source;
use crate::kinds::check::{self, Errors};
use crate::kinds::internal;
use crate::kinds::pod::affinity::{LabelValues, node_selector};
use crate::kinds::value::{Read, Write};

/// Validates an update: the source and the node affinity are immutable, with a few exceptions.
pub(super) fn validate(new: &Value, old: &Value) -> Errors {
    let affinity = |volume: &Value| volume.at("spec").at("nodeAffinity").clone();
    let mut old_faults = Vec::new();
    if let Some(required) = affinity(old).get("required") {
        let path = Path::root();
        node_selector(&mut old_faults, &path, required, LabelValues::Validated);
    }
    let values = match old_faults.is_empty() {
        true => LabelValues::Validated,
        false => LabelValues::Ignored,
    };
    let mut errors = super::validate(new, values);
    super::mount_options(&mut errors, new);
    // Kubernetes validates the whole volume a second time here.
    errors.extend(super::validate(new, values));
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

/// The sources of the new and the old volume, without the one Secret reference that may be added.
fn fixed_sources(new: &Value, old: &Value) -> (Value, Value) {
    let sources = |spec: &Value| -> Map<String, Value> {
        let found = source::ALL.into_iter().filter(|key| spec.has(key));
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

/// Whether two node affinities are equal except for deprecated node labels that were replaced.
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

/// The replacement of a deprecated node label. It is empty for other labels, as in Kubernetes' map
/// lookup, so that any label may become the empty key.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::volume;
    use super::*;

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
            validate(&with_label("topology.kubernetes.io/zone"), &old),
            []
        );
        assert_eq!(validate(&with_label("other"), &old).len(), 1);
        // A label without a replacement may become the empty key, which other validation refuses.
        let changed = validate(&with_label(""), &with_label("other"));
        assert!(!changed.iter().any(|error| error.field == "nodeAffinity"));
        let moved = volume(|spec| spec["hostPath"]["path"] = "/other".into());
        let errors = validate(&moved, &volume(|_| {}));
        assert_eq!(errors[0].field, "spec.persistentvolumesource");
    }
}
