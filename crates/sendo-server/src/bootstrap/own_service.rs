//! Keeps the service `kubernetes`, which is this server, and its endpoints.
//!
//! If they are deleted or changed, [`keep`] restores them within ten seconds, and with them the
//! ConfigMap that other API servers read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Method;
use parking_lot::MutexGuard;
use sendo_apimachinery::addresses::Cidr;
use sendo_apimachinery::{Meta, MetaMut};
use sendo_store::{At, Transaction};
use sendo_world::World;
use serde_json::{Value, json};

use super::{Created, create, extension_authentication, send};
use crate::bootstrap::StartError;
use crate::catalog::keys::Keys;
use crate::catalog::storage::time_text;
use crate::state::Server;
use crate::write::allocation::first_address;

/// What the server itself is called: the service that it is, and the range its services are in.
const SELF: &str = "kubernetes";
const NAMESPACE: &str = "default";
/// The port of the service before the server listens.
const USUAL_PORT: u16 = 6443;
/// How long what was deleted stays away at most.
const EVERY: Duration = Duration::from_secs(10);

/// Makes the range that services get their addresses from, and the service that is this server.
pub(super) async fn begin(server: &Arc<Server>) -> Result<(), StartError> {
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    let cidrs: Vec<String> = server.services.cidrs.iter().map(Cidr::canonical).collect();
    if cidrs.is_empty() {
        return Ok(());
    }
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": time_text(server.world.clock().wall()),
    });
    let range = json!({"metadata": {"name": SELF}, "spec": {"cidrs": cidrs}});
    if create(server, RANGES, range).await? == Created::Now {
        let status = json!({"status": {"conditions": [ready]}});
        let path = format!("{RANGES}/{SELF}/status");
        send(server, Method::PATCH, &path, &status).await?;
    }
    ensure_service(server).await
}

/// Writes the address at which the server listens into the endpoints of its service.
pub(crate) async fn advertise(server: &Arc<Server>, address: SocketAddr) -> Result<(), StartError> {
    *advertised(server) = Some(address);
    let service = json!({"spec": {"ports": [port(address.port())]}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{SELF}");
    send(server, Method::PATCH, &path, &service).await?;
    ensure_endpoints(server, address).await
}

/// Puts back what is deleted or changed, until the server is gone.
pub(crate) async fn keep(server: Weak<Server>, world: World) {
    let mut beat = world.clock().interval(EVERY);
    // The first beat comes at once, when all of it has just been made.
    beat.tick().await;
    loop {
        beat.tick().await;
        let Some(server) = server.upgrade() else {
            return;
        };
        if let Err(error) = ensure(&server).await {
            tracing::warn!(%error, "cannot tell where this server is");
        }
    }
}

async fn ensure(server: &Arc<Server>) -> Result<(), StartError> {
    ensure_service(server).await?;
    let address = *advertised(server);
    if let Some(address) = address {
        ensure_endpoints(server, address).await?;
    }
    extension_authentication::ensure(server).await
}

fn advertised(server: &Server) -> MutexGuard<'_, Option<SocketAddr>> {
    server.advertised.lock()
}

fn port(target: u16) -> Value {
    json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": target})
}

async fn ensure_service(server: &Arc<Server>) -> Result<(), StartError> {
    let Some(address) = first_address(&server.services) else {
        return Ok(());
    };
    // Its address is taken if it is there already.
    let key = Keys::new("", "services", true).object(Some(NAMESPACE), SELF);
    let found = server.store.get(&key, At::Latest).await;
    if found
        .map_err(|error| failed("services", &error))?
        .entry
        .is_some()
    {
        return Ok(());
    }
    let target = advertised(server).map_or(USUAL_PORT, |address| address.port());
    let service = json!({
        "metadata": {
            "name": SELF,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": address.to_string(),
            "ipFamilyPolicy": "SingleStack",
            "ports": [port(target)],
        },
    });
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    create(server, &services, service).await.map(drop)
}

/// They are written as they are, loopback addresses too, which clients may
/// not write: it is the address of this server.
async fn ensure_endpoints(server: &Arc<Server>, address: SocketAddr) -> Result<(), StartError> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let port = json!({"name": "https", "port": address.port(), "protocol": "TCP"});
    let endpoints = json!({
        "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [port]}],
    });
    ensure_object(server, ("", "v1", "endpoints"), endpoints).await?;
    let slice = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": SELF}, "generation": 1},
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [port],
    });
    ensure_object(server, ("discovery.k8s.io", "v1", "endpointslices"), slice).await
}

/// Puts an object about the server itself into the store, unless it is there as it should be.
async fn ensure_object(
    server: &Arc<Server>,
    (group, version, plural): (&str, &str, &str),
    mut object: Value,
) -> Result<(), StartError> {
    let catalog = server.catalog();
    let resource = catalog
        .find(group, version, plural)
        .ok_or_else(|| failed(plural, &"it is not served"))?;
    let key = resource.keys.object(Some(NAMESPACE), SELF);
    let found = server.store.get(&key, At::Latest).await;
    let before = found.map_err(|error| failed(plural, &error))?.entry;
    let known: Value = before
        .as_ref()
        .and_then(|entry| serde_json::from_slice(&entry.value).ok())
        .unwrap_or_default();
    let mut meta = MetaMut::new(&mut object);
    meta.set_name(SELF);
    meta.set_namespace(NAMESPACE);
    if known.is_null() {
        meta.set_uid(&server.world.random().uuid());
        meta.set_creation_timestamp(&time_text(server.world.clock().wall()));
    } else {
        // The service exists already: its identity stays.
        meta.set_uid(Meta::new(&known).uid());
        let since = known["metadata"]["creationTimestamp"].as_str();
        meta.set_creation_timestamp(since.unwrap_or_default());
    }
    object["apiVersion"] = resource.stored.api_version.as_str().into();
    object["kind"] = resource.stored.kind.as_str().into();
    let value = server.encode(resource, &mut object);
    if before.is_some_and(|before| before.value == value) {
        return Ok(());
    }
    let written = server
        .store
        .commit(Transaction::new().put(key, value))
        .await;
    written.map(drop).map_err(|error| failed(plural, &error))
}

fn failed(plural: &str, error: &dyn std::fmt::Display) -> StartError {
    StartError::Bootstrap {
        object: format!("{plural}/{SELF}"),
        message: error.to_string(),
    }
}
