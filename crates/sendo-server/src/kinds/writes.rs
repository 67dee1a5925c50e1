//! Strategy functions that several kinds share: status, generation and metadata on create and
//! update.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go`: `ResetObjectMetaForStatus`

use serde_json::{Value, json};

use super::Cx;
use super::value::{Read, Write};

/// Resets the status of a new object and sets generation 1.
pub(super) fn starts_without_status(_: &Cx<'_>, object: &mut Value) {
    object.set("status", json!({}));
    first_generation(object);
}

/// Sets generation 1.
pub(super) fn first_generation(object: &mut Value) {
    object.object("metadata").set("generation", 1);
}

/// Restores the status and increments the generation if the spec changed.
pub(super) fn spec_moves_generation(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("status", old);
    if new.at("spec") != old.at("spec") {
        next_generation(new, old);
    }
}

/// Sets the generation to that of `old` plus one.
pub(super) fn next_generation(new: &mut Value, old: &Value) {
    let generation = old.at("metadata").count("generation") + 1;
    new.object("metadata").set("generation", generation);
}

/// Prepares an update of the status that may also change metadata: restores the spec.
pub(super) fn status_with_metadata(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("spec", old);
}

/// Prepares an update of the status alone: restores the spec and the metadata.
pub(super) fn status_alone(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("spec", old);
    keep_metadata(new, old);
}

/// Restores the metadata that a subresource may not change, which is all except `managedFields`.
pub(super) fn keep_metadata(new: &mut Value, old: &Value) {
    let kept = [
        "annotations",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "labels",
        "ownerReferences",
        "selfLink",
    ];
    for key in kept {
        new.object("metadata").copy_from(key, old.at("metadata"));
    }
}

#[cfg(test)]
mod tests {
    use sendo_world::Random;

    use super::*;

    fn written(write: fn(&Cx<'_>, &mut Value, &Value), mut new: Value, old: &Value) -> Value {
        let random = Random::from_seed(1);
        let cx = Cx {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &random,
            api_version: "v1",
            user: &crate::request::user::User::admin(),
        };
        write(&cx, &mut new, old);
        new
    }

    #[test]
    fn a_changed_spec_raises_the_generation_and_a_changed_status_is_ignored() {
        let old = json!({"metadata": {"generation": 3}, "spec": {"a": 1}, "status": {"b": 1}});
        let mut new = old.clone();
        new["status"] = json!({"b": 2});
        assert_eq!(written(spec_moves_generation, new.clone(), &old), old);
        new["spec"] = json!({"a": 2});
        let result = written(spec_moves_generation, new, &old);
        assert_eq!(result["metadata"]["generation"], 4);
    }

    #[test]
    fn a_write_of_the_status_alone_keeps_labels() {
        let old = json!({"metadata": {"labels": {"a": "1"}, "name": "x"}, "spec": {"a": 1}});
        let new = json!({"metadata": {"labels": {"a": "2"}, "finalizers": ["f"], "name": "x"},
                         "spec": {"a": 2}, "status": {"b": 2}});
        let result = written(status_alone, new, &old);
        assert_eq!(
            result,
            json!({"metadata": {"labels": {"a": "1"}, "name": "x"}, "spec": {"a": 1}, "status": {"b": 2}})
        );
    }
}
