//! Validation of the specs of ResourceClaims and DeviceClasses.
//!
//! CEL expressions of selectors are stored without being compiled.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/resource/validation/validation.go`: `validateDeviceClassSpec`,
//!   `validateDeviceClaim`, `validateDeviceRequest`, `validateSelectorSlice`,
//!   `validateRequestNameRef`, `validateDeviceConstraint`, `validateDeviceConfiguration`,
//!   `validateDeviceToleration`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names as forms;
use serde_json::Value;

use super::names;
use crate::kinds::check::{self, Errors};
use crate::kinds::pod::sources::driver_name;
use crate::kinds::value::Read;

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_CONFIGS: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_SUBREQUESTS: usize = 8;
const MAX_EXPRESSION: usize = 10 * 1024;
const MAX_PARAMETERS: usize = 10 * 1024;
const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a \
                       subrequest separated by '/'";

/// Validates the spec of a DeviceClass.
pub(super) fn class(errors: &mut Errors, path: &Path, spec: &Value) {
    selectors(errors, &path.child("selectors"), spec.items("selectors"));
    each(
        errors,
        &path.child("config"),
        spec.items("config"),
        MAX_CONFIGS,
        configuration,
    );
}

/// Validates `spec.devices` of a claim.
pub(super) fn devices(errors: &mut Errors, path: &Path, spec: &Value) {
    let (path, devices) = (path.child("devices"), spec.at("devices"));
    let requests = devices.items("requests");
    let path_of_requests = path.child("requests");
    each(errors, &path_of_requests, requests, MAX_REQUESTS, request);
    unique(errors, &path_of_requests, requests, MAX_REQUESTS, |r| {
        r.text("name")
    });
    let constraints = devices.items("constraints");
    each(
        errors,
        &path.child("constraints"),
        constraints,
        MAX_CONSTRAINTS,
        |errors, path, item| {
            references(errors, &path.child("requests"), item, requests);
            constraint(errors, path, item);
        },
    );
    let configs = devices.items("config");
    each(
        errors,
        &path.child("config"),
        configs,
        MAX_CONFIGS,
        |errors, path, item| {
            references(errors, &path.child("requests"), item, requests);
            configuration(errors, path, item);
        },
    );
}

/// Validates each item of a list, unless there are too many.
fn each(
    errors: &mut Errors,
    path: &Path,
    items: &[Value],
    most: usize,
    validate: impl Fn(&mut Errors, &Path, &Value),
) {
    if items.len() > most {
        errors.push(Error::too_many(path, items.len(), most));
        return;
    }
    for (i, item) in items.iter().enumerate() {
        validate(errors, &path.index(i), item);
    }
}

fn unique(
    errors: &mut Errors,
    path: &Path,
    items: &[Value],
    most: usize,
    key: impl Fn(&Value) -> &str,
) {
    if items.len() > most {
        return;
    }
    for (i, item) in items.iter().enumerate() {
        if items[..i].iter().any(|other| key(other) == key(item)) {
            errors.push(Error::duplicate(&path.index(i), key(item)));
        }
    }
}

fn request(errors: &mut Errors, path: &Path, request: &Value) {
    let name = request.text("name");
    check::faults(
        errors,
        &path.child("name"),
        name,
        forms::dns1123_label(name),
    );
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let choices = request.items("firstAvailable");
    match (request.has("exactly"), choices.is_empty()) {
        (false, true) => errors.push(Error::required(path, ONE)),
        (true, false) => {
            let fault = format!("{ONE}, but multiple fields are set");
            errors.push(Error::invalid(path, Value::Null, fault));
        }
        (true, true) => requested_devices(errors, &path.child("exactly"), request.at("exactly")),
        (false, false) => {
            let path = path.child("firstAvailable");
            each(
                errors,
                &path,
                choices,
                MAX_SUBREQUESTS,
                |errors, path, choice| {
                    let name = choice.text("name");
                    check::faults(
                        errors,
                        &path.child("name"),
                        name,
                        forms::dns1123_label(name),
                    );
                    requested_devices(errors, path, choice);
                },
            );
            unique(errors, &path, choices, MAX_SUBREQUESTS, |choice| {
                choice.text("name")
            });
        }
    }
}

/// Validates the fields that an exact request and a subrequest share: device class, selectors,
/// allocation mode, count and tolerations.
fn requested_devices(errors: &mut Errors, path: &Path, request: &Value) {
    let class = path.child("deviceClassName");
    check::required_name(
        errors,
        &class,
        request.text("deviceClassName"),
        forms::dns1123_subdomain,
    );
    selectors(errors, &path.child("selectors"), request.items("selectors"));
    let (count, count_path) = (request.count("count"), path.child("count"));
    match request.text("allocationMode") {
        "All" if count != 0 => {
            let fault = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&count_path, count, fault));
        }
        "All" => {}
        "ExactCount" => check::positive(errors, &count_path, count),
        mode => {
            let path = path.child("allocationMode");
            errors.push(Error::not_supported(&path, mode, &["All", "ExactCount"]));
        }
    }
    for (i, own) in request.items("tolerations").iter().enumerate() {
        toleration(errors, &path.child("tolerations").index(i), own);
    }
}

