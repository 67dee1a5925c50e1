//! Creates the default roles and bindings, or completes them, when a server starts.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/rbac/rest/storage_rbac.go`: `ensureRBACPolicy`
//! - `staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_role.go`
//! - `staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_rolebindings.go`

use std::sync::Arc;

use futures::future::try_join_all;
use sendo_apimachinery::Status;
use sendo_store::{At, Error, Transaction};
use serde_json::{Value, json};

use crate::access::rbac::bootstrap::{AUTOUPDATE, objects};
use crate::access::rbac::{GROUP, Rule, escalation};
use crate::catalog::storage::{backend, time_text};
use crate::catalog::{Resource, stored_form};
use crate::state::Server;

/// Creates missing default roles and bindings. Existing ones keep additional rules and subjects and
/// get missing ones back, unless reconciliation is disabled by annotation.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<(), Status> {
    let catalog = server.catalog();
    let each = objects().map(|object| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kind: &str, name: &str) -> Value {
        objects()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
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
