//! Role-based access control: rules, the users who hold them, and the users who may grant them.
//!
//! `policy` is the index by which requests are authorized. `escalation` compares rules and `grants`
//! uses it to check writes of roles and bindings. `bootstrap` creates the default roles and
//! bindings.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/rbac/v1/evaluation_helpers.go`
//! - `plugin/pkg/auth/authorizer/rbac/rbac.go`: `RuleAllows`

pub(crate) mod bootstrap;
pub(crate) mod escalation;
mod policy;

use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use escalation::quoted;
pub(crate) use policy::{Grant, PREFIXES, Policy, PolicyDecision, RoleRef};

use crate::access::authorise::{Attributes, Requested};

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The wildcard.
const ALL: &str = "*";

/// A policy rule: verbs on resources or on non-resource URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "nullable")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) non_resource_urls: Vec<String>,
}

/// Deserializes a list that may be null.
pub(crate) fn nullable<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Rule {
    /// Whether the rule allows a request with these attributes.
    pub(crate) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        match &attributes.requested {
            Requested::NonResource(path) => {
                self.non_resource_urls.iter().any(|url| covers(url, path))
            }
            Requested::Resource(requested) => {
                has(&self.api_groups, requested.group)
                    && self
                        .resources
                        .iter()
                        .any(|own| names(own, requested.resource, requested.subresource))
                    && (self.resource_names.is_empty()
                        || self
                            .resource_names
                            .iter()
                            .any(|name| name == requested.name))
            }
        }
    }
}

fn has(set: &[String], wanted: &str) -> bool {
    set.iter().any(|own| own == ALL || own == wanted)
}

/// Whether a non-resource URL of a rule matches `path`: it is equal, or a prefix that ends with
/// `*`.
fn covers(own: &str, path: &str) -> bool {
    own == path
        || own
            .strip_suffix('*')
            .is_some_and(|_| path.starts_with(own.trim_end_matches('*')))
}

/// Whether a resource of a rule matches. `pods/*` is not a wildcard.
fn names(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    let of = |whole: &str| own.strip_prefix(whole)?.strip_prefix('/');
    of(resource) == Some(subresource) || of(ALL) == Some(subresource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::authorise::ResourceAttributes;
    use crate::request::user::User;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Rule {
            verbs: own(verbs),
            api_groups: own(groups),
            resources: own(resources),
            resource_names: own(names),
            non_resource_urls: Vec::new(),
        }
    }

    fn allows(rule: &Rule, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let user = User::anonymous();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        rule.allows(&Attributes {
            user: &user,
            verb,
            requested: Requested::Resource(ResourceAttributes {
                group,
                resource,
                subresource,
                name,
                ..ResourceAttributes::default()
            }),
        })
    }

    #[test]
    fn a_rule_needs_verb_group_and_resource_alike() {
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        assert!(allows(&pods, "get", "", "pods", "a"));
        assert!(!allows(&pods, "list", "", "pods", ""));
        assert!(!allows(&pods, "get", "apps", "pods", "a"));
        assert!(!allows(&pods, "get", "", "pods/log", "a"));
    }

    #[test]
    fn stars_stand_for_all_but_not_below_a_resource() {
        let all = rule(&["*"], &["*"], &["*"], &[]);
        assert!(allows(&all, "get", "apps", "deployments/scale", "a"));
        let scales = rule(&["get"], &["apps"], &["*/scale"], &[]);
        assert!(allows(&scales, "get", "apps", "deployments/scale", "a"));
        assert!(!allows(&scales, "get", "apps", "deployments", "a"));
        let below = rule(&["get"], &[""], &["pods/*"], &[]);
        assert!(!allows(&below, "get", "", "pods/log", "a"));
    }

    #[test]
    fn names_narrow_a_rule_and_leave_nothing_for_collections() {
        let one = rule(&["get", "list"], &[""], &["pods"], &["a"]);
        assert!(allows(&one, "get", "", "pods", "a"));
        assert!(!allows(&one, "get", "", "pods", "b"));
        assert!(!allows(&one, "list", "", "pods", ""));
    }

    #[test]
    fn paths_are_whole_or_end_in_a_star() {
        assert!(covers("/healthz", "/healthz"));
        assert!(!covers("/healthz", "/healthz/etcd"));
        assert!(covers("/healthz/*", "/healthz/etcd"));
        assert!(!covers("/healthz/*", "/healthz"));
        assert!(covers("*", "/anything"));
    }
}
