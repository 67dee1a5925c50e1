//! Rules of ValidatingAdmissionPolicies and MutatingAdmissionPolicies.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/admissionregistration/validation/validation.go`:
//!   `validateValidatingAdmissionPolicy`, `validateMutatingAdmissionPolicy`, `validateParamKind`,
//!   `validateVariable`, `validateValidation`, `validateAuditAnnotation`, `validateMutation`,
//!   `ValidateValidatingAdmissionPolicyStatusUpdate`, `isCELIdentifier`

use sendo_apimachinery::admission_expressions::{
    ANNOTATION, CONDITION, Environment, MESSAGE, apply_configuration, json_patch,
};
use sendo_apimachinery::cel::{Composed, Type};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::matching::{self, FAILURE_POLICIES, REINVOCATION_POLICIES};
use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;

/// Reserved words of CEL, which cannot be identifiers.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Validates a ValidatingAdmissionPolicy. `old` is null on create.
pub(super) fn validating(policy: &Value, old: &Value) -> Errors {
    let mut errors = check::new_plain_metadata(policy, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (policy.at("spec"), Path::new("spec"));
    let environment = Environment::new(spec.has("paramKind"));
    validate_common(&mut errors, spec, false);
    conditions(&mut errors, spec, old.at("spec"), &environment);
    let composed = variables(&mut errors, spec, &environment);
    // Without variables there is no variable that has them.
    let has_variables = !spec.items("variables").is_empty();
    let expressions = Expressions {
        environment,
        composed: has_variables.then_some(composed),
    };
    let annotations_path = path.child("auditAnnotations");
    let annotations = spec.items("auditAnnotations");
    if spec.items("validations").is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(Error::required(&path.child("validations"), why));
        errors.push(Error::required(&annotations_path, why));
        return errors;
    }
    for (i, validation) in spec.items("validations").iter().enumerate() {
        let path = path.child("validations").index(i);
        self::validation(&mut errors, &path, validation, &expressions);
    }
    if annotations.len() > MAX_ANNOTATIONS {
        let fault = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        let shown = spec.at("auditAnnotations").clone();
        errors.push(Error::invalid(&annotations_path, shown, fault));
    }
    let name = policy.at("metadata").text("name");
    let mut seen: Vec<&str> = Vec::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let path = annotations_path.index(i);
        audit_annotation(&mut errors, &path, annotation, name, &expressions);
        let key = annotation.text("key");
        if seen.contains(&key) {
            errors.push(Error::duplicate(&path.child("key"), key));
        }
        seen.push(key);
    }
    errors
}

/// Validates a MutatingAdmissionPolicy. `old` is null on create.
pub(super) fn mutating(policy: &Value, old: &Value) -> Errors {
    let mut errors = check::new_plain_metadata(policy, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (policy.at("spec"), Path::new("spec"));
    let environment = Environment::new(spec.has("paramKind"));
    validate_common(&mut errors, spec, true);
    conditions(&mut errors, spec, old.at("spec"), &environment);
    let composed = variables(&mut errors, spec, &environment);
    let expressions = Expressions {
        environment: environment.of_mutations(),
        composed: Some(composed),
    };
    if spec.items("mutations").is_empty() {
        let why = "mutations must contain at least one item";
        errors.push(Error::required(&path.child("mutations"), why));
    }
    for (i, mutation) in spec.items("mutations").iter().enumerate() {
        let path = path.child("mutations").index(i);
        self::mutation(&mut errors, &path, mutation, &expressions);
    }
    check::required_one_of(
        &mut errors,
        &path.child("reinvocationPolicy"),
        spec.text("reinvocationPolicy"),
        &REINVOCATION_POLICIES,
    );
    errors
}

/// Validates the fields that both kinds share and that come first: failure policy, parameter kind
/// and match constraints.
fn validate_common(errors: &mut Errors, spec: &Value, is_mutating: bool) {
    let path = Path::new("spec");
    let failure_path = path.child("failurePolicy");
    match spec.at("failurePolicy").as_str() {
        None => errors.push(Error::required(&failure_path, "")),
        Some(policy) => check::one_of(errors, &failure_path, policy, &FAILURE_POLICIES),
    }
    if spec.has("paramKind") {
        param_kind(errors, &path.child("paramKind"), spec.at("paramKind"));
    }
    let (constraints, path) = (spec.at("matchConstraints"), path.child("matchConstraints"));
    if constraints.is_null() {
        errors.push(Error::required(&path, ""));
        return;
    }
    matching::match_resources(errors, &path, constraints);
    if constraints.items("resourceRules").is_empty() {
        errors.push(Error::required(&path.child("resourceRules"), ""));
    }
    if is_mutating {
        matching::mutable_operations(errors, &path, constraints);
    }
}

fn param_kind(errors: &mut Errors, path: &Path, kind: &Value) {
    let (text, version_path) = (kind.text("apiVersion"), path.child("apiVersion"));
    let mut parts = text.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(""), None, _) | (None, ..) => errors.push(Error::required(&version_path, "")),
        (Some(version), None, _) => group_version(errors, &version_path, text, "", version),
        (Some(group), Some(version), None) => {
            group_version(errors, &version_path, text, group, version);
        }
        (Some(_), Some(_), Some(_)) => {
            let fault = format!("unexpected GroupVersion string: {text}");
            errors.push(Error::invalid(&version_path, text, fault));
        }
    }
    let (name, kind_path) = (kind.text("kind"), path.child("kind"));
    let faults = names::dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.push(Error::required(&kind_path, ""));
    } else if !faults.is_empty() {
        let faults = faults.join(",");
        let fault = format!("may have mixed case, but should otherwise match: {faults}");
        errors.push(Error::invalid(&kind_path, name, fault));
    }
}

