//! What protects storage that is in use, and when a claim may grow.

use sendo_apimachinery::{Meta, MetaMut, Status};
use serde_json::Value;

use super::{forbid, lookup};
use crate::call::Call;
use crate::keys::Keys;
use crate::kinds::resources;
use crate::kinds::value::Read;

/// What keeps a claim while a pod uses it.
pub(super) const CLAIM: &str = "kubernetes.io/pvc-protection";
/// What keeps a volume while a claim is bound to it.
pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";

/// Puts a finalizer on a new object.
pub(super) fn protect(call: &Call<'_>, object: &mut Value, finalizer: &str) {
    if !call.server.protect_storage {
        return;
    }
    let own: Vec<String> = Meta::of(object).finalizers().map(str::to_owned).collect();
    if !own.iter().any(|own| own == finalizer) {
        let all: Vec<String> = own.into_iter().chain([finalizer.to_owned()]).collect();
        MetaMut::of(object).set_finalizers(all);
    }
}

/// A claim grows once it is bound, if its class allows that.
pub(super) async fn validate_resize(
    call: &Call<'_>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let size = |claim: &Value| {
        let requests = claim.at("spec").at("resources").at("requests");
        resources::amount(requests.at("storage"))
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    if old.at("status").text("phase") != "Bound" {
        let why = "Only bound persistent volume claims can be expanded";
        return Err(forbid(call, new, why));
    }
    let class = class_of(new);
    if !class.is_empty() && class == class_of(old) {
        let keys = Keys::new("storage.k8s.io", "storageclasses", false);
        let found = lookup::get(call, &keys, None, class).await?;
        if found.is_some_and(|class| class.is_set("allowVolumeExpansion")) {
            return Ok(());
        }
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    Err(forbid(call, new, why))
}

/// The class of a claim; an annotation of old times goes first.
fn class_of(claim: &Value) -> &str {
    let annotations = claim.at("metadata").at("annotations");
    match annotations.get("volume.beta.kubernetes.io/storage-class") {
        Some(class) => class.as_str().unwrap_or_default(),
        None => claim.at("spec").text("storageClassName"),
    }
}
