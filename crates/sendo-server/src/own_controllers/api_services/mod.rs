//! Keeps APIServices in line with the groups that are served, here or elsewhere.
//!
//! Each version of a group of custom resources has an APIService, which is created and deleted
//! with their definitions. An APIService that names a service elsewhere adds a version whose
//! requests are forwarded ([`crate::aggregator`]); a task of its own ([`remote`]) checks whether
//! its server is available, and asks it what it serves.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/autoregister/autoregister_controller.go`
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/local/local_available_controller.go`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apiserver/apiservice_controller.go`

mod availability;
mod documents;
mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use sendo_store::{At, Entry, Error, KeyRange, Transaction};
use serde_json::{Value, json};

use crate::catalog::remote::{Backend, Documents, Priorities, Priority, RemoteVersion};
use crate::catalog::storage::{backend, time_text};
use crate::catalog::stored_form;
use crate::catalog::{Catalog, Resource};
use crate::kinds::api_service::{GROUP, PLURAL, available};
use crate::state::Server;
use crate::write::field_managers;
use availability::Condition;

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
    let mut tasks = server.remote_tasks.lock().await;
    let mut priorities = Priorities::new();
    let mut remote = Vec::new();
    for entry in entries(server, &services).await? {
        let service = stored_form::object(&entry);
        let spec = &service["spec"];
        let [group, version] = ["group", "version"].map(|key| spec[key].as_str().unwrap_or(""));
        let versions = priorities.entry(group.to_owned()).or_default();
        versions.insert(version.to_owned(), priority(spec));
        let Some(backend) = Backend::from_api_service(&service) else {
            remote::set_available(server, &services, &entry, &Condition::local()).await?;
            continue;
        };
        remote.push(RemoteVersion {
            group: group.to_owned(),
            version: version.to_owned(),
            is_available: availability::is_available(&service),
            documents: Documents::default(),
            backend: Arc::new(backend),
        });
    }
    let names: Vec<String> = priorities
        .iter()
        .flat_map(|(group, versions)| versions.keys().map(move |own| format!("{own}.{group}")))
        .collect();
    let unavailable = &server.metrics.aggregator.unavailable;
    unavailable.retain(|labels| names.iter().any(|name| **name == *labels[0]));
    server.change_catalog(|catalog| catalog.set_api_services(remote, priorities));
    remote::run(server, &mut tasks, server.catalog().remote());
    Ok(())
}

fn priority(spec: &Value) -> Priority {
    let number = |key: &str| spec[key].as_u64().unwrap_or(0);
    Priority {
        group: number("groupPriorityMinimum"),
        version: number("versionPriority"),
    }
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
