//! Keeps the lifecycle of CustomResourceDefinitions: names, establishment, deletion.
//!
//! After every write of a definition the catalog is synchronized with the stored definitions: names
//! are accepted or refused, an established definition is served, and the objects of one that is
//! being deleted are deleted first. The request that wrote waits for this, so a client can use a
//! definition at once.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go`:
//!   `Delete`

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::{Meta, MetaMut, Status};
use sendo_store::{At, Entry, Error, KeyRange, Revision, Transaction};
use serde_json::Value;

use super::api_services;
use crate::catalog::Resource;
use crate::catalog::custom::deletion::CLEANUP;
use crate::catalog::custom::names::{self, Taken};
use crate::catalog::custom::synced::{Synced, SyncedDefinitions};
use crate::catalog::custom::{self, DefinitionState, GROUP, PLURAL, Versions, text};
use crate::catalog::storage::{backend, time_text};
use crate::catalog::stored_form;
use crate::request::Request;
use crate::request::delete_options::DeleteOptions;
use crate::request::path::ResourcePath;
use crate::state::Server;
use crate::state::call::Call;
use crate::write::field_managers;
use crate::write::{self, Writer};

/// Synchronizes the catalog with the stored definitions.
pub(crate) async fn sync(server: &Arc<Server>) -> Result<(), Status> {
    let definitions = definitions(server)?;
    let mut known = server.definitions.lock().await;
    loop {
        let prefix = definitions.keys.collection(None);
        let page = server
            .store
            .range(KeyRange::prefix(&prefix), At::Latest, None)
            .await
            .map_err(backend)?;
        let name_of = |entry: &Entry| entry.key[prefix.len()..].to_owned();
        let present: BTreeMap<String, Arc<Entry>> = page
            .entries
            .iter()
            .map(|entry| (name_of(entry), Arc::clone(entry)))
            .collect();

        let absent: Vec<String> = known
            .definitions
            .keys()
            .filter(|name| !present.contains_key(*name))
            .cloned()
            .collect();
        for name in absent {
            remove(server, &mut known, &name);
        }
        let due = present
            .iter()
            .find(|(name, entry)| needs_sync(&known, name, entry));
        let Some((name, entry)) = due else {
            return api_services::announce(server).await;
        };
        let synced = sync_one(server, &definitions, &known, name, entry, &present).await?;
        if let Some(synced) = synced {
            known.definitions.insert(name.clone(), synced);
        }
    }
}

fn definitions(server: &Server) -> Result<Arc<Resource>, Status> {
    let catalog = server.catalog();
    catalog
        .find(GROUP, "v1", PLURAL)
        .cloned()
        .ok_or_else(Status::no_such_resource)
}

/// Whether a definition must be synchronized: it changed, or it waits for its objects to be
/// deleted.
fn needs_sync(known: &SyncedDefinitions, name: &str, entry: &Entry) -> bool {
    known
        .definitions
        .get(name)
        .is_none_or(|synced| synced.at != entry.modified)
}

/// Removes a definition from the catalog. Others may then be given its names.
fn remove(server: &Server, known: &mut SyncedDefinitions, name: &str) {
    let Some(gone) = known.definitions.remove(name) else {
        return;
    };
    gone.gone.cancel();
    server.change_catalog(|catalog| catalog.remove_definition(name));
    for synced in known.definitions.values_mut() {
        if synced.group == gone.group && !synced.established {
            synced.at = Revision(0);
        }
    }
}

/// Synchronizes a definition. Returns `None` if it has to be synchronized again.
async fn sync_one(
    server: &Arc<Server>,
    definitions: &Arc<Resource>,
    known: &SyncedDefinitions,
    name: &str,
    entry: &Entry,
    present: &BTreeMap<String, Arc<Entry>>,
) -> Result<Option<Synced>, Status> {
    let definition = stored_form::decode(&entry.value, entry.modified, &definitions.stored);
    let group = text(&definition["spec"]["group"]).to_owned();
    let terminating = Meta::new(&definition).deletion_timestamp().is_some();
    let now = time_text(server.world.clock().wall());
    if !terminating {
        let status = names::status(
            &definition,
            &taken(definitions, name, &group, present),
            &now,
        );
        if status != definition["status"] {
            write_status(server, definitions, entry, &definition, status).await?;
            return Ok(None);
        }
    }
    let before = known.definitions.get(name);
    let versions = definition["spec"]["versions"].clone();
    let conversion = definition["spec"]["conversion"].clone();
    let same_schema = before.is_some_and(|synced| synced.versions == versions);
    let converts_alike = before.is_some_and(|synced| {
        synced.conversion == conversion
            && storage_version(&synced.versions) == storage_version(&versions)
    });
    let mut synced = Synced {
        group,
        at: entry.modified,
        schema_since: match before {
            Some(synced) if same_schema => synced.schema_since,
            // The schema of the first generation is as old as the definition.
            None if Meta::new(&definition).generation() <= 1 => entry.created,
            _ => entry.modified,
        },
        versions,
        conversion,
        established: names::is_established(&definition),
        terminating,
        gone: match before.filter(|_| converts_alike) {
            Some(synced) => synced.gone.clone(),
            None => server.world.tasks().stopping().child_token(),
        },
    };
    let state = DefinitionState {
        since: entry.created,
        schema_since: synced.schema_since,
        terminating,
        gone: synced.gone.clone(),
    };
    let served = if synced.established {
        custom::resources(&definition, &state)
    } else {
        Vec::new()
    };
    server.change_catalog(|catalog| catalog.put_definition(name, served));
    if let Some(synced) = before.filter(|_| !converts_alike) {
        // Watches show objects as they were converted: they begin anew, as in Kubernetes.
        synced.gone.cancel();
    }
    if terminating {
        if !finalize(server, definitions, entry, definition, &state, &now).await? {
            return Ok(None);
        }
        // Objects with finalizers remain: `object_gone` synchronizes again when one is removed.
        synced.terminating = true;
    }
    Ok(Some(synced))
}

