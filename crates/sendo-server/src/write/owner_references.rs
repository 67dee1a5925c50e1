//! Owner references of a write.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::call::Call;
use crate::path::Verb;

/// Leaves out references that are there twice, with a warning.
pub(crate) fn dedup(call: &Call<'_>, object: &mut Value) {
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
        // Of a patch only the outcome tells.
        let when = if call.request.verb == Verb::Patch {
            " after mutating admission happens"
        } else {
            ""
        };
        call.request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            uids.join(",")
        ));
    }
}
