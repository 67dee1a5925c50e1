//! What every cluster has from its first moment.

mod groups;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use sendo_apimachinery::addresses::Cidr;
use sendo_apimachinery::{Meta, MetaMut};
use sendo_store::{At, Transaction};
use serde_json::{Value, json};

use crate::call::time_text;
use crate::keys::Keys;
use crate::ownership;
use crate::pipeline;
use crate::rbac;
use crate::server::{Server, StartError};
use crate::user::{MASTERS, User};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// What the server itself is called: the service that it is, and the range its services are in.
const SELF: &str = "kubernetes";

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
        let made = rbac::bootstrap::ensure(server).await;
        made.map_err(StartError::Roles)
    };
    let groups = groups::create_all(server);
    futures::try_join!(priorities(server), roles, groups, services(server)).map(drop)
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

/// The range that services get their addresses from, and the service that is this server.
async fn services(server: &Arc<Server>) -> Result<(), StartError> {
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    let cidrs: Vec<String> = server.services.cidrs.iter().map(Cidr::canonical).collect();
    let Some(address) = server.services.first_address() else {
        return Ok(());
    };
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": time_text(server.world.clock().wall()),
    });
    let range = json!({"metadata": {"name": SELF}, "spec": {"cidrs": cidrs}});
    if create(server, RANGES, range).await? == Made::Now {
        let status = json!({"status": {"conditions": [ready]}});
        send(
            server,
            Method::PATCH,
            &format!("{RANGES}/{SELF}/status"),
            &status,
        )
        .await?;
    }
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "metadata": {"name": SELF, "labels": labels},
        "spec": {
            "clusterIP": address.to_string(),
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    // Its address is taken if it is there already.
    let key = Keys::new("", "services", true).object(Some("default"), SELF);
    let failed = |error: sendo_store::Error| StartError::Bootstrap {
        object: format!("services/{SELF}"),
        message: error.to_string(),
    };
    let found = server.store.get(&key, At::Latest).await.map_err(failed)?;
    if found.entry.is_none() {
        create(server, "/api/v1/namespaces/default/services", service).await?;
    }
    Ok(())
}

/// Tells the cluster where the server listens, by the endpoints of the service that it is.
///
/// They are written as they are, loopback addresses too, which nobody else may
/// write: it is where this server is.
pub(crate) async fn advertise(server: &Arc<Server>, address: SocketAddr) -> Result<(), StartError> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let port = json!({"name": "https", "port": address.port(), "protocol": "TCP"});
    let service = json!({"spec": {"ports": [
        {"name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port()},
    ]}});
    let path = format!("/api/v1/namespaces/default/services/{SELF}");
    send(server, Method::PATCH, &path, &service).await?;
    let endpoints = json!({
        "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [port]}],
    });
    write(server, ("", "v1", "endpoints"), endpoints).await?;
    let slice = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": SELF}, "generation": 1},
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [port],
    });
    write(server, ("discovery.k8s.io", "v1", "endpointslices"), slice).await
}

/// Puts an object about the server itself into the store, in place of an older one.
async fn write(
    server: &Arc<Server>,
    (group, version, plural): (&str, &str, &str),
    mut object: Value,
) -> Result<(), StartError> {
    const NAMESPACE: &str = "default";
    let failed = |error: &dyn std::fmt::Display| StartError::Bootstrap {
        object: format!("{plural}/{SELF}"),
        message: error.to_string(),
    };
    let catalog = server.catalog();
    let resource = catalog
        .find(group, version, plural)
        .ok_or_else(|| failed(&"it is not served"))?;
    let key = resource.keys.object(Some(NAMESPACE), SELF);
    let before = server.store.get(&key, At::Latest).await;
    let before = before.map_err(|error| failed(&error))?.entry;
    let before: Value = before
        .and_then(|entry| serde_json::from_slice(&entry.value).ok())
        .unwrap_or_default();
    let mut meta = MetaMut::of(&mut object);
    meta.set_name(SELF);
    meta.set_namespace(NAMESPACE);
    if before.is_null() {
        meta.set_uid(&server.world.random().uuid());
        meta.set_creation_timestamp(&time_text(server.world.clock().wall()));
    } else {
        // It was told before where the server is.
        meta.set_uid(Meta::of(&before).uid());
        let since = before["metadata"]["creationTimestamp"].as_str();
        meta.set_creation_timestamp(since.unwrap_or_default());
    }
    object["apiVersion"] = resource.stored.api_version.as_str().into();
    object["kind"] = resource.stored.kind.as_str().into();
    let put = Transaction::new().put(key, server.encode(resource, &mut object));
    server
        .store
        .commit(put)
        .await
        .map_err(|error| failed(&error))?;
    Ok(())
}

/// Whether something was made, or was there already.
#[derive(PartialEq)]
enum Made {
    Now,
    Before,
}

async fn create(server: &Arc<Server>, path: &str, object: Value) -> Result<Made, StartError> {
    match send(server, Method::POST, path, &object).await? {
        // This store has been started on before.
        StatusCode::CONFLICT => Ok(Made::Before),
        _ => Ok(Made::Now),
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
        .header(http::header::USER_AGENT, ownership::SERVER)
        .body(Full::new(Bytes::from(object.to_string())))
        .expect("a request of constants is well formed");
    let response = pipeline::handle(server, Some(&user), request).await;
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
