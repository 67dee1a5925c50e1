//! An API server that is reached over TLS, and believes what the certificate of the first one
//! vouches for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::UPGRADE;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use sendo_server::Authority;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore};

use super::{Served, upgrades};

/// What other API servers find in `kube-system`.
async fn authentication(client: &kube::Client) -> ConfigMap {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    maps.get("extension-apiserver-authentication")
        .await
        .unwrap()
}

/// Serves TLS on loopback to clients with a certificate of `front_proxy` (PEM) only, and answers
/// each with its protocol and its user, or as [`upgrades`](super::upgrades) says.
async fn extension(served: &Served, authority: &Authority, front_proxy: &str) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(front_proxy.as_bytes()).unwrap();
    roots.add(trusted).unwrap();
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    let identity = authority.server(&["api.ext.svc".to_owned()]).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes()).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = served.world.tasks().clone();
    served.world.tasks().spawn("extension", async move {
        let accept = async {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, stopping) = (acceptor.clone(), tasks.stopping().clone());
                let connection = async move {
                    let stream = acceptor.accept(stream).await.ok()?;
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let io = TokioIo::new(stream);
                    let upgrade = std::sync::Mutex::new(None);
                    let service = service_fn(|mut request: Request<Incoming>| {
                        if let Some(client) = request.extensions_mut().remove::<OnUpgrade>() {
                            let path = request.uri().path().to_owned();
                            *upgrade.lock().unwrap() = Some((path, client));
                        }
                        std::future::ready(answer(&request))
                    });
                    let serving = builder.serve_connection_with_upgrades(io, service);
                    serving.await.ok()?;
                    let (path, client) = upgrade.into_inner().unwrap()?;
                    upgrades::speak(&path, client.await.ok()?).await.ok()
                };
                tasks.spawn("extension-connection", async move {
                    stopping.run_until_cancelled(connection).await;
                });
            }
        };
        tasks.stopping().run_until_cancelled(accept).await;
    });
    address
}

fn answer(request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.headers().contains_key(UPGRADE) {
        return Ok(upgrades::answer(request));
    }
    let user = request.headers()["x-remote-user"].to_str().unwrap();
    let answer = json!({
        "kind": "APIResourceList", "groupVersion": "remote.dev/v1", "resources": [],
        "protocol": format!("{:?}", request.version()), "user": user,
    });
    Ok(Response::new(Full::new(answer.to_string().into())))
}

/// Has an API server of its own serve `remote.dev/v1`, and waits until it is available.
pub(super) async fn aggregate(served: &Served, client: &kube::Client) {
    let data = authentication(client).await.data.unwrap();
    let authority = Authority::new(served.world.clock().wall()).unwrap();
    let front_proxy = &data["requestheader-client-ca-file"];
    let address = extension(served, &authority, front_proxy).await;
    // Endpoints must not be loopback addresses; a name may stand for one.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "api", "namespace": "ext"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ext"}});
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.remote.dev"},
        "spec": {"group": "remote.dev", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 10, "caBundle": STANDARD.encode(authority.pem()),
            "service": {"namespace": "ext", "name": "api", "port": address.port()}},
    });
    for object in [namespace, service, api_service] {
        create(client, object).await;
    }
    until_available(client).await;
}

#[tokio::test]
async fn a_request_is_forwarded_with_the_certificate_that_the_config_map_vouches_for() {
    let served = Served::in_real_time().await;
    let client = served.client().await;
    let data = authentication(&client).await.data.unwrap();
    assert_eq!(data["client-ca-file"], served.serving.authority().pem());
    assert_eq!(
        data["requestheader-allowed-names"],
        r#"["front-proxy-client"]"#
    );
    assert_eq!(
        data["requestheader-username-headers"],
        r#"["X-Remote-User"]"#
    );
    assert_eq!(
        data["requestheader-extra-headers-prefix"],
        r#"["X-Remote-Extra-"]"#
    );

    aggregate(&served, &client).await;
    let request = Request::get("/apis/remote.dev/v1/things").body(Vec::new());
    let answer: Value = client.request(request.unwrap()).await.unwrap();
    assert_eq!(answer["user"], "kubernetes-admin");
    assert_eq!(answer["protocol"], "HTTP/2.0");

    let other = Authority::new(served.world.clock().wall()).unwrap();
    let untrusted = json!({"spec": {"caBundle": STANDARD.encode(other.pem())}});
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &resource("APIService"));
    let patch = kube::api::Patch::Merge(untrusted);
    services
        .patch("v1.remote.dev", &Default::default(), &patch)
        .await
        .unwrap();
    let condition = until(&client, |condition| condition["status"] == "False").await;
    assert_eq!(condition["reason"], "FailedDiscoveryCheck");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.ends_with("x509: certificate signed by unknown authority"),
        "{message}"
    );
    served.server.shutdown().await;
    served.world.tasks().stop().await;
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "APIService" => ("apiregistration.k8s.io", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

async fn create(client: &kube::Client, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let kind = object.types.as_ref().unwrap().kind.clone();
    let resource = resource(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn until_available(client: &kube::Client) {
    until(client, |condition| condition["status"] == "True").await;
}

/// Waits until the condition of the APIService is as wanted.
async fn until(client: &kube::Client, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &resource("APIService"));
    let found = std::sync::Mutex::new(Value::Null);
    let wanted = |object: Option<&DynamicObject>| {
        let condition = object.map(|object| object.data["status"]["conditions"][0].clone());
        let condition = condition.unwrap_or_default();
        let is_found = is_wanted(&condition);
        *found.lock().unwrap() = condition;
        is_found
    };
    kube::runtime::wait::await_condition(services, "v1.remote.dev", wanted)
        .await
        .unwrap();
    found.into_inner().unwrap()
}
