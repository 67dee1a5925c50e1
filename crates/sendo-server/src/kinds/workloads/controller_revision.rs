//! Rules of ControllerRevisions.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidateControllerRevisionCreate`,
//!   `ValidateControllerRevisionUpdate`
//! - `pkg/registry/apps/controllerrevision/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::Rules;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

pub(super) const RULES: Rules = Rules {
    validate: |_, revision| {
        let mut errors = validate(revision);
        let fault = match revision.at("data") {
            Value::Object(_) => return errors,
            Value::Null => "data is mandatory",
            _ => "data must be a valid JSON object",
        };
        errors.push(Error::required(&Path::new("data"), fault));
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        errors.extend(validate(new));
        check::immutable(
            &mut errors,
            &Path::new("data"),
            new.at("data"),
            old.at("data"),
        );
        errors
    },
    ..Rules::NEUTRAL
};

fn validate(revision: &Value) -> Errors {
    let mut errors = check::new_metadata(revision, Scope::Namespaced, names::dns1123_subdomain);
    check::non_negative(
        &mut errors,
        &Path::new("revision"),
        revision.count("revision"),
    );
    errors
}
