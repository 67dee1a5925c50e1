//! Rules of `admissionregistration.k8s.io`: webhook configurations, admission policies and their
//! bindings.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/admissionregistration/v1/defaults.go`
//! - `pkg/apis/admissionregistration/validation/static_suffix.go`
//! - `pkg/registry/admissionregistration/mutatingadmissionpolicy/strategy.go`
//! - `pkg/registry/admissionregistration/mutatingadmissionpolicybinding/strategy.go`
//! - `pkg/registry/admissionregistration/mutatingwebhookconfiguration/strategy.go`
//! - `pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go`
//! - `pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go`
//! - `pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go`

mod bindings;
mod matching;
mod policies;
mod url;
mod webhooks;

pub(crate) use webhooks::client as webhook_client;

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Cx, Rules, writes};

/// The name suffix that is reserved for configuration read from manifest files.
const STATIC_SUFFIX: &str = ".static.k8s.io";

const BASE: Rules = Rules {
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

pub(super) const VALIDATING_WEBHOOKS: Rules = Rules {
    default: |object| {
        object
            .items_mut("webhooks")
            .iter_mut()
            .for_each(default_webhook)
    },
    prepare_for_create: |_, object| writes::first_generation(object),
    prepare_for_update: webhooks_move_generation,
    validate: |_, object| webhooks::validate(object),
    validate_update: |_, new, old| webhooks::validate_update(new, old),
    ..BASE
};

pub(super) const MUTATING_WEBHOOKS: Rules = Rules {
    default: |object| {
        for webhook in object.items_mut("webhooks") {
            webhook.default_to("reinvocationPolicy", "Never");
            default_webhook(webhook);
        }
    },
    ..VALIDATING_WEBHOOKS
};

pub(super) const VALIDATING_POLICY: Rules = Rules {
    default: default_policy,
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_alone,
    validate: |_, policy| policies::validating(policy, &Value::Null),
    validate_update: |_, new, old| policies::validating(new, old),
    validate_status_update: |_, new, _| policies::status(new.at("status")),
    ..BASE
};

pub(super) const MUTATING_POLICY: Rules = Rules {
    default: default_policy,
    prepare_for_create: |_, object| writes::first_generation(object),
    prepare_for_update: spec_moves_generation,
    validate: |_, policy| policies::mutating(policy, &Value::Null),
    validate_update: |_, new, old| policies::mutating(new, old),
    ..BASE
};

pub(super) const VALIDATING_BINDING: Rules = Rules {
    validate: |_, binding| bindings::validating(binding),
    validate_update: |_, new, _| bindings::validating(new),
    ..BINDING
};

pub(super) const MUTATING_BINDING: Rules = Rules {
    validate: |_, binding| bindings::mutating(binding),
    validate_update: |_, new, _| bindings::mutating(new),
    ..BINDING
};

const BINDING: Rules = Rules {
    default: |object| {
        if let Some(resources) = object.object("spec").existing("matchResources") {
            default_match_resources(resources);
        }
    },
    prepare_for_create: |_, object| writes::first_generation(object),
    prepare_for_update: spec_moves_generation,
    ..BASE
};

fn warnings(object: &Value) -> Vec<String> {
    if !object.at("metadata").text("name").ends_with(STATIC_SUFFIX) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based \
         configurations and cannot be managed via the API"
    )]
}

fn webhooks_move_generation(_: &Cx<'_>, new: &mut Value, old: &Value) {
    if new.at("webhooks") != old.at("webhooks") {
        writes::next_generation(new, old);
    }
}

fn spec_moves_generation(_: &Cx<'_>, new: &mut Value, old: &Value) {
    if new.at("spec") != old.at("spec") {
        writes::next_generation(new, old);
    }
}

fn default_webhook(webhook: &mut Value) {
    webhook.default_to("failurePolicy", "Fail");
    default_match(webhook);
    webhook.default_to("timeoutSeconds", 10);
    webhook.items_mut("rules").iter_mut().for_each(default_rule);
    if let Some(service) = webhook.object("clientConfig").existing("service") {
        service.default_to("port", 443);
    }
}

fn default_policy(policy: &mut Value) {
    let spec = policy.object("spec");
    spec.default_to("failurePolicy", "Fail");
    if let Some(constraints) = spec.existing("matchConstraints") {
        default_match_resources(constraints);
    }
}

fn default_match_resources(resources: &mut Value) {
    default_match(resources);
    for key in ["resourceRules", "excludeResourceRules"] {
        resources.items_mut(key).iter_mut().for_each(default_rule);
    }
}

/// Defaults of match resources: equivalent requests, all namespaces, all objects.
fn default_match(resources: &mut Value) {
    resources.default_to("matchPolicy", "Equivalent");
    resources.default_to("namespaceSelector", json!({}));
    resources.default_to("objectSelector", json!({}));
}

fn default_rule(rule: &mut Value) {
    rule.default_to("scope", "*");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_fails_closed_after_ten_seconds() {
        let mut object =
            json!({"webhooks": [{"clientConfig": {"service": {"name": "s"}}, "rules": [{}]}]});
        (MUTATING_WEBHOOKS.default)(&mut object);
        assert_eq!(
            object["webhooks"][0],
            json!({
                "clientConfig": {"service": {"name": "s", "port": 443}},
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "reinvocationPolicy": "Never",
                "rules": [{"scope": "*"}],
                "timeoutSeconds": 10,
            })
        );
    }
}
