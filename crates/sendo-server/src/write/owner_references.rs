//! `metadata.ownerReferences` of a write, without duplicates.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go`:
//!   `dedupOwnerReferencesAndAddWarning`

use std::collections::BTreeSet;

use serde_json::Value;

use crate::state::call::Call;

/// When references are looked at, which the warning tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// In the body of a request. Of a patch only the outcome tells.
    InBody,
    /// Once admission may have changed them.
    AfterMutation,
}

/// Leaves out references that are there twice, with a warning.
pub(super) fn dedup(call: &Call<'_>, object: &mut Value, when: When) {
    let metadata = object.get_mut("metadata");
    let references = metadata.and_then(|metadata| metadata.get_mut("ownerReferences"));
    let Some(references) = references.and_then(Value::as_array_mut) else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(references.len());
    let mut twice = BTreeSet::new();
    for reference in references.drain(..) {
        if kept.contains(&reference) {
            twice.insert(reference["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(reference);
        }
    }
    *references = kept;
    if !twice.is_empty() {
        let uids: Vec<String> = twice.into_iter().collect();
        let when = match when {
            When::InBody => "",
            When::AfterMutation => " after mutating admission happens",
        };
        call.request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            uids.join(",")
        ));
    }
}
