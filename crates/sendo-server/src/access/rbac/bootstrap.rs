//! The default roles and bindings, which are created or reconciled when a server starts.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/rbac/rest/storage_rbac.go`: `ensureRBACPolicy`
//! - `staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_role.go`
//! - `staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_rolebindings.go`
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go`
//! - `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go`

use std::sync::Arc;

use futures::future::try_join_all;
use sendo_apimachinery::Status;
use sendo_store::{At, Error, Transaction};
use serde_json::{Map, Value, json};

use super::{GROUP, Rule, escalation};
use crate::catalog::Resource;
use crate::catalog::stored_form;
use crate::state::Server;
use crate::state::call::{backend, time_text};

/// Written by `cargo xtask codegen`.
const FACTS: &str = include_str!("../../../facts/rbac.txt");

/// The annotation that disables reconciliation of a role if it is `false`.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// Creates missing default roles and bindings. Existing ones keep additional rules and subjects and
/// get missing ones back, unless reconciliation is disabled by annotation.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<(), Status> {
    let catalog = server.catalog();
    let each = described(FACTS).map(Described::object).map(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let plural = format!("{}s", kind.to_ascii_lowercase());
        let resource = catalog.find(GROUP, "v1", &plural);
        async move {
            let resource = resource.ok_or_else(Status::no_such_resource)?;
            ensure_one(server, resource, object).await
        }
    });
    try_join_all(each).await.map(drop)
}

/// The default rules of a ClusterRole.
pub(crate) fn rules(cluster_role: &str) -> Vec<Rule> {
    let mut roles = described(FACTS).filter(|it| it.kind == "ClusterRole");
    let found = roles.find(|role| role.name == cluster_role);
    let rules = found.map(|role| serde_json::from_value(role.object()["rules"].take()));
    rules.and_then(Result::ok).unwrap_or_default()
}

async fn ensure_one(server: &Server, resource: &Resource, wanted: Value) -> Result<(), Status> {
    let metadata = &wanted["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let key = resource.keys.object(metadata["namespace"].as_str(), name);
    loop {
        let found = server.store.get(&key, At::Latest).await.map_err(backend)?;
        let transaction = match found.entry {
            None => {
                let value = server.encode(resource, &mut begin(server, wanted.clone()));
                Transaction::new()
                    .absent(key.clone())
                    .put(key.clone(), value)
            }
            Some(entry) => {
                let old = stored_form::decode(&entry.value, entry.modified, &resource.stored);
                let Some(mut new) = complete(&old, &wanted) else {
                    return Ok(());
                };
                let value = server.encode(resource, &mut new);
                Transaction::new()
                    .unchanged(key.clone(), entry.modified)
                    .put(key.clone(), value)
            }
        };
        match server.store.commit(transaction).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. }) => {}
            Err(other) => return Err(backend(other)),
        }
    }
}

fn begin(server: &Server, mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = server.world.random().uuid().into();
    metadata["creationTimestamp"] = time_text(server.world.clock().wall()).into();
    object
}

/// The reconciled object, or `None` if nothing is missing or reconciliation is disabled.
///
/// A binding to another role is replaced, since `roleRef` is immutable.
fn complete(old: &Value, wanted: &Value) -> Option<Value> {
    if old["metadata"]["annotations"][AUTOUPDATE] == "false" {
        return None;
    }
    let mut new = old.clone();
    for member in ["labels", "annotations"] {
        let wanted = wanted["metadata"][member].as_object();
        for (key, value) in wanted.into_iter().flatten() {
            let own = &mut new["metadata"][member];
            if own.get(key).is_none() {
                own[key] = value.clone();
            }
        }
    }
    if wanted.get("roleRef").is_some() {
        new["roleRef"] = wanted["roleRef"].clone();
        add(&mut new, wanted, "subjects");
    } else if wanted.get("aggregationRule").is_some() {
        let (own, wanted) = (&mut new["aggregationRule"], &wanted["aggregationRule"]);
        add(own, wanted, "clusterRoleSelectors");
    } else {
        let rules = |role: &Value| -> Vec<Rule> {
            serde_json::from_value(role["rules"].clone()).unwrap_or_default()
        };
        let missing = escalation::missing(&rules(old), &rules(wanted));
        if !missing.is_empty() {
            let mut all = old["rules"].as_array().cloned().unwrap_or_default();
            all.extend(missing.iter().map(|rule| json!(rule)));
            new["rules"] = all.into();
        }
    }
    (new != *old).then_some(new)
}

/// Appends the items of a list of `wanted` that the list of `own` does not have.
fn add(own: &mut Value, wanted: &Value, member: &str) {
    let mut items = own[member].as_array().cloned().unwrap_or_default();
    let wanted = wanted[member].as_array().into_iter().flatten();
    let missing: Vec<Value> = wanted
        .filter(|item| !items.contains(item))
        .cloned()
        .collect();
    if !missing.is_empty() {
        items.extend(missing);
        own[member] = items.into();
    }
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

    #[test]
    fn what_was_taken_away_comes_back_and_what_was_added_stays() {
        let wanted = find("ClusterRole", "system:basic-user");
        assert_eq!(complete(&wanted, &wanted), None);
        let mut less = wanted.clone();
        less["rules"] = json!([{"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}]);
        let more = complete(&less, &wanted).unwrap();
        assert_eq!(more["rules"][0], less["rules"][0]);
        assert!(more["rules"].as_array().unwrap().len() > 1);
        less["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(complete(&less, &wanted), None);
    }
}
