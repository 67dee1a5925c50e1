//! Rules of Namespaces.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateNamespace`, `ValidateNamespaceUpdate`,
//!   `ValidateNamespaceStatusUpdate`, `ValidateNamespaceFinalizeUpdate`,
//!   `validateKubeFinalizerName`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Namespace`
//! - `pkg/apis/core/v1/conversion.go`: `AddFieldLabelConversionsForNamespace`
//! - `pkg/registry/core/namespace/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::check::{self, Errors};
use super::value::{Read, Write};
use super::{Cx, Rules, UnknownFields, Update, writes};

/// The label that holds the namespace's name, for label selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer that keeps a namespace until its contents are gone.
const FINALIZER: &str = "kubernetes";

pub(super) const RULES: Rules = Rules {
    default: |namespace| {
        label_with_name(namespace);
        namespace
            .object("status")
            .default_if_zero("phase", "Active");
    },
    prepare_for_create,
    prepare_for_update: |_, new, old| {
        new.object("spec").copy_from("finalizers", old.at("spec"));
        new.copy_from("status", old);
    },
    validate: |_, namespace| validate(namespace),
    validate_update: |_, new, old| {
        let mut errors = validate(new);
        errors.extend(check::changed_metadata(new, old));
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| validate_status_update(new, old),
    subresources: &[("finalize", FINALIZE)],
    // A generated name is set after defaulting, so the label is set again.
    canonicalize: label_with_name,
    selectable_fields: &[("status.phase", |namespace| {
        namespace.at("status").text("phase").to_owned()
    })],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

/// An update through `/finalize` changes only `spec.finalizers`.
const FINALIZE: Update = Update {
    prepare: |_, new, old| new.copy_from("status", old),
    validate: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let path = Path::new("spec").child("finalizers");
        for (i, name) in check::texts(new.at("spec"), "finalizers").enumerate() {
            finalizer(&mut errors, &path.index(i), name);
        }
        errors
    },
};

fn validate(namespace: &Value) -> Errors {
    let mut errors = check::new_metadata(namespace, Scope::Cluster, names::dns1123_label);
    let path = Path::new("spec").child("finalizers");
    for name in check::texts(namespace.at("spec"), "finalizers") {
        finalizer(&mut errors, &path, name);
    }
    errors
}

fn finalizer(errors: &mut Errors, path: &Path, name: &str) {
    check::label_name(errors, path, name);
    if !name.contains('/') && ![FINALIZER, "orphan", "foregroundDeletion"].contains(&name) {
        let fault = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(path, name, fault));
    }
}

/// Validates that the phase is `Terminating` if and only if there is a deletion timestamp.
fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (phase, state) = match new.at("metadata").has("deletionTimestamp") {
        false => ("Active", "empty"),
        true => ("Terminating", "not empty"),
    };
    let found = new.at("status").text("phase");
    if found != phase {
        let fault = format!("may only be '{phase}' if `deletionTimestamp` is {state}");
        errors.push(Error::invalid(
            &Path::new("status").child("Phase"),
            found,
            fault,
        ));
    }
    errors
}

fn label_with_name(namespace: &mut Value) {
    let name = namespace.at("metadata").text("name").to_owned();
    if !name.is_empty() {
        namespace
            .object("metadata")
            .object("labels")
            .set(NAME_LABEL, name);
    }
}

fn prepare_for_create(_: &Cx<'_>, namespace: &mut Value) {
    namespace.set("status", json!({"phase": "Active"}));
    let spec = namespace.object("spec");
    if !spec.items("finalizers").contains(&json!(FINALIZER)) {
        let mut finalizers = spec.items("finalizers").to_vec();
        finalizers.push(FINALIZER.into());
        spec.set("finalizers", finalizers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_always_a_label() {
        let mut namespace =
            json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b", "x": "y"}}});
        (RULES.default)(&mut namespace);
        assert_eq!(
            namespace["metadata"]["labels"],
            json!({NAME_LABEL: "a", "x": "y"})
        );
    }
}
