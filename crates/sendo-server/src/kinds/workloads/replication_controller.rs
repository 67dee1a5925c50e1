//! Rules of ReplicationControllers.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateReplicationController`,
//!   `ValidateReplicationControllerUpdate`, `ValidateReplicationControllerStatusUpdate`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_ReplicationController`
//! - `pkg/registry/core/replicationcontroller/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use sendo_apimachinery::selector::LabelSelector;
use serde_json::Value;

use super::parts;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Dependents, NAMESPACE, Rules, UnknownFields, pod, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: super::create,
    prepare_for_update: super::update,
    validate: |_, controller| {
        let mut errors =
            check::new_metadata(controller, Scope::Namespaced, names::dns1123_subdomain);
        validate_spec(&mut errors, controller.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        validate_spec(&mut errors, new.at("spec"));
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let (status, path) = (new.at("status"), Path::new("status"));
        let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        parts::counts(&mut errors, &path, status, &["replicas"]);
        parts::counts(&mut errors, &path, status, &of_replicas);
        parts::counts(&mut errors, &path, status, &["observedGeneration"]);
        parts::parts_of_replicas(&mut errors, &path, status, &of_replicas);
        parts::available_are_ready(&mut errors, &path, status, "readyReplicas");
        errors
    },
    warnings_on_create: super::creation_warnings,
    warnings_on_update: |new, old| match super::is_next_generation(new, old) {
        // Kubernetes passes the old template here.
        true => super::template_warnings(old),
        false => Vec::new(),
    },
    selectable_fields: &[NAMESPACE, ("status.replicas", super::replicas_text)],
    unknown_fields: UnknownFields::NotSupported,
    dependents: Dependents::Orphaned,
    ..Rules::NEUTRAL
};

/// Sets an unset selector and unset labels to the labels of the template.
fn default(controller: &mut Value) {
    let template = controller.at("spec").at("template");
    let labels = template.at("metadata").at("labels").clone();
    if labels.is_object() {
        if controller.at("spec").entries("selector").next().is_none() {
            controller.object("spec").set("selector", labels.clone());
        }
        if controller.at("metadata").entries("labels").next().is_none() {
            controller.object("metadata").set("labels", labels);
        }
    }
    let spec = controller.object("spec");
    spec.default_to("replicas", 1);
    if let Some(template) = spec.existing("template") {
        pod::defaults::template(template);
    }
}

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    check::non_negative(
        errors,
        &path.child("minReadySeconds"),
        spec.count("minReadySeconds"),
    );
    if spec.entries("selector").next().is_none() {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    check::non_negative(errors, &path.child("replicas"), spec.count("replicas"));
    let template = spec.at("template");
    let path = path.child("template");
    if template.is_null() {
        errors.push(Error::required(&path, ""));
        return;
    }
    let labels = spec
        .entries("selector")
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    let selector = LabelSelector::equal_to(labels);
    if !selector.is_everything() {
        parts::matching_labels(errors, &path, template, &selector);
    }
    pod::validate::template(errors, &path, template);
    parts::runs_forever(errors, &path, template, "ReplicationController");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_the_template_select_and_mark() {
        let template = json!({"metadata": {"labels": {"a": "b"}}});
        let mut controller =
            json!({"metadata": {"labels": {"x": "y"}}, "spec": {"template": template}});
        default(&mut controller);
        assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(controller["metadata"]["labels"], json!({"x": "y"}));
    }
}
