//! Keeps the ConfigMap `extension-apiserver-authentication`, in which other API servers find
//! whose certificates they are to trust: those of clients, and that of this server, which says
//! whose requests it forwards.
//!
//! It is there once the server listens: without TLS there are no certificates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controlplane/controller/clusterauthenticationtrust/cluster_authentication_trust_controller.go`: `getConfigMapDataFor`
//! - `cmd/kubeadm/app/phases/controlplane/manifests.go`: `getAPIServerCommand`

use std::sync::Arc;

use http::Method;
use sendo_store::At;
use serde_json::{Value, json};

use super::{create, send};
use crate::bootstrap::{Created, StartError};
use crate::catalog::keys::Keys;
use crate::state::Server;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The name in the certificate that this server shows.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// Writes the authorities, in PEM, into the ConfigMap.
pub(crate) async fn publish(
    server: &Arc<Server>,
    client_authority: &str,
    front_proxy_authority: &str,
) -> Result<(), StartError> {
    let list = |item: &str| json!([item]).to_string();
    *server.extension_authentication.lock() = Some(json!({
        "client-ca-file": client_authority,
        "requestheader-allowed-names": list(FRONT_PROXY_CLIENT),
        "requestheader-client-ca-file": front_proxy_authority,
        "requestheader-extra-headers-prefix": list("X-Remote-Extra-"),
        "requestheader-group-headers": list("X-Remote-Group"),
        "requestheader-username-headers": list("X-Remote-User"),
    }));
    ensure(server).await
}

/// Writes the ConfigMap if it is not as it should be. What others have added to it stays.
pub(super) async fn ensure(server: &Arc<Server>) -> Result<(), StartError> {
    let Some(data) = server.extension_authentication.lock().clone() else {
        return Ok(());
    };
    let key = Keys::new("", "configmaps", true).object(Some(NAMESPACE), NAME);
    let found = server.store.get(&key, At::Latest).await;
    let found = found.map_err(|error| StartError::Bootstrap {
        object: format!("configmaps/{NAME}"),
        message: error.to_string(),
    })?;
    let known: Value = found
        .entry
        .and_then(|entry| serde_json::from_slice(&entry.value).ok())
        .unwrap_or_default();
    let mut wanted = data.as_object().into_iter().flatten();
    if wanted.all(|(name, text)| known["data"][name] == *text) {
        return Ok(());
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let object = json!({"metadata": {"name": NAME}, "data": data});
    if create(server, &path, object).await? == Created::Before {
        let change = json!({"data": data});
        send(server, Method::PATCH, &format!("{path}/{NAME}"), &change).await?;
    }
    Ok(())
}
