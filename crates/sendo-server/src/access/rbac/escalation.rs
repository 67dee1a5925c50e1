//! Privilege escalation check: whether the rules that a user holds cover other rules.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go`: `Covers`,
//!   `BreakdownRule`, `ruleCovers`
//! - `pkg/registry/rbac/validation/rule.go`: `ConfirmNoEscalation`
//! - `pkg/registry/rbac/validation/policy_compact.go`: `CompactRules`
//! - `pkg/apis/rbac/v1/evaluation_helpers.go`: `CompactString`

use std::collections::{BTreeMap, BTreeSet};

use sendo_apimachinery::{go_quote, status};

use super::{ALL, Rule, covers};
use crate::request::user::User;

/// The rules of `wanted` that no rule of `held` covers, broken down into rules with one verb,
/// resource and name each.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted
        .iter()
        .flat_map(break_down)
        .filter(|part| !held.iter().any(|own| is_covered(part, own)))
        .collect()
}

/// The error message for a grant: the user and the rules the user lacks. `absent` are the errors of
/// resolving the user's own rules.
pub(crate) fn refusal(user: &User, missing: Vec<Rule>, absent: &[String]) -> String {
    let lacking: BTreeSet<String> = compact(missing).iter().map(describe).collect();
    let lacking: Vec<String> = lacking.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&user.name),
        quoted(&user.groups),
        lacking.join("\n")
    );
    if !absent.is_empty() {
        let errors = status::aggregate(absent.iter().cloned());
        text.push_str(&format!("; resolution errors: [{errors}]"));
    }
    text
}

/// Breaks a rule down into rules that each have at most one verb, one resource and one name.
fn break_down(rule: &Rule) -> Vec<Rule> {
    let mut parts = Vec::new();
    let one = |word: &String| vec![word.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                    continue;
                }
                parts.extend(rule.resource_names.iter().map(|name| Rule {
                    resource_names: one(name),
                    ..part.clone()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        parts.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            non_resource_urls: one(url),
            ..Rule::default()
        }));
    }
    parts
}

/// Whether one rule covers a rule that [`break_down`] returned.
fn is_covered(part: &Rule, own: &Rule) -> bool {
    let within = |part: &[String], own: &[String]| {
        own.iter().any(|word| word == ALL) || part.iter().all(|word| own.contains(word))
    };
    let names = if part.resource_names.is_empty() {
        own.resource_names.is_empty()
    } else {
        own.resource_names.is_empty()
            || part
                .resource_names
                .iter()
                .all(|name| own.resource_names.contains(name))
    };
    let urls = part
        .non_resource_urls
        .iter()
        .all(|url| own.non_resource_urls.iter().any(|own| covers(own, url)));
    within(&part.verbs, &own.verbs)
        && within(&part.api_groups, &own.api_groups)
        && part
            .resources
            .iter()
            .all(|resource| is_resource_covered(resource, &own.resources))
        && names
        && urls
}

fn is_resource_covered(resource: &str, own: &[String]) -> bool {
    let of_all = resource
        .split_once('/')
        .map(|(_, subresource)| format!("{ALL}/{subresource}"));
    own.iter()
        .any(|own| own == ALL || own == resource || Some(own) == of_all.as_ref())
}

/// Merges rules with the same resource and name into one with all their verbs.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut whole = Vec::new();
    let mut simple: BTreeMap<[Vec<String>; 3], Rule> = BTreeMap::new();
    for part in parts {
        if !part.non_resource_urls.is_empty() {
            whole.push(part);
            continue;
        }
        let key = [
            part.api_groups.clone(),
            part.resources.clone(),
            part.resource_names.clone(),
        ];
        match simple.get_mut(&key) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => {
                simple.insert(key, part);
            }
        }
    }
    whole.extend(simple.into_values());
    whole
}

fn describe(rule: &Rule) -> String {
    let members = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let members: Vec<String> = members
        .iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(name, words)| format!("{name}:{}", quoted(words)))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// A list of texts as Go's `%q` prints it.
pub(crate) fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| go_quote(word)).collect();
    format!("[{}]", words.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(value: Value) -> Vec<Rule> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_held_in_parts_covers_the_whole() {
        let held = rules(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/status"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]},
        ]));
        let wanted = rules(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/status"]},
            {"verbs": ["delete"], "apiGroups": ["apps"], "resources": ["deployments/scale"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz/x", "/healthz/*"]},
        ]));
        assert_eq!(missing(&held, &wanted), []);
    }

    #[test]
    fn a_name_does_not_cover_all_names_nor_a_verb_all_verbs() {
        let held = rules(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        ]));
        let wanted = rules(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        ]));
        assert_eq!(missing(&held, &wanted).len(), 2);
    }

    #[test]
    fn the_refusal_lists_what_lacks_in_order_with_verbs_together() {
        let wanted = rules(json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        ]));
        let ann = User::new("ann", ["devs"]);
        assert_eq!(
            refusal(&ann, missing(&[], &wanted), &[]),
            "user \"ann\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}\n\
             {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"
        );
    }
}
