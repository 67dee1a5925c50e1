//! One request on one resource, with which every verb works.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use sendo_apimachinery::{GroupKind, GroupVersion, Status, go_quote, names};
use sendo_store::{At, Entry, Key};
use serde_json::Value;

use crate::catalog::Resource;
use crate::catalog::storage::backend;
use crate::catalog::stored_form::Stored;
use crate::kinds::Cx;
use crate::request::Request;
use crate::request::path::ResourcePath;
use crate::state::Server;

/// One request on one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) request: &'a Request,
    pub(crate) path: &'a ResourcePath,
    pub(crate) resource: &'a Arc<Resource>,
}

impl<'a> Call<'a> {
    /// The namespace of the request, for resources that live in one.
    ///
    /// None for all of them, which an empty one in the path means too.
    pub(crate) fn namespace(&self) -> Option<&'a str> {
        self.path
            .namespace
            .as_deref()
            .filter(|name| !name.is_empty() && self.resource.is_namespaced())
    }

    /// Refuses a namespace that leads out of the place where objects of the resource are kept.
    pub(crate) fn check_namespace(&self, creates: bool) -> Result<(), Status> {
        let Some(namespace @ ("." | "..")) = self.namespace() else {
            return Ok(());
        };
        if creates {
            let faults = names::path_segment(namespace).join(" ");
            let named = go_quote(namespace);
            return Err(Status::internal_error(format!(
                "invalid resource name {named}: [{faults}]"
            )));
        }
        let facts = &self.resource.facts;
        let mut key = format!("/{}/{namespace}", facts.plural);
        if self.resource.custom.is_some() {
            key.insert_str(0, &format!("/{}", facts.group));
        }
        if let Some(name) = &self.path.name {
            key = key + "/" + name;
        }
        let key = go_quote(&key);
        Err(Status::unclassified(format!("invalid key: {key}")))
    }

    /// The name in the path; empty for a collection.
    pub(crate) fn name(&self) -> &'a str {
        self.path.name.as_deref().unwrap_or_default()
    }

    /// The key of the object of that name.
    pub(crate) fn key(&self, name: &str) -> Result<Key, Status> {
        if self.namespace().is_none() && self.resource.is_namespaced() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        let faults = names::path_segment(name);
        if !faults.is_empty() {
            return Err(Status::bad_request(format!(
                "Name parameter invalid: {}: {}",
                go_quote(name),
                faults.join(";")
            )));
        }
        Ok(self.resource.keys.object(self.namespace(), name))
    }

    /// What is stored under the name of the path.
    pub(crate) async fn entry(&self) -> Result<Arc<Entry>, Status> {
        let stored = self.stored(&self.key(self.name())?).await?;
        stored.ok_or_else(|| self.not_found(self.name()))
    }

    /// What is stored under a key now.
    pub(crate) async fn stored(&self, key: &Key) -> Result<Option<Arc<Entry>>, Status> {
        let found = self.server.store.get(key, At::Latest).await;
        Ok(found.map_err(backend)?.entry)
    }

    /// The object of a built-in kind that an entry holds, in its storage version.
    pub(crate) fn decode(&self, entry: &Entry) -> Value {
        self.resource.decode(&entry.value, entry.modified)
    }

    /// The object an entry holds: in the version of the request for custom resources, else in its
    /// storage version.
    pub(crate) async fn read(&self, entry: &Entry) -> Result<Value, Status> {
        let stored = self.in_version(Stored::from(entry)).await?;
        Ok(self.resource.decode(&stored.value, stored.at))
    }

    /// What is stored in the version of the request, if a webhook has to convert it.
    pub(crate) async fn in_version(&self, stored: Stored) -> Result<Stored, Status> {
        if !self.resource.has_conversion_webhook() {
            return Ok(stored);
        }
        let mut all = self.server.in_version(self.resource, vec![stored]).await?;
        Ok(all.remove(0))
    }

    /// The bytes to store for an object as [`Call::read`] gives it.
    pub(crate) async fn encode(&self, object: &mut Value) -> Result<Bytes, Status> {
        let server = self.server;
        server.encode_for_storage(self.resource, object, None).await
    }

    /// The kind that a refusal of `object` names: custom resources name their own.
    pub(crate) fn kind_of(&self, object: &Value) -> GroupKind {
        if self.resource.custom.is_none() {
            return self.resource.group_kind();
        }
        let own = |member: &str| object[member].as_str().unwrap_or_default();
        let version = GroupVersion::parse(own("apiVersion"));
        GroupKind::new(
            version.map(|version| version.group).unwrap_or_default(),
            own("kind"),
        )
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        let mut resource = self.resource.group_resource();
        if self.resource.is_core("componentstatuses") {
            // The one resource that Kubernetes calls by its singular here.
            resource.resource.clone_from(&self.resource.facts.singular);
        }
        Status::not_found(&resource, name)
    }

    /// The time of this request.
    pub(crate) fn now(&self) -> Timestamp {
        self.server.world.clock().wall()
    }

    /// What a kind's rules may ask of the world.
    pub(crate) fn cx(&self) -> Cx<'a> {
        Cx {
            now: self.now(),
            random: self.server.world.random(),
            api_version: &self.resource.types.api_version,
            user: &self.request.user,
        }
    }
}
