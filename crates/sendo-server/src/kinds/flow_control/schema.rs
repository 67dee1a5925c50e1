//! Rules of FlowSchemas, which assign requests to priority levels.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/flowcontrol/validation/validation.go`: `ValidateFlowSchema`,
//!   `ValidateFlowSchemaSpec`, `ValidateFlowSchemaPolicyRulesWithSubjects`,
//!   `ValidateNonResourceURLPath`
//! - `pkg/apis/flowcontrol/v1/defaults.go`: `SetDefaults_FlowSchemaSpec`
//! - `pkg/registry/flowcontrol/flowschema/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::conditions;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(in crate::kinds) const RULES: Rules = Rules {
    default: |schema| {
        schema
            .object("spec")
            .default_if_zero("matchingPrecedence", 1000)
    },
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_alone,
    validate: |_, schema| validate(schema),
    validate_update: |_, new, _| validate(new),
    validate_status_update: |_, new, _| {
        let mut errors = Vec::new();
        conditions(&mut errors, new);
        errors
    },
    ..Rules::NEUTRAL
};

const MAX_PRECEDENCE: i64 = 10_000;

const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

fn validate(schema: &Value) -> Errors {
    let mut errors = check::new_metadata(schema, Scope::Cluster, names::dns1123_subdomain);
    let name = schema.at("metadata").text("name");
    spec(&mut errors, schema.at("spec"), name);
    conditions(&mut errors, schema);
    errors
}

