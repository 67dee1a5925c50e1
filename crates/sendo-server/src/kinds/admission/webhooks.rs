//! Rules of ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/admissionregistration/validation/validation.go`: `validateValidatingWebhook`,
//!   `validateMutatingWebhook`, `ValidateValidatingWebhookConfigurationUpdate`,
//!   `ValidateMutatingWebhookConfigurationUpdate`, `validateAdmissionReviewVersions`
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go`

use sendo_apimachinery::admission_expressions::Environment;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use sendo_apimachinery::selector::{InvalidValues, validate_label_selector};
use serde_json::Value;

use super::matching::{self, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES};
use super::url::Url;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

/// The AdmissionReview versions that the API server can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Faults that an update may keep because the old object already has them.
struct Leniency {
    conditions: bool,
    side_effects: bool,
    reviews: bool,
    names: bool,
    label_values: bool,
}

pub(super) fn validate(configuration: &Value) -> Errors {
    let strict = Leniency {
        conditions: false,
        side_effects: false,
        reviews: false,
        names: false,
        label_values: false,
    };
    configuration_errors(configuration, &strict)
}

pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let hooks = old.items("webhooks");
    let conditions = |configuration: &Value| {
        let hooks = configuration.items("webhooks").iter();
        hooks
            .map(|hook| hook.at("matchConditions").clone())
            .collect::<Vec<_>>()
    };
    let names: Vec<&str> = hooks.iter().map(|hook| hook.text("name")).collect();
    let leniency = Leniency {
        conditions: conditions(new) == conditions(old),
        side_effects: !hooks
            .iter()
            .all(|hook| NO_SIDE_EFFECTS.contains(&hook.text("sideEffects"))),
        reviews: hooks
            .iter()
            .any(|hook| hook.has("admissionReviewVersions") && !has_known_review(hook)),
        names: (1..names.len()).any(|i| names[..i].contains(&names[i])),
        label_values: hooks.iter().any(|hook| {
            let mut errors = Vec::new();
            selectors(&mut errors, &Path::root(), hook, InvalidValues::Refused);
            !errors.is_empty()
        }),
    };
    configuration_errors(new, &leniency)
}

fn has_known_review(hook: &Value) -> bool {
    check::texts(hook, "admissionReviewVersions").any(|version| REVIEWS.contains(&version))
}

fn configuration_errors(configuration: &Value, leniency: &Leniency) -> Errors {
    let mut errors =
        check::new_plain_metadata(configuration, Scope::Cluster, names::dns1123_subdomain);
    let mut seen: Vec<&str> = Vec::new();
    for (i, hook) in configuration.items("webhooks").iter().enumerate() {
        let path = Path::new("webhooks").index(i);
        webhook(&mut errors, &path, hook, leniency);
        reviews(&mut errors, &path, hook, leniency);
        let name = hook.text("name");
        if !leniency.names && !name.is_empty() && seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
    }
    errors
}

fn webhook(errors: &mut Errors, path: &Path, hook: &Value, leniency: &Leniency) {
    let name = hook.text("name");
    errors.extend(names::fully_qualified_name(&path.child("name"), name));
    for (i, rule) in hook.items("rules").iter().enumerate() {
        matching::rule(errors, &path.child("rules").index(i), rule);
    }
    for (key, policies) in [
        ("failurePolicy", FAILURE_POLICIES),
        ("matchPolicy", MATCH_POLICIES),
    ] {
        check::optional_one_of(errors, &path.child(key), hook.at(key), &policies);
    }
    side_effects(errors, &path.child("sideEffects"), hook, leniency);
    if let Some(seconds) = hook.number("timeoutSeconds")
        && !(1..=30).contains(&seconds)
    {
        let fault = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(
            &path.child("timeoutSeconds"),
            seconds,
            fault,
        ));
    }
    let values = match leniency.label_values {
        true => InvalidValues::Allowed,
        false => InvalidValues::Refused,
    };
    selectors(errors, path, hook, values);
    check::optional_one_of(
        errors,
        &path.child("reinvocationPolicy"),
        hook.at("reinvocationPolicy"),
        &REINVOCATION_POLICIES,
    );
    client(errors, &path.child("clientConfig"), hook.at("clientConfig"));
    if !leniency.conditions {
        let path = path.child("matchConditions");
        let (all, environment) = (hook.items("matchConditions"), Environment::new(false));
        matching::conditions(errors, &path, all, &environment);
    }
}

fn side_effects(errors: &mut Errors, path: &Path, hook: &Value, leniency: &Leniency) {
    let allowed: &[&str] = match leniency.side_effects {
        true => &SIDE_EFFECTS,
        false => &NO_SIDE_EFFECTS,
    };
    match hook.at("sideEffects").as_str() {
        Some(effects) => check::one_of(errors, path, effects, allowed),
        None => {
            let why = format!("must specify one of {}", allowed.join(", "));
            errors.push(Error::required(path, why));
        }
    }
}

fn selectors(errors: &mut Errors, path: &Path, hook: &Value, values: InvalidValues) {
    for key in ["namespaceSelector", "objectSelector"] {
        let selector = Some(hook.at(key)).filter(|selector| !selector.is_null());
        errors.extend(validate_label_selector(selector, values, &path.child(key)));
    }
}

fn reviews(errors: &mut Errors, path: &Path, hook: &Value, leniency: &Leniency) {
    let (key, path) = (
        "admissionReviewVersions",
        path.child("admissionReviewVersions"),
    );
    let known = REVIEWS.join(", ");
    if hook.items(key).is_empty() {
        let why = format!("must specify one of {known}");
        errors.push(Error::required(&path, why));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in check::texts(hook, key).enumerate() {
        let path = path.index(i);
        if seen.contains(&version) {
            errors.push(Error::invalid(&path, version, "duplicate version"));
            continue;
        }
        seen.push(version);
        check::faults(errors, &path, version, names::dns1035_label(version));
    }
    if !leniency.reviews && !has_known_review(hook) {
        let fault = format!("must include at least one of {known}");
        errors.push(Error::invalid(&path, hook.at(key).clone(), fault));
    }
}

/// Validates a client configuration: exactly one of a URL and a service reference.
pub(crate) fn client(errors: &mut Errors, path: &Path, client: &Value) {
    match (client.at("url").as_str(), client.has("service")) {
        (Some(url), false) => self::url(errors, &path.child("url"), url),
        (None, true) => service(errors, &path.child("service"), client.at("service")),
        _ => {
            let why = "exactly one of url or service is required";
            errors.push(Error::required(path, why));
        }
    }
}

fn url(errors: &mut Errors, path: &Path, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parts = match Url::parse(url) {
        Ok(parts) => parts,
        Err(fault) => {
            let why = format!("url must be a valid URL: {fault}{FORM}");
            errors.push(Error::required(path, why));
            return;
        }
    };
    let mut refuse = |shown: &str, fault: String| errors.push(Error::invalid(path, shown, fault));
    if parts.scheme != "https" {
        let fault = format!("'https' is the only allowed URL scheme{FORM}");
        refuse(&parts.scheme, fault);
    }
    if parts.host.is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    for (part, name) in [
        (parts.user, "user information is"),
        (
            Some(parts.fragment).filter(|part| !part.is_empty()),
            "fragments are",
        ),
        (
            Some(parts.query).filter(|part| !part.is_empty()),
            "query parameters are",
        ),
    ] {
        if let Some(part) = part {
            refuse(part, format!("{name} not permitted in the URL"));
        }
    }
}

fn service(errors: &mut Errors, path: &Path, service: &Value) {
    // Kubernetes reports a missing namespace at `name` and a missing name at `namespace`.
    for (key, shown) in [("namespace", "name"), ("name", "namespace")] {
        check::required(errors, &path.child(shown), service.text(key));
    }
    let port = service.count("port");
    let faults = names::port_number(port);
    if !faults.is_empty() {
        let fault = format!("port is not valid: {}", faults.join(", "));
        errors.push(Error::invalid(&path.child("port"), port, fault));
    }
    if let Some(url_path) = service.at("path").as_str() {
        service_path(errors, &path.child("path"), url_path);
    }
}

fn service_path(errors: &mut Errors, path: &Path, url_path: &str) {
    let mut refuse = |fault: String| errors.push(Error::invalid(path, url_path, fault));
    let empty = |i: usize| format!("segment[{i}] may not be empty");
    match url_path {
        "" | "/" => return,
        "//" => return refuse(empty(0)),
        _ => {}
    }
    if !url_path.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    // Kubernetes drops the first character even if it is not a slash.
    let mut rest = url_path.chars();
    rest.next();
    let rest = rest.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (i, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            refuse(empty(i));
            continue;
        }
        for fault in names::dns1123_subdomain(segment) {
            refuse(format!("segment[{i}]: {fault}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hook(change: impl FnOnce(&mut Value)) -> Value {
        let mut hook = json!({
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com/x"},
        });
        change(&mut hook);
        json!({"metadata": {"name": "c"}, "webhooks": [hook]})
    }

    fn texts(errors: &Errors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_webhook_says_how_it_is_reached_and_what_it_does() {
        assert_eq!(validate(&hook(|_| {})), []);
        let bare = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "a.example.com"}]});
        assert_eq!(
            texts(&validate(&bare)),
            [
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn urls_are_plain_https() {
        let cases = [
            ("https://example.com:443/x", vec![]),
            (
                "http://example.com",
                vec!["\"http\": 'https' is the only allowed"],
            ),
            (
                "https://u@example.com/x?a=b#c",
                vec!["\"u\": user", "\"c\": fragments", "\"a=b\": query"],
            ),
            ("https:///x", vec!["\"\": host must be specified"]),
        ];
        for (url, starts) in cases {
            let found = texts(&validate(&hook(|hook| {
                hook["clientConfig"]["url"] = url.into()
            })));
            assert_eq!(found.len(), starts.len(), "{url}: {found:?}");
            for (text, start) in found.iter().zip(starts) {
                let start = format!("webhooks[0].clientConfig.url: Invalid value: {start}");
                assert!(text.starts_with(&start), "{text}");
            }
        }
    }

    #[test]
    fn side_effects_that_were_taken_before_may_stay() {
        let old = hook(|hook| hook["sideEffects"] = "Some".into());
        assert_eq!(validate(&old).len(), 1);
        assert_eq!(validate_update(&old, &old), []);
        assert_eq!(validate_update(&old, &hook(|_| {})).len(), 1);
    }
}