fn group_version(errors: &mut Errors, path: &Path, text: &str, group: &str, version: &str) {
    let mut add_faults = |part: &str, faults: Vec<String>| {
        if !faults.is_empty() {
            errors.push(Error::invalid(path, part, faults.join(",")));
        }
    };
    if !group.is_empty() {
        add_faults(group, names::dns1123_subdomain(group));
    }
    if version.is_empty() {
        add_faults(text, vec!["version must be specified".to_owned()]);
    } else {
        add_faults(version, names::dns1035_label(version));
    }
}

/// Validates match conditions, unless neither they nor the parameter kind changed.
fn conditions(errors: &mut Errors, spec: &Value, old: &Value, environment: &Environment) {
    let is_same = |key: &str| spec.at(key) == old.at(key);
    if old.is_object() && is_same("paramKind") && is_same("matchConditions") {
        return;
    }
    let path = Path::new("spec").child("matchConditions");
    let all = spec.items("matchConditions");
    matching::conditions(errors, &path, all, environment);
}

/// What the expressions of a policy may name.
struct Expressions {
    environment: Environment,
    composed: Option<Composed>,
}

impl Expressions {
    /// Reports an expression that does not compile; `shown` is what the error names.
    fn check(
        &self,
        errors: &mut Errors,
        path: &Path,
        (source, shown): (&str, &str),
        wanted: &[Type],
    ) {
        let compiled = self
            .environment
            .compile(source, wanted, self.composed.as_ref());
        if let Err(fault) = compiled {
            errors.push(Error::invalid(path, shown, fault));
        }
    }
}

/// Validates variables; each may use those before it.
fn variables(errors: &mut Errors, spec: &Value, environment: &Environment) -> Composed {
    let mut composed = Composed::default();
    for (i, variable) in spec.items("variables").iter().enumerate() {
        let path = Path::new("spec").child("variables").index(i);
        let (name, name_path) = (variable.text("name"), path.child("name"));
        if name.trim().is_empty() {
            errors.push(Error::required(&name_path, "name is not specified"));
        } else if !is_identifier(name) {
            let fault = "must be a valid CEL identifier";
            errors.push(Error::invalid(&name_path, name, fault));
        }
        expression(errors, &path, variable, "expression is not specified");
        let source = variable.text("expression");
        if source.trim().is_empty() {
            continue;
        }
        let program = environment.compile(source, &[], Some(&composed));
        if let Err(fault) = &program {
            let fault = fault.as_str();
            errors.push(Error::invalid(&path.child("expression"), source, fault));
        }
        composed.add(name, program);
    }
    composed
}

fn is_identifier(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start)
        && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
        && !RESERVED.contains(&name)
}

fn expression(errors: &mut Errors, path: &Path, holder: &Value, why: &str) {
    if holder.text("expression").trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), why));
    }
}

fn validation(errors: &mut Errors, path: &Path, validation: &Value, expressions: &Expressions) {
    expression(errors, path, validation, "expression is not specified");
    let source = validation.text("expression");
    if !source.trim().is_empty() {
        let path = path.child("expression");
        expressions.check(errors, &path, (source, source), CONDITION);
    }
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let blank = "must be non-empty if specified";
    let text = validation.text("messageExpression");
    if is_blank(text) {
        errors.push(Error::invalid(
            &path.child("messageExpression"),
            text,
            blank,
        ));
    } else if !text.is_empty() {
        let environment = expressions.environment.of_messages();
        let compiled = environment.compile(text, MESSAGE, expressions.composed.as_ref());
        if let Err(fault) = compiled {
            errors.push(Error::invalid(
                &path.child("messageExpression"),
                text,
                fault,
            ));
        }
    }
    let (message, message_path) = (validation.text("message"), path.child("message"));
    if is_blank(message) {
        errors.push(Error::invalid(&message_path, message, blank));
    } else if message.trim().contains(['\n', '\r']) {
        let fault = "must not contain line breaks";
        errors.push(Error::invalid(&message_path, message, fault));
    }
    check::optional_one_of(
        errors,
        &path.child("reason"),
        validation.at("reason"),
        &["Forbidden", "Invalid", "RequestEntityTooLarge"],
    );
}

