//! What all parts of a server share, and a request with its resource ([`call::Call`]).

pub(crate) mod admission;
pub(crate) mod call;
mod conversion;
pub(crate) mod create_permission;
pub(crate) mod decode;
pub(crate) mod documents;
pub mod pod_security;
pub(crate) mod remote_tasks;
pub(crate) mod service_ranges;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};
use sendo_apimachinery::Status;
use sendo_apimachinery::resources::Resources;
use sendo_apimachinery::schema::{Types, show_as_stored};
use sendo_store::{KeyRange, Revision, Store};
use sendo_world::World;
use serde_json::Value;

use crate::access::Access;
use crate::access::follow::Follow;
use crate::audit::Auditor;
use crate::catalog::custom::synced::SyncedDefinitions;
use crate::catalog::storage::backend;
use crate::catalog::{self, Catalog, Resource};
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::request::in_flight::InFlight;
use crate::webhook::Webhooks;
use admission::Plugin;
use admission::hooks::Hooks;
use admission::policies::Policies;
use documents::Documents;
use pod_security::PodSecurity;
use remote_tasks::RemoteTasks;
use service_ranges::ServiceRanges;

/// What the parts of a server share.
pub(crate) struct Server {
    pub(crate) store: Arc<dyn Store>,
    /// The steps of admission, in their order.
    pub(crate) admission: &'static [Plugin],
    pub(crate) world: World,
    /// Who clients are and what they may do.
    pub(crate) access: Arc<Access>,
    pub(crate) require_service_accounts: bool,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Records requests, if there is an audit log.
    pub(crate) audit: Option<Arc<Auditor>>,
    /// The requests that are worked on.
    pub(crate) in_flight: InFlight,
    pub(crate) protect_storage: bool,
    /// What is asked of pods where namespaces do not say, and who is exempt.
    pub(crate) pod_security: PodSecurity,
    /// The webhooks that decide about requests.
    pub(crate) hooks: Follow<Hooks>,
    /// The policies that decide about requests.
    pub(crate) policies: Follow<Policies>,
    /// Connections to other programs.
    pub(crate) outbound: Arc<Outbound>,
    /// Calls webhooks.
    pub(crate) webhooks: Webhooks,
    /// What services are given addresses and ports from.
    pub(crate) services: ServiceRanges,
    /// Whether more than this server makes the cluster.
    pub(crate) has_parts: bool,
    /// Whether the parts of the cluster beside this server are up.
    pub(crate) parts_are_up: AtomicBool,
    /// The types of built-in kinds.
    pub(crate) types: Arc<Types>,
    /// The facts about the built-in resources that are served.
    pub(crate) resources: Resources,
    /// OpenAPI documents that were requested.
    pub(crate) documents: Documents,
    /// The definitions of custom resources that the catalog shows.
    pub(crate) definitions: tokio::sync::Mutex<SyncedDefinitions>,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    /// What checks the API servers that requests are forwarded to.
    pub(crate) remote_tasks: tokio::sync::Mutex<RemoteTasks>,
    /// What other API servers are told about certificates; `None` before the server listens.
    pub(crate) extension_authentication: Mutex<Option<Value>>,
    /// The address of the service `kubernetes`: where the server listens.
    pub(crate) advertised: Mutex<Option<SocketAddr>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// How long a read waits for a version that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

impl Server {
    /// What is served now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    /// Changes what is served. Requests that have begun see what was served before.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut current = self.catalog.write();
        let mut next = Catalog::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }

    /// The bytes to store for an object in its storage version, as Go would show it.
    pub(crate) fn encode(&self, resource: &Resource, object: &mut Value) -> Bytes {
        self.encode_managed(resource, object, None)
    }

    /// The same for an object whose list of managers may be given as text.
    pub(crate) fn encode_managed(
        &self,
        resource: &Resource,
        object: &mut Value,
        managers: Option<&str>,
    ) -> Bytes {
        catalog::encode(&self.types, resource, object, managers)
    }

    /// Gives an object in its storage version the form that Go would show, if it is of a built-in kind.
    ///
    /// What is stored has that form; what is compared with it must have it too.
    pub(crate) fn show(&self, resource: &Resource, object: &mut Value) {
        catalog::show(&self.types, resource, object);
    }

    /// A stored object in the version of `resource`, as Go would show it.
    pub(crate) fn convert(&self, resource: &Resource, object: &Value) -> Value {
        if resource.is_stored_version() {
            return object.clone();
        }
        let (from, to) = (&resource.stored, &resource.types);
        let mut converted = (resource.rules.convert)(object, &from.api_version, &to.api_version);
        if let Some(schema) = self.types.kind(&to.api_version, &to.kind) {
            show_as_stored(schema, &mut converted);
        }
        converted
    }

    /// Waits until the store has come to `wanted`, for some seconds at most.
    pub(crate) async fn reach(&self, wanted: Revision) -> Result<(), Status> {
        let newest = self.store.revision();
        if wanted <= newest {
            return Ok(());
        }
        let mut changes = self.store.watch(KeyRange::all(), newest).map_err(backend)?;
        let reached = async {
            while let Some(Ok(batch)) = changes.next().await {
                if batch.revision >= wanted {
                    return;
                }
            }
        };
        match self.world.clock().timeout(PATIENCE, reached).await {
            Some(()) => Ok(()),
            None => Err(Status::resource_version_too_large(
                wanted.0,
                self.store.revision().0,
            )),
        }
    }
}
