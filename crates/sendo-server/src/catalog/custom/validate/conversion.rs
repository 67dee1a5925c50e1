//! Validation of `spec.conversion`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`:
//!   `validateCustomResourceConversion`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::{Value, json};

use crate::catalog::custom::{text, texts};
use crate::kinds::webhook_client;

/// Validates the conversion strategy and its webhook.
pub(super) fn validate(conversion: &Value, path: &Path) -> Vec<Error> {
    let strategy = text(&conversion["strategy"]);
    let webhook = &conversion["webhook"];
    let (client, client_path) = (&webhook["clientConfig"], path.child("webhookClientConfig"));
    let versions = texts(&webhook["conversionReviewVersions"]);
    let versions_path = path.child("conversionReviewVersions");
    let mut errors = Vec::new();
    if strategy != "Webhook" {
        if strategy != "None" {
            let known = ["None", "Webhook"];
            errors.push(Error::not_supported(
                &path.child("strategy"),
                strategy,
                &known,
            ));
        }
        let why = "should not be set when strategy is not set to Webhook";
        for (path, is_set) in [
            (client_path, !client.is_null()),
            (versions_path, !versions.is_empty()),
        ] {
            errors.extend(is_set.then(|| Error::forbidden(&path, why)));
        }
        return errors;
    }
    if client.is_null() {
        let why = "required when strategy is set to Webhook";
        errors.push(Error::required(&client_path, why));
    } else {
        webhook_client(&mut errors, &client_path, client);
    }
    if versions.is_empty() {
        errors.push(Error::required(&versions_path, ""));
        return errors;
    }
    for (i, version) in versions.iter().enumerate() {
        let path = versions_path.index(i);
        if versions[..i].contains(version) {
            errors.push(Error::invalid(&path, version.as_str(), "duplicate version"));
            continue;
        }
        let faults = names::dns1035_label(version).into_iter();
        errors.extend(faults.map(|fault| Error::invalid(&path, version.as_str(), fault)));
    }
    let accepted = ["v1", "v1beta1"];
    if !versions.iter().any(|own| accepted.contains(&own.as_str())) {
        let why = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(&versions_path, json!(versions), why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_webhook_converts_by_one() {
        let errors_of = |conversion: Value| -> Vec<String> {
            let errors = validate(&conversion, &Path::new("c"));
            errors.iter().map(ToString::to_string).collect()
        };
        let client = json!({"url": "https://example.com/x"});
        let by = |versions: &[&str]| json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": versions}});
        assert!(errors_of(json!({"strategy": "None"})).is_empty());
        assert!(errors_of(by(&["v2", "v1"])).is_empty());
        assert_eq!(
            errors_of(
                json!({"strategy": "None", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
            ),
            [
                "c.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
                "c.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ]
        );
        assert_eq!(
            errors_of(by(&["v2", "v2"])),
            [
                "c.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
                "c.conversionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
            ]
        );
        let nowhere = json!({"strategy": "Webhook", "webhook": {"clientConfig": {}}});
        assert_eq!(
            errors_of(nowhere),
            [
                "c.webhookClientConfig: Required value: exactly one of url or service is required",
                "c.conversionReviewVersions: Required value",
            ]
        );
    }
}