fn spec(errors: &mut Errors, spec: &Value, name: &str) {
    let path = Path::new("spec");
    let precedence = spec.count("matchingPrecedence");
    let mut refuse = |fault: String| {
        let path = path.child("matchingPrecedence");
        errors.push(Error::invalid(&path, precedence, fault));
    };
    if precedence <= 0 {
        refuse("must be a positive value".to_owned());
    }
    if precedence > MAX_PRECEDENCE {
        refuse(format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
    let method = spec.at("distinguisherMethod");
    let methods = ["ByNamespace", "ByUser"];
    if !method.is_null() && !methods.contains(&method.text("type")) {
        let path = path.child("distinguisherMethod").child("type");
        let shown = Ordered::new().text("Type", method.text("type"));
        errors.push(Error::not_supported(&path, shown.bad_value(), &methods));
    }
    let level_path = path.child("priorityLevelConfiguration").child("name");
    match spec.at("priorityLevelConfiguration").text("name") {
        "" => errors.push(Error::required(
            &level_path,
            "must reference a priority level",
        )),
        level => check::faults(errors, &level_path, level, names::dns1123_subdomain(level)),
    }
    for (i, rule) in spec.items("rules").iter().enumerate() {
        self::rule(errors, &path.child("rules").index(i), rule);
    }
}

fn rule(errors: &mut Errors, path: &Path, rule: &Value) {
    let subjects_path = path.child("subjects");
    if rule.items("subjects").is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(Error::required(&subjects_path, why));
    }
    for (i, subject) in rule.items("subjects").iter().enumerate() {
        self::subject(errors, &subjects_path.index(i), subject);
    }
    let (resources, others) = (rule.items("resourceRules"), rule.items("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(path, why));
    }
    for (i, rule) in resources.iter().enumerate() {
        resource_rule(errors, &path.child("resourceRules").index(i), rule);
    }
    for (i, rule) in others.iter().enumerate() {
        non_resource_rule(errors, &path.child("nonResourceRules").index(i), rule);
    }
}

/// Subject kinds, each with the field that holds its subject.
const SUBJECTS: [(&str, &str); 3] = [
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
    ("Group", "group"),
];

fn subject(errors: &mut Errors, path: &Path, subject: &Value) {
    let kind = subject.text("kind");
    let Some((_, used)) = SUBJECTS.into_iter().find(|(name, _)| *name == kind) else {
        let kinds = ["Group", "ServiceAccount", "User"];
        errors.push(Error::not_supported(&path.child("kind"), kind, &kinds));
        return;
    };
    let (member, member_path) = (subject.at(used), path.child(used));
    if member.is_null() {
        let why = format!("{used} is required when subject kind is '{kind}'");
        errors.push(Error::required(&member_path, why));
    } else if used == "serviceAccount" {
        service_account(errors, &member_path, member);
    } else {
        check::required(errors, &member_path.child("name"), member.text("name"));
    }
    for (owner, other) in SUBJECTS {
        if other != used && subject.has(other) {
            let fault = format!("{other} is forbidden when subject kind is not '{owner}'");
            errors.push(Error::forbidden(&path.child(other), fault));
        }
    }
}

fn service_account(errors: &mut Errors, path: &Path, account: &Value) {
    let (name, namespace) = (account.text("name"), account.text("namespace"));
    if name != "*" {
        check::required_name(errors, &path.child("name"), name, names::dns1123_subdomain);
    }
    let path = path.child("namespace");
    if namespace.is_empty() {
        let why = "must specify namespace for service account";
        errors.push(Error::required(&path, why));
    } else {
        check::faults(errors, &path, namespace, names::dns1123_label(namespace));
    }
}

fn has_wildcard(rule: &Value, key: &str) -> bool {
    check::texts(rule, key).any(|item| item == "*")
}

/// Reports a wildcard that is listed together with other entries. Returns whether there is a
/// wildcard.
fn lone_wildcard(errors: &mut Errors, path: &Path, rule: &Value, key: &str, others: &str) -> bool {
    let is_there = has_wildcard(rule, key);
    if is_there && rule.items(key).len() > 1 {
        let fault = format!("if '*' is present, must not specify other {others}");
        let shown = rule.at(key).clone();
        errors.push(Error::invalid(&path.child(key), shown, fault));
    }
    is_there
}

fn verbs(errors: &mut Errors, path: &Path, rule: &Value) {
    let at = path.child("verbs");
    if rule.items("verbs").is_empty() {
        let why = "verbs must contain at least one value";
        errors.push(Error::required(&at, why));
    } else if !lone_wildcard(errors, path, rule, "verbs", "verbs")
        && !check::texts(rule, "verbs").all(|verb| VERBS.contains(&verb))
    {
        let shown = rule.at("verbs").clone();
        errors.push(Error::not_supported(&at, shown, &VERBS));
    }
}

fn resource_rule(errors: &mut Errors, path: &Path, rule: &Value) {
    verbs(errors, path, rule);
    for (key, one, others) in [
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ] {
        if rule.items(key).is_empty() {
            let why = format!("resource rules must supply at least one {one}");
            errors.push(Error::required(&path.child(key), why));
        } else {
            lone_wildcard(errors, path, rule, key, others);
        }
    }
    let at = path.child("namespaces");
    if rule.items("namespaces").is_empty() && !rule.is_set("clusterScope") {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(Error::required(&at, why));
    } else if !lone_wildcard(errors, path, rule, "namespaces", "namespaces") {
        for (i, name) in check::texts(rule, "namespaces").enumerate() {
            for fault in names::dns1123_label(name) {
                let fault =
                    format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                errors.push(Error::invalid(&at.index(i), name, fault));
            }
        }
    }
}

fn non_resource_rule(errors: &mut Errors, path: &Path, rule: &Value) {
    verbs(errors, path, rule);
    let (key, at) = ("nonResourceURLs", path.child("nonResourceURLs"));
    if rule.items(key).is_empty() {
        let why = "nonResourceURLs must contain at least one value";
        errors.push(Error::required(&at, why));
    } else if !lone_wildcard(errors, path, rule, key, "non-resource URLs") {
        for (i, url) in check::texts(rule, key).enumerate() {
            if let Some(fault) = url_fault(url) {
                errors.push(Error::invalid(&at.index(i), url, fault));
            }
        }
    }
}

fn url_fault(url: &str) -> Option<&'static str> {
    Some(match url {
        "" => "must not be empty",
        "/" => return None,
        url if !url.starts_with('/') => "must start with slash",
        url if url.contains(' ') => "must not contain white-space",
        url if url.contains("//") => "must not contain double slash",
        url => {
            let wildcards = url.matches('*').count();
            let is_suffix = wildcards == 0 || (wildcards == 1 && url.ends_with("/*"));
            return (!is_suffix).then_some("wildcard can only do suffix matching");
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(rule: Value) -> Vec<String> {
        let mut errors = Vec::new();
        self::rule(&mut errors, &Path::new("r"), &rule);
        errors.iter().map(ToString::to_string).collect()
    }

    fn user() -> Value {
        json!([{"kind": "User", "user": {"name": "u"}}])
    }

    #[test]
    fn a_subject_uses_the_member_of_its_kind() {
        let urls = json!([{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]);
        let subjects = json!([{"kind": "Group", "user": {"name": "u"}}]);
        assert_eq!(
            faults(json!({"subjects": subjects, "nonResourceRules": urls})),
            [
                "r.subjects[0].group: Required value: group is required when subject kind is 'Group'",
                "r.subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
            ]
        );
    }

    #[test]
    fn wildcards_stand_alone() {
        let rule = json!({"verbs": ["*", "get"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true});
        assert_eq!(
            faults(json!({"subjects": user(), "resourceRules": [rule]})),
            [
                "r.resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs"
            ]
        );
    }

    #[test]
    fn wildcards_of_paths_stand_at_the_end() {
        for (url, is_good) in [
            ("/", true),
            ("/healthz", true),
            ("/apis/*", true),
            ("apis", false),
            ("/a*", false),
            ("/*/a", false),
        ] {
            assert_eq!(url_fault(url).is_none(), is_good, "{url}");
        }
    }
}
