//! Marking a definition for deletion: its objects are deleted first.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go`:
//!   `Delete`

use sendo_apimachinery::MetaMut;
use serde_json::{Value, json};

use super::names;

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition as terminating, on its first DELETE.
pub(crate) fn mark(definition: &mut Value, now: &str) {
    let mut meta = MetaMut::new(definition);
    meta.set_deletion_timestamp(now);
    let mut finalizers: Vec<String> = meta.view().finalizers().map(str::to_owned).collect();
    if !finalizers.iter().any(|own| own == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    meta.set_finalizers(finalizers);
    let mut status = definition
        .get("status")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let pending = (
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    names::set_condition(&mut status, pending, now);
    definition["status"] = status;
}
