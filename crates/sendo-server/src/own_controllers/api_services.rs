//! Keeps APIServices in line with the groups that are served, here or elsewhere.
//!
//! Each version of a group of custom resources has an APIService, which is created and deleted with
//! their definitions. An APIService that names a service elsewhere adds a group that this server
//! answers with 503: requests are not forwarded.

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use sendo_store::{At, Entry, Error, KeyRange, Transaction};
use serde_json::{Value, json};

use crate::catalog::keys::Keys;
use crate::catalog::storage::{backend, time_text};
use crate::catalog::stored_form;
use crate::catalog::version_priority::rank;
use crate::catalog::{Catalog, Resource};
use crate::kinds::api_service::{GROUP, PLURAL, available};
use crate::state::Server;
use crate::write::field_managers;

/// The label of those that this server makes and deletes itself.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// How groups of definitions rank behind built-in ones, and all versions alike.
const GROUP_PRIORITY: u32 = 1000;
const VERSION_PRIORITY: u32 = 100;

/// Applies what was written to APIServices: restores those of custom resources, and
/// updates which groups are served elsewhere.
pub(crate) async fn sync(server: &Arc<Server>) -> Result<(), Status> {
    announce(server).await?;
    let services = services(server)?;
    let mut remote: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in entries(server, &services).await? {
        let service = stored_form::object(&entry);
        let spec = &service["spec"];
        if spec["service"].is_null() || Meta::new(&service).deletion_timestamp().is_some() {
            continue;
        }
        let [group, version] = ["group", "version"].map(|key| spec[key].as_str().unwrap_or(""));
        remote
            .entry(group.to_owned())
            .or_default()
            .push(version.to_owned());
        mark_away(server, &services, &entry).await?;
    }
    for versions in remote.values_mut() {
        versions.sort_by_key(|version| rank(version));
    }
    server.change_catalog(|catalog| catalog.set_remote(remote));
    Ok(())
}

/// Makes an APIService for each version of each group that definitions bring,
/// and deletes those of versions that are served no more.
pub(crate) async fn announce(server: &Arc<Server>) -> Result<(), Status> {
    let services = services(server)?;
    let prefix = services.keys.collection(None);
    let mut wanted = versions_of_definitions(&server.catalog());
    let mut transaction = Transaction::new();
    let mut changes = false;
    for entry in entries(server, &services).await? {
        let name = &entry.key[prefix.len()..];
        if wanted.remove(name).is_some() {
            continue;
        }
        if Meta::new(&stored_form::object(&entry)).label(MANAGED) == Some("true") {
            transaction = transaction
                .unchanged(entry.key.clone(), entry.modified)
                .delete(entry.key.clone());
            changes = true;
        }
    }
    for (name, (group, version)) in wanted {
        let mut service = local(server, &services, &name, &group, &version);
        let key = services.keys.object(None, &name);
        let value = server.encode(&services, &mut service);
        transaction = transaction.absent(key.clone()).put(key, value);
        changes = true;
    }
    if !changes {
        return Ok(());
    }
    match server.store.commit(transaction).await {
        // A concurrent write of APIServices ends with a sync of its own.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(backend(other)),
    }
}

/// Group and version by the name of their APIService.
fn versions_of_definitions(catalog: &Catalog) -> BTreeMap<String, (String, String)> {
    let mut versions = BTreeMap::new();
    for group in catalog.groups() {
        for version in group.versions() {
            let resources = group.resources(version).unwrap_or_default();
            // A built-in version has its APIService, whatever definitions add to it.
            let is_custom = resources.iter().all(|resource| resource.custom.is_some());
            if is_custom && !resources.is_empty() {
                let name = format!("{version}.{}", group.name);
                versions.insert(name, (group.name.clone(), version.to_owned()));
            }
        }
    }
    versions
}

fn local(server: &Server, services: &Resource, name: &str, group: &str, version: &str) -> Value {
    let now = time_text(server.world.clock().wall());
    let mut service = json!({
        "apiVersion": services.stored.api_version,
        "kind": services.stored.kind,
        "metadata": {
            "name": name,
            "uid": server.world.random().uuid(),
            "creationTimestamp": now,
            "labels": {MANAGED: "true"},
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
        },
    });
    field_managers::update_own(server, services, "", &Value::Null, &mut service, &now);
    service["status"] = json!({"conditions": [available(&now)]});
    service
}

/// Writes that a group elsewhere cannot be reached.
async fn mark_away(server: &Server, services: &Resource, entry: &Entry) -> Result<(), Status> {
    let service = stored_form::object(entry);
    let at = &service["spec"]["service"];
    let [namespace, name] = ["namespace", "name"].map(|key| at[key].as_str().unwrap_or(""));
    let key = Keys::new("", "services", true).object(Some(namespace), name);
    let found = server.store.get(&key, At::Latest).await.map_err(backend)?;
    let (reason, message) = match found.entry {
        None => (
            "ServiceNotFound",
            format!("service/{name} in {namespace:?} is not present"),
        ),
        Some(_) => (
            "FailedDiscoveryCheck",
            "requests are not forwarded to other API servers".to_owned(),
        ),
    };
    let is_told = |own: &Value| own["type"] == "Available" && own["reason"] == reason;
    let conditions = service["status"]["conditions"].as_array();
    if conditions.into_iter().flatten().any(is_told) {
        return Ok(());
    }
    let now = time_text(server.world.clock().wall());
    let condition = json!({
        "type": "Available",
        "status": "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    let service = stored_form::decode(&entry.value, entry.modified, &services.stored);
    let mut new = service.clone();
    new["status"] = json!({"conditions": [condition]});
    field_managers::update_own(server, services, "status", &service, &mut new, &now);
    let put = Transaction::new()
        .unchanged(entry.key.clone(), entry.modified)
        .put(entry.key.clone(), server.encode(services, &mut new));
    match server.store.commit(put).await {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(backend(other)),
    }
}

fn services(server: &Server) -> Result<Arc<Resource>, Status> {
    let catalog = server.catalog();
    let found = catalog.find(GROUP, "v1", PLURAL).cloned();
    found.ok_or_else(Status::no_such_resource)
}

async fn entries(server: &Server, services: &Resource) -> Result<Vec<Arc<Entry>>, Status> {
    let range = KeyRange::prefix(&services.keys.collection(None));
    let page = server.store.range(range, At::Latest, None).await;
    Ok(page.map_err(backend)?.entries)
}