fn toleration(errors: &mut Errors, path: &Path, toleration: &Value) {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        check::label_name(errors, &path.child("key"), key);
    }
    let operator = path.child("operator");
    match toleration.text("operator") {
        "Exists" if !value.is_empty() => {
            let fault = "must be empty for operator `Exists`";
            errors.push(Error::invalid(&path.child("value"), value, fault));
        }
        "Exists" => {}
        "Equal" => check::faults(
            errors,
            &path.child("value"),
            value,
            forms::label_value(value),
        ),
        "" => errors.push(Error::required(&operator, "")),
        other => errors.push(Error::not_supported(&operator, other, &["Equal", "Exists"])),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() {
        check::one_of(
            errors,
            &path.child("effect"),
            effect,
            &super::slice::EFFECTS,
        );
    }
}

fn selectors(errors: &mut Errors, path: &Path, selectors: &[Value]) {
    each(
        errors,
        path,
        selectors,
        MAX_SELECTORS,
        |errors, path, selector| {
            let cel = path.child("cel");
            if !selector.has("cel") {
                errors.push(Error::required(&cel, ""));
            } else if selector.at("cel").text("expression").len() > MAX_EXPRESSION {
                errors.push(Error::too_long(&cel.child("expression"), MAX_EXPRESSION));
            }
        },
    );
}

/// Validates the request names that a constraint or a configuration refers to.
fn references(errors: &mut Errors, path: &Path, item: &Value, requests: &[Value]) {
    let references = item.items("requests");
    each(
        errors,
        path,
        references,
        MAX_REQUESTS,
        |errors, path, reference| {
            let reference = reference.as_str().unwrap_or_default();
            let parts: Vec<&str> = reference.split('/').collect();
            if parts.len() <= 2 {
                for part in &parts {
                    check::faults(errors, path, part, forms::dns1123_label(part));
                }
            }
            if !is_request(&parts, requests) {
                errors.push(Error::invalid(path, reference, UNKNOWN));
            }
        },
    );
    unique(errors, path, references, MAX_REQUESTS, |own| {
        own.as_str().unwrap_or_default()
    });
}

fn is_request(parts: &[&str], requests: &[Value]) -> bool {
    let named = |name: &str| {
        requests
            .iter()
            .rfind(|request| request.text("name") == name)
    };
    match parts {
        [request] => named(request).is_some(),
        [request, choice] => named(request).is_some_and(|request| {
            let mut choices = request.items("firstAvailable").iter();
            choices.any(|own| own.text("name") == *choice)
        }),
        _ => false,
    }
}

fn constraint(errors: &mut Errors, path: &Path, constraint: &Value) {
    let attribute = |key: &str| constraint.at(key).as_str();
    match (attribute("matchAttribute"), attribute("distinctAttribute")) {
        (Some(name), _) => names::fully_qualified(errors, &path.child("matchAttribute"), name),
        (None, Some(name)) => {
            names::fully_qualified(errors, &path.child("distinctAttribute"), name);
        }
        (None, None) => {
            let fault = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.push(Error::required(path, fault));
        }
    }
}

/// Validates opaque driver configuration: its driver name and its size.
fn configuration(errors: &mut Errors, path: &Path, config: &Value) {
    let path = path.child("opaque");
    if !config.has("opaque") {
        errors.push(Error::required(&path, ""));
        return;
    }
    let opaque = config.at("opaque");
    driver_name(errors, &path.child("driver"), opaque.text("driver"));
    let path = path.child("parameters");
    match opaque.at("parameters") {
        Value::Null => errors.push(Error::required(&path, "")),
        parameters if parameters.to_string().len() > MAX_PARAMETERS => {
            errors.push(Error::too_long(&path, MAX_PARAMETERS));
        }
        Value::Object(_) => {}
        _ => {
            let fault = "must be a valid JSON object";
            errors.push(Error::invalid(&path, "<value omitted>", fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(claim: Value) -> Vec<String> {
        let mut errors = Vec::new();
        devices(
            &mut errors,
            &Path::new("spec"),
            &json!({ "devices": claim }),
        );
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_is_for_one_thing() {
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let one = json!({"name": "r", "exactly": exactly});
        assert!(faults(json!({"requests": [one]})).is_empty());
        assert_eq!(
            faults(json!({"requests": [{"name": "r"}]})),
            [
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
            ]
        );
        assert_eq!(
            faults(json!({"requests": [one, one]})),
            ["spec.devices.requests[1]: Duplicate value: \"r\""]
        );
    }

    #[test]
    fn a_reference_names_a_request_or_one_of_its_choices() {
        let choice = json!({"name": "s", "deviceClassName": "gpu", "allocationMode": "All"});
        let requests = json!([{"name": "r", "firstAvailable": [choice]}]);
        let constraint =
            |name: &str| json!([{"requests": [name], "matchAttribute": "a.example/numa"}]);
        for (name, known) in [
            ("r", true),
            ("r/s", true),
            ("r/t", false),
            ("q", false),
            ("r/s/t", false),
        ] {
            let found = faults(json!({"requests": requests, "constraints": constraint(name)}));
            assert_eq!(found.is_empty(), known, "{name}: {found:?}");
        }
    }
}
