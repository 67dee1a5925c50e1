//! Which requests a webhook or admission policy matches: rules, match resources and match
//! conditions.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/admissionregistration/validation/validation.go`: `validateRuleWithOperations`,
//!   `validateRule`, `validateResources`, `validateMatchResources`,
//!   `validateNamedRuleWithOperations`, `validateMatchConditions`

use sendo_apimachinery::admission_expressions::{CONDITION, Environment};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Operations a mutating policy can match: DELETE is missing, since a deletion has no object to
/// change.
const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const MAX_CONDITIONS: usize = 64;

fn has_wildcard(rule: &Value, key: &str) -> bool {
    check::texts(rule, key).any(|item| item == "*")
}

/// Reports a wildcard that is listed together with other entries.
fn lone_wildcard(errors: &mut Errors, path: &Path, rule: &Value, key: &str, others: &str) {
    if rule.items(key).len() > 1 && has_wildcard(rule, key) {
        let fault = format!("if '*' is present, must not specify other {others}");
        let shown = rule.at(key).clone();
        errors.push(Error::invalid(&path.child(key), shown, fault));
    }
}

/// Validates a rule with operations, API groups, API versions and resources.
pub(super) fn rule(errors: &mut Errors, path: &Path, rule: &Value) {
    let non_empty = |errors: &mut Errors, key: &str| {
        if rule.items(key).is_empty() {
            errors.push(Error::required(&path.child(key), ""));
        }
    };
    non_empty(errors, "operations");
    lone_wildcard(errors, path, rule, "operations", "operations");
    for (i, operation) in check::texts(rule, "operations").enumerate() {
        let path = path.child("operations").index(i);
        check::one_of(errors, &path, operation, &OPERATIONS);
    }
    non_empty(errors, "apiGroups");
    lone_wildcard(errors, path, rule, "apiGroups", "API groups");
    non_empty(errors, "apiVersions");
    lone_wildcard(errors, path, rule, "apiVersions", "API versions");
    for (i, version) in check::texts(rule, "apiVersions").enumerate() {
        check::required(errors, &path.child("apiVersions").index(i), version);
    }
    non_empty(errors, "resources");
    resources(errors, &path.child("resources"), rule);
    let scopes = ["*", "Cluster", "Namespaced"];
    check::optional_one_of(errors, &path.child("scope"), rule.at("scope"), &scopes);
}

/// Validates `resources`: no entry may match a resource or subresource that another entry already
/// matches.
fn resources(errors: &mut Errors, path: &Path, rule: &Value) {
    let mut whole: Vec<&str> = Vec::new();
    let mut everywhere: Vec<&str> = Vec::new();
    let mut last_is_plain = false;
    for (i, resource) in check::texts(rule, "resources").enumerate() {
        let path = path.index(i);
        let Some((name, subresource)) = resource.split_once('/') else {
            if resource.is_empty() {
                errors.push(Error::required(&path, ""));
            } else {
                last_is_plain = resource != "*";
            }
            continue;
        };
        if whole.contains(&name) {
            let fault = format!("if '{name}/*' is present, must not specify {resource}");
            errors.push(Error::invalid(&path, resource, fault));
        }
        if everywhere.contains(&subresource) {
            let fault = format!("if '*/{subresource}' is present, must not specify {resource}");
            errors.push(Error::invalid(&path, resource, fault));
        }
        if subresource == "*" {
            whole.push(name);
        }
        if name == "*" {
            everywhere.push(subresource);
        }
    }
    let mut refuse = |fault: &str| {
        let shown = rule.at("resources").clone();
        errors.push(Error::invalid(path, shown, fault));
    };
    let has = |wanted: &str| check::texts(rule, "resources").any(|item| item == wanted);
    if rule.items("resources").len() > 1 && has("*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    if has("*") && last_is_plain {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

/// Validates the match resources of a policy or of its binding.
pub(super) fn match_resources(errors: &mut Errors, path: &Path, resources: &Value) {
    match resources.at("matchPolicy").as_str() {
        Some(policy) => check::one_of(errors, &path.child("matchPolicy"), policy, &MATCH_POLICIES),
        None => errors.push(Error::required(&path.child("matchPolicy"), "")),
    }
    for key in ["namespaceSelector", "objectSelector"] {
        match resources.at(key) {
            Value::Null => errors.push(Error::required(&path.child(key), "")),
            selector => check::selector(errors, &path.child(key), selector),
        }
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in resources.items(key).iter().enumerate() {
            named_rule(errors, &path.child(key).index(i), rule);
        }
    }
}

fn named_rule(errors: &mut Errors, path: &Path, rule: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, name) in check::texts(rule, "resourceNames").enumerate() {
        let path = path.child("resourceNames").index(i);
        check::faults(errors, &path, name, names::path_segment(name));
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        } else {
            seen.push(name);
        }
    }
    self::rule(errors, path, rule);
}

/// Refuses operations that a mutating policy cannot match: a deletion has no object to change.
pub(super) fn mutable_operations(errors: &mut Errors, path: &Path, resources: &Value) {
    let path = path.child("resourceRules").child("operations");
    for rule in resources.items("resourceRules") {
        for operation in check::texts(rule, "operations") {
            check::one_of(errors, &path, operation, &MUTABLE_OPERATIONS);
        }
    }
}

/// Validates match conditions: their names, and whether their expressions compile.
pub(super) fn conditions(
    errors: &mut Errors,
    path: &Path,
    conditions: &[Value],
    environment: &Environment,
) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let expression = condition.text("expression").trim();
        let expression_path = path.child("expression");
        check::required(errors, &expression_path, expression);
        if !expression.is_empty()
            && let Err(fault) = environment.compile(expression, CONDITION, None)
        {
            errors.push(Error::invalid(&expression_path, expression, fault));
        }
        let (name, path) = (condition.text("name"), path.child("name"));
        check::required_name(errors, &path, name, names::qualified_name);
        if !name.is_empty() && seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        seen.push(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_matched_twice() {
        let cases = [
            (json!(["pods", "pods/status"]), vec![]),
            (json!(["*", "*/status"]), vec![]),
            (
                json!(["pods/*", "pods/log"]),
                vec![
                    "r[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
                ],
            ),
            (
                json!(["*/*", "pods"]),
                vec![
                    "r: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
                ],
            ),
            (
                json!(["*", "pods"]),
                vec![
                    "r: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
                ],
            ),
        ];
        for (list, expected) in cases {
            let mut errors = Vec::new();
            resources(&mut errors, &Path::new("r"), &json!({"resources": list}));
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
    }
}
