//! The policy of the audit log: which requests are recorded, and how much of them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/apis/audit/v1/types.go`: `Policy`, `PolicyRule`, `GroupResources`
//! - `staging/src/k8s.io/apiserver/pkg/apis/audit/validation/validation.go`: `ValidatePolicy`
//! - `staging/src/k8s.io/apiserver/pkg/audit/policy/reader.go`: `LoadPolicyFromBytes`
//! - `staging/src/k8s.io/apiserver/pkg/audit/policy/checker.go`: `EvaluatePolicyRule`, `ruleMatches`

use sendo_apimachinery::decode::{Format, untyped};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::{names, status};
use serde_json::Value;

use crate::access::authorise::{Requested, ResourceAttributes};
use crate::request::user::User;

const API_VERSION: &str = "audit.k8s.io/v1";

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    /// Who did what, and how it ended.
    Metadata,
    /// The object that was sent, too.
    Request,
    /// The object of the response, too.
    RequestResponse,
}

impl Level {
    const ALL: [Level; 4] = [
        Level::None,
        Level::Metadata,
        Level::Request,
        Level::RequestResponse,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// When in the life of a request an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The user is known, and nothing else was done.
    RequestReceived,
    /// The head of the response to a request that lasts is sent.
    ResponseStarted,
    /// The response is sent.
    ResponseComplete,
    /// The server could not go on.
    Panic,
}

impl Stage {
    const ALL: [Stage; 4] = [
        Stage::RequestReceived,
        Stage::ResponseStarted,
        Stage::ResponseComplete,
        Stage::Panic,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// An audit policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditPolicyError {
    /// The text is neither YAML nor JSON.
    #[error("the audit policy cannot be read: {0}")]
    Unreadable(String),
    /// The object is no audit policy.
    #[error("the audit policy must have apiVersion: audit.k8s.io/v1 and kind: Policy, and has {0}")]
    OtherKind(String),
    /// A field does not have the form that it must have.
    #[error("the audit policy is invalid: {0}")]
    Invalid(String),
    /// No request could ever be recorded.
    #[error(
        "the audit policy has no rules: add one with a level, for example `rules: [{{level: Metadata}}]`"
    )]
    NoRules,
}

/// Which requests are recorded in the audit log, and how much of them: a `Policy` of
/// `audit.k8s.io/v1`.
///
/// The first rule that a request matches decides. A request that matches none is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPolicy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    decision: Decision,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
}

/// What is recorded of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    pub(crate) omitted_stages: Vec<Stage>,
    pub(crate) omits_managed_fields: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

