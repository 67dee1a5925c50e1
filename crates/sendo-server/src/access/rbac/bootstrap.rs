//! The default roles and bindings, as facts.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go`
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go`

use serde_json::{Map, Value, json};

use super::{GROUP, Rule};

/// Written by `cargo xtask codegen`.
const FACTS: &str = include_str!("../../../facts/rbac.txt");

/// The annotation that disables reconciliation of a role if it is `false`.
pub(crate) const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// The default roles and bindings.
pub(crate) fn objects() -> impl Iterator<Item = Value> {
    described(FACTS).map(Described::object)
}

/// The default rules of a ClusterRole.
pub(crate) fn rules(cluster_role: &str) -> Vec<Rule> {
    let mut roles = described(FACTS).filter(|it| it.kind == "ClusterRole");
    let found = roles.find(|role| role.name == cluster_role);
    let rules = found.map(|role| serde_json::from_value(role.object()["rules"].take()));
    rules.and_then(Result::ok).unwrap_or_default()
}

/// An object in the facts file.
struct Described<'f> {
    kind: &'f str,
    /// The name, with the namespace if it has one.
    name: &'f str,
    members: std::str::Lines<'f>,
}

/// The objects in the facts file.
fn described(facts: &str) -> impl Iterator<Item = Described<'_>> {
    facts.split("\n\n").filter_map(|paragraph| {
        let mut lines = paragraph.lines();
        let head = lines.find(|line| !line.starts_with('#'))?;
        let (kind, name) = head.split_once(' ')?;
        Some(Described {
            kind,
            name,
            members: lines,
        })
    })
}

impl Described<'_> {
    fn object(self) -> Value {
        let mut object = head(self.kind, self.name);
        self.members.for_each(|line| member(&mut object, line));
        object
    }
}

fn head(kind: &str, name: &str) -> Value {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    };
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {BOOTSTRAPPING.0: BOOTSTRAPPING.1},
            "annotations": {AUTOUPDATE: "true"},
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn member(object: &mut Value, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pair = |word: &str| -> Map<String, Value> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        Map::from_iter([(key.to_owned(), value.into())])
    };
    match words.as_slice() {
        ["label", label] => {
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.extend(pair(label));
            }
        }
        ["aggregate", label] => {
            let selector = json!({"matchLabels": pair(label)});
            push(
                &mut object["aggregationRule"],
                "clusterRoleSelectors",
                selector,
            );
        }
        ["urls", verbs, urls] => {
            let rule = json!({"verbs": list(verbs), "nonResourceURLs": list(urls)});
            push(object, "rules", rule);
        }
        ["rule", verbs, groups, resources, names @ ..] => {
            let mut rule = json!({
                "verbs": list(verbs),
                "apiGroups": list(groups),
                "resources": list(resources),
            });
            if let [names] = names {
                rule["resourceNames"] = list(names).into();
            }
            push(object, "rules", rule);
        }
        ["of", kind, name] => {
            object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": name});
        }
        ["to", kind, name] => {
            let subject = match name.split_once('/') {
                Some((namespace, name)) => {
                    json!({"kind": kind, "name": name, "namespace": namespace})
                }
                None => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
            };
            push(object, "subjects", subject);
        }
        _ => {}
    }
}

fn push(object: &mut Value, member: &str, item: Value) {
    match object[member].as_array_mut() {
        Some(items) => items.push(item),
        None => object[member] = json!([item]),
    }
}

fn list(words: &str) -> Vec<&str> {
    words
        .split(',')
        .map(|word| if word == "core" { "" } else { word })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kind: &str, name: &str) -> Value {
        described(FACTS)
            .map(Described::object)
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    #[test]
    fn the_facts_are_read_whole() {
        let lines = FACTS.lines();
        let heads = lines.filter(|line| line.contains("Role") && !line.starts_with([' ', '#']));
        assert_eq!(described(FACTS).count(), heads.count());
        assert_eq!(
            find("ClusterRole", "cluster-admin")["rules"],
            json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ])
        );
        assert_eq!(
            find("ClusterRole", "view")["aggregationRule"],
            json!({"clusterRoleSelectors": [
                {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
            ]})
        );
        let binding = find(
            "ClusterRoleBinding",
            "system:controller:namespace-controller",
        );
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": "namespace-controller", "namespace": "kube-system"}])
        );
    }
}
