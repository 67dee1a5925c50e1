//! DefaultStorageClass and DefaultIngressClass: the classes of objects that name none.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/storage/storageclass/setdefault/admission.go`: `Admit`
//! - `plugin/pkg/admission/network/defaultingressclass/admission.go`: `Admit`

use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::value::{Read, Write};

pub(super) const DEFAULT_STORAGE_CLASS: Plugin = Plugin {
    name: "DefaultStorageClass",
    handles: |attributes| {
        attributes.operation == Operation::Create
            && attributes.is_of("", "persistentvolumeclaims", "")
    },
    mutate: Some(Mutate::Later(|attributes, claim| {
        Box::pin(default_storage_class(attributes, claim))
    })),
    validate: None,
};

pub(super) const DEFAULT_INGRESS_CLASS: Plugin = Plugin {
    name: "DefaultIngressClass",
    handles: |attributes| {
        attributes.operation == Operation::Create
            && attributes.is_of("networking.k8s.io", "ingresses", "")
    },
    mutate: Some(Mutate::Later(|attributes, ingress| {
        Box::pin(default_ingress_class(attributes, ingress))
    })),
    validate: None,
};

/// Gives a claim without a class the default one, if there is one.
async fn default_storage_class(
    attributes: &Attributes<'_>,
    claim: &mut Value,
) -> Result<(), Status> {
    let annotations = claim.at("metadata").at("annotations");
    if annotations.has("volume.beta.kubernetes.io/storage-class")
        || claim.at("spec").has("storageClassName")
    {
        return Ok(());
    }
    let keys = Keys::new("storage.k8s.io", "storageclasses", false);
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    if let Some(name) = default_of(lookup::list(attributes.call, &keys, None).await?, &marks) {
        claim.object("spec").set("storageClassName", name);
    }
    Ok(())
}

/// The same for an ingress.
async fn default_ingress_class(
    attributes: &Attributes<'_>,
    ingress: &mut Value,
) -> Result<(), Status> {
    let annotations = ingress.at("metadata").at("annotations");
    if annotations.has("kubernetes.io/ingress.class") || ingress.at("spec").has("ingressClassName")
    {
        return Ok(());
    }
    let keys = Keys::new("networking.k8s.io", "ingressclasses", false);
    let marks = ["ingressclass.kubernetes.io/is-default-class"];
    if let Some(name) = default_of(lookup::list(attributes.call, &keys, None).await?, &marks) {
        ingress.object("spec").set("ingressClassName", name);
    }
    Ok(())
}

/// The newest of the classes that are marked as the default; of equally old ones, the first by name.
fn default_of(classes: Vec<Arc<Value>>, marks: &[&str]) -> Option<String> {
    let is_marked = |class: &Arc<Value>| {
        let annotations = class.at("metadata").at("annotations");
        marks.iter().any(|mark| annotations.text(mark) == "true")
    };
    let marked = classes.into_iter().filter(is_marked);
    let newest = marked.reduce(|best, class| {
        let since = |class: &Value| class.at("metadata").text("creationTimestamp").to_owned();
        if since(&class) > since(&best) {
            class
        } else {
            best
        }
    })?;
    Some(Meta::new(&newest).name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_default_counts() {
        let class = |name: &str, since: &str, mark: &str| json!({"metadata": {"name": name, "creationTimestamp": since, "annotations": {"d": mark}}});
        let classes = [
            class("a", "2024-01-01T00:00:00Z", "true"),
            class("b", "2024-01-02T00:00:00Z", "true"),
            class("c", "2024-01-02T00:00:00Z", "true"),
            class("d", "2024-01-03T00:00:00Z", "false"),
        ];
        let classes = classes.map(Arc::new).to_vec();
        assert_eq!(default_of(classes, &["d"]).as_deref(), Some("b"));
        assert_eq!(default_of(Vec::new(), &["d"]), None);
    }
}
