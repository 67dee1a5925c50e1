//! Rules of ServiceAccounts.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateServiceAccount`,
//!   `ValidateServiceAccountUpdate`
//! - `pkg/registry/core/serviceaccount/strategy.go`

use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::Rules;
use super::check::{self, Errors};
use super::value::{Read, Write};

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |_, account| names_of_secrets(account),
    prepare_for_update: |_, new, _| names_of_secrets(new),
    validate: |_, account| validate(account),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        errors.extend(validate(new));
        errors
    },
    warnings_on_create: |account| warnings(account, &Value::Null),
    warnings_on_update: warnings,
    ..Rules::NEUTRAL
};

fn validate(account: &Value) -> Errors {
    check::new_metadata(account, Scope::Namespaced, names::dns1123_subdomain)
}

/// Drops all fields of secret references except the name: the Secrets are in the account's
/// namespace.
fn names_of_secrets(account: &mut Value) {
    for secret in account.items_mut("secrets") {
        *secret = json!({"name": secret.at("name")});
    }
}

fn warnings(new: &Value, old: &Value) -> Vec<String> {
    let has = |account: &Value| {
        account
            .at("metadata")
            .at("annotations")
            .has(MOUNTABLE_SECRETS)
    };
    if !has(new) || has(old) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; \
         prefer separate namespaces to isolate access to mounted secrets"
    )]
}
