//! Checks whether the server of an APIService is available.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go`: `sync`, `hasAvailableEndpoint`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper/helpers.go`: `IsAPIServiceConditionTrue`

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use sendo_store::{At, Key, KeyRange};
use serde_json::Value;

use crate::aggregator::{Get, Route, Versions};
use crate::catalog::keys::Keys;
use crate::catalog::remote::{Backend, RemoteVersion};
use crate::kinds::api_service;
use crate::request::user::{MASTERS, User};
use crate::state::Server;

/// How many requests are sent at once. One that is answered is enough: a server may have several
/// endpoints.
const ATTEMPTS: usize = 5;
/// How long each may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What is found, as the condition `Available` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Condition {
    fn unavailable(reason: &'static str, message: String) -> Self {
        Condition {
            status: "False",
            reason,
            message,
        }
    }

    /// Of a version that this server serves itself.
    pub(super) fn local() -> Self {
        Condition {
            status: "True",
            reason: api_service::LOCAL_REASON,
            message: api_service::LOCAL_MESSAGE.to_owned(),
        }
    }

    /// Whether to try again soon, because nothing may change that could be watched.
    pub(super) fn is_to_be_retried(&self) -> bool {
        self.reason == FAILED_CHECK
    }
}

const FAILED_CHECK: &str = "FailedDiscoveryCheck";

/// What the condition of a stored APIService says.
pub(super) fn is_available(api_service: &Value) -> bool {
    let conditions = api_service["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|own| own["type"] == "Available" && own["status"] == "True")
}

/// Where the Service of `backend` is stored.
pub(super) fn service_key(backend: &Backend) -> Key {
    Keys::new("", "services", true).object(Some(&backend.namespace), &backend.name)
}

/// Where the EndpointSlices of its namespace are stored.
pub(super) fn slices_range(backend: &Backend) -> KeyRange {
    let keys = Keys::new("discovery.k8s.io", "endpointslices", true);
    KeyRange::prefix(&keys.collection(Some(&backend.namespace)))
}

/// Whether an EndpointSlice is one of the Service of `backend`.
pub(super) fn is_slice_of(slice: &Value, backend: &Backend) -> bool {
    slice["metadata"]["labels"]["kubernetes.io/service-name"] == backend.name.as_str()
}

/// Checks the Service of a version, and whether its server answers.
pub(super) async fn check(server: &Server, remote: &RemoteVersion) -> Condition {
    let backend = &remote.backend;
    let is_local = server.outbound.local().find(&backend.host(), backend.port);
    if is_local.is_none()
        && let Err(condition) = check_service(server, backend).await
    {
        return condition;
    }
    match ask(server, remote).await {
        Ok(()) => Condition {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        },
        Err(why) => Condition::unavailable(FAILED_CHECK, why),
    }
}

/// Whether the Service leads somewhere.
async fn check_service(server: &Server, backend: &Backend) -> Result<(), Condition> {
    let about = format!("service/{} in {:?}", backend.name, backend.namespace);
    let unknown = |reason, error: sendo_store::Error| Condition {
        status: "Unknown",
        reason,
        message: format!("{about} cannot be checked due to: {error}"),
    };
    let found = server.store.get(&service_key(backend), At::Latest).await;
    let found = found.map_err(|error| unknown("ServiceAccessError", error))?;
    let Some(entry) = found.entry else {
        let message = format!("{about} is not present");
        return Err(Condition::unavailable("ServiceNotFound", message));
    };
    let service: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    if !matches!(service["spec"]["type"].as_str(), None | Some("ClusterIP")) {
        return Ok(());
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let port = ports.into_iter().find(|own| own["port"] == backend.port);
    let Some(port) = port else {
        let message = format!("{about} is not listening on port {}", backend.port);
        return Err(Condition::unavailable("ServicePortError", message));
    };
    let port = port["name"].as_str().unwrap_or_default();

    let page = server
        .store
        .range(slices_range(backend), At::Latest, None)
        .await;
    let page = page.map_err(|error| unknown("EndpointsAccessError", error))?;
    let slices = page.entries.iter();
    let slices: Vec<Value> = slices
        .map(|entry| serde_json::from_slice(&entry.value).unwrap_or_default())
        .filter(|slice| is_slice_of(slice, backend))
        .collect();
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for {about}");
        return Err(Condition::unavailable("EndpointsNotFound", message));
    }
    if !slices.iter().any(|slice| has_ready_endpoint(slice, port)) {
        let message =
            format!("endpointslices for {about} have no addresses with port name {port:?}");
        return Err(Condition::unavailable("MissingEndpoints", message));
    }
    Ok(())
}

fn has_ready_endpoint(slice: &Value, port: &str) -> bool {
    let items = |key: &str| slice[key].as_array().into_iter().flatten();
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] != false;
    let is_port = |own: &Value| own["name"].as_str().unwrap_or_default() == port;
    items("endpoints").any(is_ready)
        && items("ports").any(|own| is_port(own) && own["port"].is_u64())
}

/// Asks the server what it serves of the version, several times at once.
async fn ask(server: &Server, remote: &RemoteVersion) -> Result<(), String> {
    let user = User::new("system:kube-aggregator", [MASTERS]);
    let path = remote.discovery_path();
    let get = Get {
        path: &path,
        accept: "*/*",
        user: &user,
        limit: LIMIT,
    };
    let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS)
        .map(|_| attempt(server, &remote.backend, &get))
        .collect();
    let mut last = Ok(());
    while let Some(answered) = attempts.next().await {
        if answered.is_ok() {
            return Ok(());
        }
        last = answered;
    }
    last
}

async fn attempt(server: &Server, backend: &Backend, get: &Get<'_>) -> Result<(), String> {
    let route = Route::to(&server.outbound, backend, Versions::All).await;
    let route = route.map_err(|error| error.to_string())?;
    let url = format!("https://{}{}", route.authority, get.path);
    let answered = get.send(&route, server.world.clock()).await;
    let failed = match answered.map(|response| response.status()) {
        Ok(code) if (StatusCode::OK..StatusCode::MULTIPLE_CHOICES).contains(&code) => return Ok(()),
        Ok(code) => format!("bad status from {url}: {}", code.as_u16()),
        Err(why) => why,
    };
    Err(format!("failing or missing response from {url}: {failed}"))
}