fn audit_annotation(
    errors: &mut Errors,
    path: &Path,
    annotation: &Value,
    policy: &str,
    expressions: &Expressions,
) {
    let (key, key_path) = (annotation.text("key"), path.child("key"));
    if policy.is_empty() {
        let fault = "requires metadata.name be non-empty";
        errors.push(Error::invalid(&key_path, key, fault));
    } else {
        check::label_name(errors, &key_path, &format!("{policy}/{key}"));
    }
    let source = annotation.text("valueExpression");
    let length = source.trim().len();
    let path = path.child("valueExpression");
    if length == 0 {
        let why = "valueExpression is not specified";
        errors.push(Error::required(&path, why));
    } else if length > MAX_ANNOTATION_EXPRESSION {
        let why = format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length");
        errors.push(Error::required(&path, why));
    } else {
        expressions.check(errors, &path, (source.trim(), source), ANNOTATION);
    }
}

fn mutation(errors: &mut Errors, path: &Path, mutation: &Value, expressions: &Expressions) {
    let kinds = [
        ("ApplyConfiguration", "applyConfiguration"),
        ("JSONPatch", "jsonPatch"),
    ];
    let patch_type = mutation.text("patchType");
    let type_path = path.child("patchType");
    let Some((_, used)) = kinds.into_iter().find(|(kind, _)| *kind == patch_type) else {
        let types = kinds.map(|(kind, _)| kind);
        check::required_one_of(errors, &type_path, patch_type, &types);
        return;
    };
    if mutation.has(used) {
        let (holder, path) = (mutation.at(used), path.child(used));
        expression(errors, &path, holder, "");
        let source = holder.text("expression").trim();
        let wanted = match patch_type {
            "JSONPatch" => json_patch(),
            _ => apply_configuration(),
        };
        if !source.is_empty() {
            let path = path.child("expression");
            expressions.check(errors, &path, (source, source), &wanted);
        }
    } else {
        let why = format!("must be specified when patchType is {patch_type}");
        errors.push(Error::required(&path.child(used), why));
    }
    for (_, other) in kinds {
        if other != used && mutation.has(other) {
            let fault = format!("must not be specified when patchType is {patch_type}");
            let shown = format!("{{{other}}}");
            errors.push(Error::invalid(&path.child(other), shown, fault));
        }
    }
}

/// Validates the status of a ValidatingAdmissionPolicy.
pub(super) fn status(status: &Value) -> Errors {
    let mut errors = Vec::new();
    let path = Path::new("status");
    let warnings = status.at("typeChecking").items("expressionWarnings");
    let warnings_path = path.child("typeChecking").child("expressionWarnings");
    for (i, warning) in warnings.iter().enumerate() {
        let path = warnings_path.index(i);
        check::required(&mut errors, &path.child("warning"), warning.text("warning"));
        let field = warning.text("fieldRef").trim();
        check::required(&mut errors, &path.child("fieldRef"), field);
    }
    let conditions = status.items("conditions");
    check::conditions(&mut errors, &path.child("conditions"), conditions);
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {},
                                 "resourceRules": [rule]},
        })
    }

    fn texts(errors: &Errors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn policy(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn a_policy_has_validations_or_annotations() {
        let why = "Required value: validations or auditAnnotations must contain at least one item";
        assert_eq!(
            texts(&validating(&policy(spec()), &Value::Null)),
            [
                format!("spec.validations: {why}"),
                format!("spec.auditAnnotations: {why}"),
            ]
        );
        let mut good = spec();
        good["validations"] = json!([{"expression": "true"}]);
        assert_eq!(validating(&policy(good), &Value::Null), []);
    }

    #[test]
    fn a_mutation_is_of_its_type() {
        let mut spec = spec();
        spec["reinvocationPolicy"] = "Never".into();
        spec["mutations"] =
            json!([{"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}]);
        assert_eq!(
            texts(&mutating(&policy(spec), &Value::Null)),
            [
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
            ]
        );
    }

    #[test]
    fn parameters_are_of_a_kind() {
        let cases = [
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), vec![]),
            (
                json!({"apiVersion": "a/b/c"}),
                vec![
                    "k.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                    "k.kind: Required value",
                ],
            ),
            (
                json!({"apiVersion": "a/", "kind": "X"}),
                vec!["k.apiVersion: Invalid value: \"a/\": version must be specified"],
            ),
        ];
        for (kind, expected) in cases {
            let mut errors = Vec::new();
            param_kind(&mut errors, &Path::new("k"), &kind);
            assert_eq!(texts(&errors), expected);
        }
    }
}