/// The accepted names of other definitions of the group.
fn taken(
    definitions: &Resource,
    name: &str,
    group: &str,
    present: &BTreeMap<String, Arc<Entry>>,
) -> Taken {
    let mut taken = Taken::default();
    let suffix = format!(".{group}");
    for (other, entry) in present
        .iter()
        .filter(|(other, _)| *other != name && other.ends_with(&suffix))
    {
        let definition = stored_form::decode(&entry.value, entry.modified, &definitions.stored);
        if definition["spec"]["group"] == group && !other.is_empty() {
            taken.add(&definition);
        }
    }
    taken
}

/// Writes the status of a definition. After a conflict the definition is synchronized again.
async fn write_status(
    server: &Server,
    definitions: &Resource,
    entry: &Entry,
    definition: &Value,
    status: Value,
) -> Result<(), Status> {
    let mut new = definition.clone();
    new["status"] = status;
    let now = time_text(server.world.clock().wall());
    field_managers::update_own(server, definitions, "status", definition, &mut new, &now);
    let value = server.encode(definitions, &mut new);
    let put = Transaction::new()
        .unchanged(entry.key.clone(), entry.modified)
        .put(entry.key.clone(), value);
    match server.store.commit(put).await {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(backend(other)),
    }
}

/// Deletes the objects of a definition, then the definition. Returns whether nothing more can be
/// done now: objects with finalizers may remain.
async fn finalize(
    server: &Arc<Server>,
    definitions: &Arc<Resource>,
    entry: &Entry,
    mut definition: Value,
    state: &DefinitionState,
    now: &str,
) -> Result<bool, Status> {
    if !Meta::new(&definition)
        .finalizers()
        .any(|own| own == CLEANUP)
    {
        return Ok(true);
    }
    let mut status = definition["status"].clone();
    let progress = (
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    );
    names::set_condition(&mut status, progress, now);
    if status != definition["status"] {
        write_status(server, definitions, entry, &definition, status).await?;
        return Ok(false);
    }
    if !delete_objects(server, &definition, state).await? {
        return Ok(true);
    }
    let rest: Vec<String> = Meta::new(&definition)
        .finalizers()
        .filter(|own| *own != CLEANUP)
        .map(str::to_owned)
        .collect();
    let guarded = Transaction::new().unchanged(entry.key.clone(), entry.modified);
    let transaction = if rest.is_empty() {
        guarded.delete(entry.key.clone())
    } else {
        MetaMut::new(&mut definition).set_finalizers(rest);
        guarded.put(
            entry.key.clone(),
            server.encode(definitions, &mut definition),
        )
    };
    match server.store.commit(transaction).await {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(false),
        Err(other) => Err(backend(other)),
    }
}

/// The name of the version that is stored.
fn storage_version(versions: &Value) -> &Value {
    let mut all = versions.as_array().into_iter().flatten();
    let storage = all.find(|version| version["storage"] == true);
    storage.map_or(&Value::Null, |version| &version["name"])
}

/// Deletes every object of a definition, each in the version in which it is stored: no webhook is
/// asked, which may be gone already. Returns whether none is left.
async fn delete_objects(
    server: &Arc<Server>,
    definition: &Value,
    state: &DefinitionState,
) -> Result<bool, Status> {
    let Some(versions) = Versions::from_definition(definition) else {
        return Ok(true);
    };
    let resource_of = |api_version: &str| {
        let name = api_version.rsplit('/').next().unwrap_or_default();
        custom::resource_as_stored(definition, name, state).map(Arc::new)
    };
    let storage = versions.storage().api_version.as_str();
    let Some(storage_resource) = resource_of(storage) else {
        return Ok(true);
    };
    let mut resources = BTreeMap::from([(storage, Arc::clone(&storage_resource))]);
    let resource = &storage_resource;
    let prefix = resource.keys.collection(None);
    let page = server
        .store
        .range(KeyRange::prefix(&prefix), At::Latest, None)
        .await
        .map_err(backend)?;
    let request = Request::internal();
    for entry in &page.entries {
        let object: Value =
            serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
        let meta = Meta::new(&object);
        let namespace = Some(meta.namespace().to_owned()).filter(|namespace| !namespace.is_empty());
        let path = ResourcePath {
            namespace,
            ..ResourcePath::default()
        };
        let version = versions.of_stored(&entry.value);
        let version = version.map_or(storage, |version| version.api_version.as_str());
        if !resources.contains_key(version) {
            resources.extend(resource_of(version).map(|resource| (version, resource)));
        }
        let resource = resources.get(version).unwrap_or(&storage_resource);
        let call = Call {
            server,
            request: &request,
            path: &path,
            resource,
        };
        let options = DeleteOptions::default();
        match write::remove(&call, meta.name(), &options, Writer::Server).await {
            Err(status) if status.code == 404 => {}
            other => drop(other?),
        }
    }
    let left = server
        .store
        .range(KeyRange::prefix(&prefix), At::Latest, Some(1))
        .await
        .map_err(backend)?;
    Ok(left.entries.is_empty())
}

/// Synchronizes a definition that waits for its objects to be deleted.
pub(crate) async fn object_gone(server: &Arc<Server>, definition: &str) -> Result<(), Status> {
    {
        let mut known = server.definitions.lock().await;
        match known.definitions.get_mut(definition) {
            Some(synced) if synced.terminating => synced.at = Revision(0),
            _ => return Ok(()),
        }
    }
    sync(server).await
}
