//! Rules of Leases.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/coordination/validation/validation.go`: `ValidateLease`, `ValidateLeaseUpdate`,
//!   `ValidateLeaseSpec`
//! - `pkg/registry/coordination/lease/strategy.go`
//! - `pkg/features/kube_features.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::Rules;
use super::check::{self, Errors};
use super::value::{Read, Write};

/// Fields of the CoordinatedLeaderElection feature, which is disabled by default in this version.
const UNSERVED: [&str; 2] = ["preferredHolder", "strategy"];

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |_, lease| {
        let spec = lease.object("spec");
        UNSERVED.iter().for_each(|key| spec.remove(key));
    },
    prepare_for_update: |_, new, old| {
        for key in UNSERVED.iter().filter(|key| !old.at("spec").has(key)) {
            new.object("spec").remove(key);
        }
    },
    validate: |_, lease| {
        let mut errors =
            check::new_plain_metadata(lease, Scope::Namespaced, names::dns1123_subdomain);
        validate_spec(&mut errors, lease.at("spec"));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_plain_metadata(new, old);
        validate_spec(&mut errors, new.at("spec"));
        errors
    },
    create_on_update: true,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = Path::new("spec");
    if let Some(seconds) = spec
        .number("leaseDurationSeconds")
        .filter(|seconds| *seconds <= 0)
    {
        errors.push(Error::invalid(
            &path.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    check::non_negative(
        errors,
        &path.child("leaseTransitions"),
        spec.count("leaseTransitions"),
    );
}
