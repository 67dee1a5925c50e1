//! Rules of ReplicaSets.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidateReplicaSet`, `ValidateReplicaSetUpdate`,
//!   `ValidateReplicaSetStatusUpdate`
//! - `pkg/apis/apps/v1/defaults.go`: `SetDefaults_ReplicaSet`
//! - `pkg/registry/apps/replicaset/strategy.go`

use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::parts;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, pod, writes};

pub(super) const RULES: Rules = Rules {
    default: |replica_set| {
        let spec = replica_set.object("spec");
        spec.default_to("replicas", 1);
        pod::defaults::template(spec.object("template"));
    },
    prepare_for_create: super::create,
    prepare_for_update: super::update,
    validate: |_, replica_set| {
        let mut errors =
            check::new_metadata(replica_set, Scope::Namespaced, names::dns1123_subdomain);
        validate_spec(&mut errors, replica_set.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        validate_spec(&mut errors, new.at("spec"));
        super::fixed_selector(&mut errors, new, old);
        errors
    },
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| validate_status_update(new, old),
    warnings_on_create: super::creation_warnings,
    warnings_on_update: super::change_warnings,
    ..Rules::NEUTRAL
};

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    for key in ["replicas", "minReadySeconds"] {
        check::non_negative(errors, &path.child(key), spec.count(key));
    }
    // Kubernetes' message names a deployment here too.
    parts::selector(
        errors,
        &path.child("selector"),
        spec.at("selector"),
        "deployment",
    );
    parts::template(errors, &path.child("template"), spec, "ReplicaSet");
}

fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (status, path) = (new.at("status"), Path::new("status"));
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    parts::counts(&mut errors, &path, status, &counts);
    let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    parts::parts_of_replicas(&mut errors, &path, status, &of_replicas);
    parts::available_are_ready(&mut errors, &path, status, "readyReplicas");
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_of_a_status_fit_together() {
        let set = |status: Value| json!({"metadata": {"name": "r", "namespace": "n", "resourceVersion": "1"}, "status": status});
        let fields = |status: Value| -> Vec<String> {
            let errors = validate_status_update(&set(status), &set(json!({})));
            errors.into_iter().map(|error| error.field).collect()
        };
        assert!(
            fields(json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1})).is_empty()
        );
        assert_eq!(
            fields(json!({"replicas": -1})),
            [
                "status.replicas",
                "status.fullyLabeledReplicas",
                "status.readyReplicas",
                "status.availableReplicas"
            ]
        );
        assert_eq!(
            fields(json!({"replicas": 2, "availableReplicas": 1})),
            ["status.availableReplicas"]
        );
    }
}
