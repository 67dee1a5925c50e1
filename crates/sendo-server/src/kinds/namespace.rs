//! Namespaces.

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Cx, Rules, UnknownFields, Update};

/// The label that holds a namespace's name, so that selectors can choose it.
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
    prepare_for_status_update: |_, new, old| {
        new.copy_from("spec", old);
    },
    subresources: &[("finalize", FINALIZE)],
    // A generated name comes after defaulting.
    canonicalize: label_with_name,
    selectable_fields: &[("status.phase", |namespace| {
        namespace.at("status").text("phase").to_owned()
    })],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

/// `/finalize` changes nothing but the finalizers of the spec.
const FINALIZE: Update = Update {
    prepare: |_, new, old| new.copy_from("status", old),
    validate: |_, _, _| Vec::new(),
};

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
