//! Rules of admission policy bindings: match resources, parameter references and validation
//! actions.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/admissionregistration/validation/validation.go`:
//!   `ValidateValidatingAdmissionPolicyBinding`, `ValidateMutatingAdmissionPolicyBinding`,
//!   `validateParamRef`, `validateValidationActions`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::matching;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

/// Validates a ValidatingAdmissionPolicyBinding.
pub(super) fn validating(binding: &Value) -> Errors {
    let mut errors = validate_common(binding);
    let path = Path::new("spec").child("validationActions");
    actions(&mut errors, &path, binding.at("spec"));
    errors
}

/// Validates a MutatingAdmissionPolicyBinding.
pub(super) fn mutating(binding: &Value) -> Errors {
    let mut errors = validate_common(binding);
    let path = Path::new("spec").child("matchResources");
    let resources = binding.at("spec").at("matchResources");
    matching::mutable_operations(&mut errors, &path, resources);
    errors
}

fn validate_common(binding: &Value) -> Errors {
    let mut errors = check::new_plain_metadata(binding, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (binding.at("spec"), Path::new("spec"));
    check::required_name(
        &mut errors,
        &path.child("policyName"),
        spec.text("policyName"),
        names::dns1123_subdomain,
    );
    if spec.has("paramRef") {
        parameters(&mut errors, &path.child("paramRef"), spec.at("paramRef"));
    }
    if spec.has("matchResources") {
        let path = path.child("matchResources");
        matching::match_resources(&mut errors, &path, spec.at("matchResources"));
    }
    errors
}

/// Validates a `paramRef`, which selects parameters either by name or by label selector.
fn parameters(errors: &mut Errors, path: &Path, reference: &Value) {
    const EITHER: &str = "name and selector are mutually exclusive";
    let (name, selector) = (reference.text("name"), reference.at("selector"));
    let (name_path, selector_path) = (path.child("name"), path.child("selector"));
    let is_both = !name.is_empty() && !selector.is_null();
    if !name.is_empty() {
        check::faults(errors, &name_path, name, names::path_segment(name));
    }
    if is_both {
        errors.push(Error::forbidden(&name_path, EITHER));
    }
    check::selector(errors, &selector_path, selector);
    if is_both {
        errors.push(Error::forbidden(&selector_path, EITHER));
    }
    if name.is_empty() && selector.is_null() {
        let why = "one of name or selector must be specified";
        errors.push(Error::required(path, why));
    }
    check::required_one_of(
        errors,
        &path.child("parameterNotFoundAction"),
        reference.text("parameterNotFoundAction"),
        &["Deny", "Allow"],
    );
}

/// Validates `validationActions`: each action occurs once, and `Deny` and `Warn`, which both reach
/// the client, exclude each other.
fn actions(errors: &mut Errors, path: &Path, spec: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, action) in check::texts(spec, "validationActions").enumerate() {
        let path = path.index(i);
        check::one_of(errors, &path, action, &["Audit", "Deny", "Warn"]);
        if seen.contains(&action) {
            errors.push(Error::duplicate(&path, action));
        }
        seen.push(action);
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let fault = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                     API response and headers serves no purpose)";
        let shown = spec.at("validationActions").clone();
        errors.push(Error::invalid(path, shown, fault));
    }
    if seen.is_empty() {
        let why = "at least one validation action is required";
        errors.push(Error::required(path, why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn validation_actions_are_unique() {
        for (list, count) in [
            (json!(["Deny"]), 0),
            (json!(["Warn", "Audit"]), 0),
            (json!(["Deny", "Warn"]), 1),
            (json!(["Audit", "Audit"]), 1),
            (json!([]), 1),
        ] {
            let mut errors = Vec::new();
            let spec = json!({"validationActions": list});
            actions(&mut errors, &Path::new("a"), &spec);
            assert_eq!(errors.len(), count, "{list}");
        }
    }

    #[test]
    fn parameters_are_named_or_selected() {
        let both = json!({"name": "x", "selector": {}, "parameterNotFoundAction": "Deny"});
        let mut errors = Vec::new();
        parameters(&mut errors, &Path::new("p"), &both);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["p.name", "p.selector"]);
    }
}
