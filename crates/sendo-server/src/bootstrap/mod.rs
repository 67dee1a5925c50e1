//! Creates the objects that every cluster has from its first moment, when a server starts.

mod extension_authentication;
mod groups;
mod own_service;
mod roles;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use sendo_apimachinery::Status;
use serde_json::{Value, json};

use crate::pipeline::{self, Origin};
use crate::request::user::{MASTERS, User};
use crate::state::Server;
use crate::write::field_managers;

pub(crate) use extension_authentication::{FRONT_PROXY_CLIENT, publish};
pub(crate) use own_service::{advertise, keep};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The definitions of custom resources in the store could not be read.
    #[error("cannot read the definitions of custom resources: {0}")]
    Definitions(Status),
    /// The roles that every cluster has could not be made.
    #[error("cannot make the cluster's roles: {0}")]
    Roles(Status),
    /// An object that every cluster has could not be made.
    #[error("cannot create {object}: {message}")]
    Bootstrap {
        /// Where it belongs.
        object: String,
        /// What the server answered itself.
        message: String,
    },
}

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates what is always there and absent yet, through the pipeline like anybody would.
///
/// What does not build on each other is written at once: a store on disk then
/// syncs a few times, not once for each of two hundred objects.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), StartError> {
    let namespaces = NAMESPACES.map(|namespace| {
        let object = json!({"metadata": {"name": namespace}});
        create(server, "/api/v1/namespaces", object)
    });
    try_join_all(namespaces).await?;
    let roles = async {
        let made = roles::ensure(server).await;
        made.map_err(StartError::Roles)
    };
    let groups = groups::create_all(server);
    let services = own_service::begin(server);
    futures::try_join!(priorities(server), roles, groups, services).map(drop)
}

/// The classes of the cluster's own pods.
async fn priorities(server: &Arc<Server>) -> Result<(), StartError> {
    let classes = [
        (
            "system-cluster-critical",
            2_000_000_000,
            "For pods the cluster needs, on whichever node.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "For pods a node needs, which cannot run elsewhere.",
        ),
    ];
    let classes = classes.map(|(name, value, description)| {
        let object =
            json!({"metadata": {"name": name}, "value": value, "description": description});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", object)
    });
    try_join_all(classes).await.map(drop)
}

/// Whether something was made, or was there already.
#[derive(PartialEq)]
enum Created {
    Now,
    Before,
}

async fn create(server: &Arc<Server>, path: &str, object: Value) -> Result<Created, StartError> {
    match send(server, Method::POST, path, &object).await? {
        // This store has been started on before.
        StatusCode::CONFLICT => Ok(Created::Before),
        _ => Ok(Created::Now),
    }
}

async fn send(
    server: &Arc<Server>,
    method: Method,
    path: &str,
    object: &Value,
) -> Result<StatusCode, StartError> {
    let media_type = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let user = User::new("system:apiserver", [MASTERS]);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, media_type)
        .header(http::header::USER_AGENT, field_managers::SERVER)
        .body(Full::new(Bytes::from(object.to_string())))
        .expect("a request of constants is well formed");
    let response = pipeline::handle(server, Origin::of_this_process(&user), request).await;
    let code = response.status();
    if code.is_success() || code == StatusCode::CONFLICT {
        return Ok(code);
    }
    let Ok(body) = response.into_body().collect().await;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    Err(StartError::Bootstrap {
        object: format!(
            "{path}/{}",
            object["metadata"]["name"].as_str().unwrap_or_default()
        ),
        message: answer["message"].as_str().unwrap_or_default().to_owned(),
    })
}