/// The members of the objects of a policy, to warn of others.
const POLICY: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "rules",
    "omitStages",
    "omitManagedFields",
];
const RULE: &[&str] = &[
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const GROUP_RESOURCES: &[&str] = &["group", "resources", "resourceNames"];

impl AuditPolicy {
    /// Reads a policy in YAML or JSON.
    ///
    /// Members that a policy does not have are logged and otherwise ignored, as in Kubernetes.
    ///
    /// # Errors
    /// If the text is no valid policy. The error names each field that is wrong.
    pub fn from_text(text: &str) -> Result<Self, AuditPolicyError> {
        let read = untyped(text.as_bytes(), Format::Yaml)
            .map_err(|error| AuditPolicyError::Unreadable(error.to_string()))?;
        let policy = read.value;
        let member = |name: &str| policy[name].as_str().unwrap_or_default();
        let (version, kind) = (member("apiVersion"), member("kind"));
        if (version, kind) != (API_VERSION, "Policy") {
            let found = format!("apiVersion: {version:?} and kind: {kind:?}");
            return Err(AuditPolicyError::OtherKind(found));
        }
        let mut reader = Reader::default();
        let root = Path::root();
        reader.warn_of_unknown(&root, &policy, POLICY);
        let omitted = reader.stages(&root, &policy);
        let omits_managed_fields = reader.flag(&root, &policy, "omitManagedFields");
        let mut rules = Vec::new();
        let path = root.child("rules");
        for (index, rule) in reader.list(&root, &policy, "rules").iter().enumerate() {
            let mut rule = reader.rule(&path.index(index), rule, omits_managed_fields);
            rule.decision.omitted_stages.extend(&omitted);
            rules.push(rule);
        }
        if !reader.errors.is_empty() {
            let texts = reader.errors.iter().map(ToString::to_string);
            return Err(AuditPolicyError::Invalid(status::aggregate(texts)));
        }
        match rules.is_empty() {
            true => Err(AuditPolicyError::NoRules),
            false => Ok(AuditPolicy { rules }),
        }
    }

    /// What is recorded of a request; `None` for nothing. The user is unknown if the request
    /// could not be authenticated.
    pub(crate) fn evaluate(
        &self,
        user: Option<&User>,
        verb: &str,
        requested: &Requested<'_>,
    ) -> Option<&Decision> {
        let mut rules = self.rules.iter();
        let first = rules.find(|rule| rule.matches(user, verb, requested))?;
        Some(&first.decision).filter(|decision| decision.level != Level::None)
    }
}

impl Rule {
    fn matches(&self, user: Option<&User>, verb: &str, requested: &Requested<'_>) -> bool {
        let has = |list: &[String], text: &str| list.iter().any(|own| own == text);
        let user_matches =
            self.users.is_empty() || user.is_some_and(|user| has(&self.users, &user.name));
        let group_matches = self.groups.is_empty()
            || user.is_some_and(|user| user.groups.iter().any(|group| has(&self.groups, group)));
        let verb_matches = self.verbs.is_empty() || has(&self.verbs, verb);
        if !(user_matches && group_matches && verb_matches) {
            return false;
        }
        match requested {
            _ if !self.namespaces.is_empty() || !self.resources.is_empty() => {
                matches!(requested, Requested::Resource(resource) if self.matches_resource(resource))
            }
            _ if self.paths.is_empty() => true,
            Requested::Resource(_) => false,
            Requested::NonResource(path) => self.paths.iter().any(|own| path_matches(own, path)),
        }
    }

    fn matches_resource(&self, resource: &ResourceAttributes<'_>) -> bool {
        let in_namespace = self.namespaces.is_empty()
            || (self.namespaces.iter()).any(|namespace| namespace == resource.namespace);
        in_namespace
            && (self.resources.is_empty()
                || (self.resources.iter()).any(|resources| resources.matches(resource)))
    }
}

fn path_matches(rule: &str, path: &str) -> bool {
    let begins = |prefix: &str| path.starts_with(prefix.trim_end_matches('*'));
    rule == "*" || rule == path || rule.ends_with('*') && begins(rule)
}

impl GroupResources {
    fn matches(&self, requested: &ResourceAttributes<'_>) -> bool {
        if self.group != "*" && self.group != requested.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is_named =
            self.names.is_empty() || self.names.iter().any(|name| name == requested.name);
        let (resource, subresource) = (requested.resource, requested.subresource);
        is_named
            && self.resources.iter().any(|own| {
                let full = match own.split_once('/') {
                    None => subresource.is_empty() && own == resource,
                    Some((before, after)) => before == resource && after == subresource,
                };
                let of_any = own.strip_prefix("*/");
                full || own == "*"
                    || !subresource.is_empty() && of_any == Some(subresource)
                    || own.strip_suffix("/*") == Some(resource)
            })
    }
}

/// Reads the fields of a policy, and collects what is wrong with them.
#[derive(Default)]
struct Reader {
    errors: Vec<Error>,
}

impl Reader {
    fn rule(&mut self, path: &Path, rule: &Value, omits_managed_fields: bool) -> Rule {
        self.warn_of_unknown(path, rule, RULE);
        let level = self.level(&path.child("level"), &rule["level"]);
        let paths = self.texts(path, rule, "nonResourceURLs");
        self.check_paths(&path.child("nonResourceURLs"), &paths);
        let resources_path = path.child("resources");
        let resources = self.list(path, rule, "resources");
        let resources: Vec<GroupResources> = resources
            .iter()
            .enumerate()
            .map(|(index, own)| self.group_resources(&resources_path, index, own))
            .collect();
        let omitted_stages = self.stages(path, rule);
        let namespaces = self.texts(path, rule, "namespaces");
        let is_about_resources = !resources.is_empty() || !namespaces.is_empty();
        if !paths.is_empty() && is_about_resources {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            let path = path.child("nonResourceURLs");
            let shown = Value::from(paths.clone());
            self.errors.push(Error::invalid(&path, shown, why));
        }
        let omits_managed_fields = match &rule["omitManagedFields"] {
            Value::Null => omits_managed_fields,
            _ => self.flag(path, rule, "omitManagedFields"),
        };
        Rule {
            decision: Decision {
                level,
                omitted_stages,
                omits_managed_fields,
            },
            users: self.texts(path, rule, "users"),
            groups: self.texts(path, rule, "userGroups"),
            verbs: self.texts(path, rule, "verbs"),
            resources,
            namespaces,
            paths,
        }
    }

    fn level(&mut self, path: &Path, value: &Value) -> Level {
        let text = value.as_str().unwrap_or_default();
        if let Some(level) = Level::ALL.into_iter().find(|level| level.as_str() == text) {
            return level;
        }
        self.errors.push(match value {
            Value::Null => Error::required(path, ""),
            Value::String(text) if text.is_empty() => Error::required(path, ""),
            other => {
                let shown = other
                    .as_str()
                    .map_or_else(|| other.to_string(), str::to_owned);
                Error::not_supported(path, shown, &Level::ALL.map(Level::as_str))
            }
        });
        Level::None
    }

    fn group_resources(&mut self, path: &Path, index: usize, value: &Value) -> GroupResources {
        let place = path.index(index);
        self.warn_of_unknown(&place, value, GROUP_RESOURCES);
        let found = GroupResources {
            group: self.text(&place, value, "group"),
            resources: self.texts(&place, value, "resources"),
            names: self.texts(&place, value, "resourceNames"),
        };
        // Kubernetes does not name the index.
        if !found.group.is_empty() && found.group != "*" {
            let faults = names::dns1123_subdomain(&found.group);
            if !faults.is_empty() {
                let (path, why) = (path.child("group"), faults.join(","));
                self.errors
                    .push(Error::invalid(&path, found.group.as_str(), why));
            }
        }
        if !found.names.is_empty() && found.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            let shown = Value::from(found.names.clone());
            let path = path.child("resourceNames");
            self.errors.push(Error::invalid(&path, shown, why));
        }
        found
    }

    fn check_paths(&mut self, path: &Path, urls: &[String]) {
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let path = path.index(index);
            if !url.starts_with('/') {
                let why = "non-resource URL rules must begin with a '/' character";
                self.errors.push(Error::invalid(&path, url.as_str(), why));
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                let why = "non-resource URL wildcards '*' must be the final character of the rule";
                self.errors.push(Error::invalid(&path, url.as_str(), why));
            }
        }
    }

    fn stages(&mut self, path: &Path, object: &Value) -> Vec<Stage> {
        let path_of = path.child("omitStages");
        let mut stages = Vec::new();
        for (index, text) in self.texts(path, object, "omitStages").iter().enumerate() {
            match Stage::ALL.into_iter().find(|stage| stage.as_str() == text) {
                Some(stage) => stages.push(stage),
                None => {
                    let known = Stage::ALL.map(Stage::as_str).join(",");
                    let why = format!("allowed stages are {known}");
                    let path = path_of.index(index);
                    self.errors.push(Error::invalid(&path, text.as_str(), why));
                }
            }
        }
        stages
    }

    fn texts(&mut self, path: &Path, object: &Value, name: &str) -> Vec<String> {
        let path_of = path.child(name);
        let mut texts = Vec::new();
        for (index, item) in self.list(path, object, name).iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                other => self.wrong_type(&path_of.index(index), other, "a string"),
            }
        }
        texts
    }

    fn list(&mut self, path: &Path, object: &Value, name: &str) -> Vec<Value> {
        match &object[name] {
            Value::Null => Vec::new(),
            Value::Array(items) => items.clone(),
            other => {
                self.wrong_type(&path.child(name), other, "a list");
                Vec::new()
            }
        }
    }

    fn text(&mut self, path: &Path, object: &Value, name: &str) -> String {
        match &object[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => {
                self.wrong_type(&path.child(name), other, "a string");
                String::new()
            }
        }
    }

    fn flag(&mut self, path: &Path, object: &Value, name: &str) -> bool {
        match &object[name] {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            other => {
                self.wrong_type(&path.child(name), other, "true or false");
                false
            }
        }
    }

    fn wrong_type(&mut self, path: &Path, found: &Value, wanted: &str) {
        let why = format!("must be {wanted}");
        self.errors
            .push(Error::invalid(path, found.to_string(), why));
    }

    fn warn_of_unknown(&mut self, path: &Path, object: &Value, known: &[&str]) {
        let Value::Object(members) = object else {
            self.wrong_type(path, object, "an object");
            return;
        };
        for name in members
            .keys()
            .filter(|name| !known.contains(&name.as_str()))
        {
            let field = path.child(name).to_string();
            tracing::warn!(field, "the audit policy has a field that is not known");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::authorise;
    use crate::request::Request;

    fn policy(rules: &str) -> Result<AuditPolicy, AuditPolicyError> {
        AuditPolicy::from_text(&format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}"
        ))
    }

    /// The level of a request of ann, who is in the group `staff`.
    fn level(policy: &AuditPolicy, line: &str) -> Level {
        let (method, uri) = line.split_once(' ').unwrap();
        let head = http::Request::builder().method(method).uri(uri);
        let request = Request::new(&head.body(()).unwrap().into_parts().0);
        let ann = User::new("ann", ["staff"]);
        let method = method.to_ascii_lowercase();
        let attributes = authorise::attributes(&request, &ann, &method);
        let decision = policy.evaluate(Some(&ann), attributes.verb, &attributes.requested);
        decision.map_or(Level::None, |decision| decision.level)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = policy(
            "rules:
- {level: None, nonResourceURLs: ['/healthz*', /version]}
- {level: RequestResponse, verbs: [create], resources: [{group: '', resources: [pods]}]}
- {level: Request, resources: [{group: '', resources: ['pods/*', '*/scale']}, {group: apps}]}
- {level: None, namespaces: [quiet]}
- {level: None, resources: [{group: '', resources: [configmaps], resourceNames: [leader]}]}
- {level: Metadata, userGroups: [staff]}
",
        )
        .unwrap();
        for (line, expected) in [
            ("GET /healthz/etcd", Level::None),
            ("GET /version", Level::None),
            ("GET /api", Level::Metadata),
            ("POST /api/v1/namespaces/a/pods", Level::RequestResponse),
            // As in Kubernetes, the subresources of pods are matched, and pods too.
            ("GET /api/v1/namespaces/a/pods", Level::Request),
            ("GET /api/v1/namespaces/a/pods/b/log", Level::Request),
            ("GET /apis/apps/v1/deployments", Level::Request),
            (
                "PUT /apis/x.example/v1/namespaces/a/things/b/scale",
                Level::Metadata,
            ),
            ("GET /api/v1/namespaces/quiet/secrets", Level::None),
            ("GET /api/v1/namespaces/a/configmaps/leader", Level::None),
            ("GET /api/v1/namespaces/a/configmaps/other", Level::Metadata),
        ] {
            assert_eq!(level(&policy, line), expected, "{line}");
        }
    }

    #[test]
    fn stages_of_policy_and_rule_are_both_omitted() {
        let policy = policy(
            "omitStages: [RequestReceived]\nomitManagedFields: true\n\
             rules: [{level: Metadata, omitStages: [Panic], omitManagedFields: false}, {level: Metadata}]",
        )
        .unwrap();
        let [first, second] = policy.rules.as_slice() else {
            panic!("there are two rules")
        };
        let stages = [Stage::Panic, Stage::RequestReceived];
        assert_eq!(first.decision.omitted_stages, stages);
        assert!(!first.decision.omits_managed_fields);
        assert!(second.decision.omits_managed_fields);
    }

    #[test]
    fn every_fault_is_named_with_its_field() {
        let faults = |rules: &str| policy(rules).unwrap_err().to_string();
        let fault = faults("rules: [{level: All}]");
        let expected = "the audit policy is invalid: rules[0].level: Unsupported value: \"All\": \
            supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"";
        assert_eq!(fault, expected);
        for (rules, part) in [
            ("rules: [{}]", "rules[0].level: Required value"),
            (
                "rules: [{level: None, nonResourceURLs: [x, '/a*b']}]",
                "rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final",
            ),
            (
                "rules: [{level: None, nonResourceURLs: [/x], namespaces: [a]}]",
                "rules cannot apply to both regular resources and non-resource URLs",
            ),
            (
                "rules: [{level: None, resources: [{group: A/v1}]}]",
                "rules[0].resources.group: Invalid value: \"A/v1\"",
            ),
            (
                "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
                "using resourceNames requires at least one resource",
            ),
            (
                "rules: [{level: None, omitStages: [Never]}]",
                "rules[0].omitStages[0]: Invalid value: \"Never\": allowed stages are RequestReceived,",
            ),
            ("rules: {}", "rules: Invalid value: \"{}\": must be a list"),
            ("rules: [{level: None, users: [1]}]", "rules[0].users[0]"),
            ("rules: []", "the audit policy has no rules"),
        ] {
            let found = faults(rules);
            assert!(found.contains(part), "{found}");
        }
        let other = AuditPolicy::from_text("apiVersion: v1\nkind: Pod").unwrap_err();
        let expected = "the audit policy must have apiVersion: audit.k8s.io/v1 and kind: Policy, \
            and has apiVersion: \"v1\" and kind: \"Pod\"";
        assert_eq!(other.to_string(), expected);
    }
}
