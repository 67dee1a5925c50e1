//! The classes of objects that name none.

use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::lookup;
use crate::call::Call;
use crate::keys::Keys;
use crate::kinds::value::{Read, Write};

/// Gives a claim without a class the default one, if there is one.
pub(super) async fn default_storage_class(
    call: &Call<'_>,
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
    if let Some(name) = default_of(lookup::list(call, &keys, None).await?, &marks) {
        claim.object("spec").set("storageClassName", name);
    }
    Ok(())
}

/// The same for an ingress.
pub(super) async fn default_ingress_class(
    call: &Call<'_>,
    ingress: &mut Value,
) -> Result<(), Status> {
    let annotations = ingress.at("metadata").at("annotations");
    if annotations.has("kubernetes.io/ingress.class") || ingress.at("spec").has("ingressClassName")
    {
        return Ok(());
    }
    let keys = Keys::new("networking.k8s.io", "ingressclasses", false);
    let marks = ["ingressclass.kubernetes.io/is-default-class"];
    if let Some(name) = default_of(lookup::list(call, &keys, None).await?, &marks) {
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
    Some(Meta::of(&newest).name().to_owned())
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
