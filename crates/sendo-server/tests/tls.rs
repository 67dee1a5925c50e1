//! The server over TLS, with certificates of its own authority.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{Api, DynamicObject, PostParams, WatchEvent};
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_server::{ApiServer, Authority, Options, Serving};
use sendo_store::{Memory, Retention};
use sendo_world::World;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, RootCertStore};

async fn serving() -> (ApiServer, World, Kubeconfig) {
    let world = World::real();
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let (server, config) = serve(&world, store).await;
    (server, world, config)
}

async fn serve(world: &World, store: Arc<Memory>) -> (ApiServer, Kubeconfig) {
    let server = ApiServer::start(Options::new(store, world.clone()))
        .await
        .unwrap();
    let authority = Authority::new(world.clock().wall()).unwrap();
    let serving = server
        .serve(([127, 0, 0, 1], 0).into(), authority)
        .await
        .unwrap();
    let config = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    (server, config)
}

async fn client(config: Kubeconfig) -> kube::Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options)
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_kubeconfig_makes_an_administrator() {
    let (server, world, config) = serving().await;
    let client = client(config).await;
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let object = DynamicObject::new("a", &resource).data(json!({"data": {"k": "v"}}));
    maps.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data["data"]["k"], "v");
    server.shutdown().await;
    assert_eq!(world.tasks().running(), [""; 0]);
}

#[tokio::test]
async fn a_shutdown_ends_the_watches_of_connected_clients() {
    let (server, world, config) = serving().await;
    let client = client(config).await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::default_namespaced(client);
    let watch = maps.watch(&Default::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);
    let stopped = world
        .clock()
        .timeout(Duration::from_secs(20), server.shutdown());
    let (stopped, last) = futures::join!(stopped, watch.try_next());
    stopped.expect("nothing holds the server up");
    assert!(last.unwrap().is_none(), "a watch ends, it does not break");
    assert_eq!(world.tasks().running(), [""; 0]);
}

/// A client that trusts the server's authority, and says nothing yet.
async fn connect(serving: &Serving) -> impl AsyncRead + AsyncWrite + Unpin {
    let mut roots = RootCertStore::empty();
    let authority = serving.authority().pem();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    let name = ServerName::from(serving.address().ip());
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

/// In virtual time, which passes at once when nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let world = World::seeded(1);
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let server = ApiServer::start(Options::new(store, world.clone()))
        .await
        .unwrap();
    let authority = Authority::new(world.clock().wall()).unwrap();
    let any_port = ([127, 0, 0, 1], 0).into();
    let serving = server.serve(any_port, authority).await.unwrap();
    let elapsed = |since| (world.clock().now() - since).as_secs();

    let began = world.clock().now();
    let mut without_tls = TcpStream::connect(serving.address()).await.unwrap();
    assert_eq!(without_tls.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(elapsed(began), 30);

    // Nothing at all, and a head without an end.
    for (said, seconds) in [("", 90), ("GET /version HTTP/1.1\r\nHost:", 30)] {
        let mut stream = connect(&serving).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let began = world.clock().now();
        // How a connection ends matters less than that it does.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(elapsed(began), seconds, "{said:?}");
    }
    server.shutdown().await;
}

/// As many bytes as no socket holds, in objects that are forgotten soon.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_holds_nobody_up() {
    let world = World::real();
    let retention = Retention {
        keep_bytes: 1 << 20,
        ..Default::default()
    };
    let store = Arc::new(Memory::new(world.clock().clone(), retention));
    let (server, config) = serve(&world, store).await;
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let open = |client| Api::<DynamicObject>::default_namespaced_with(client, &resource);
    let over_there = open(client(config).await);
    let here = open(kube::Client::new(server.client_service(), "default"));
    let big = |number: usize| json!({"data": {"k": number.to_string().repeat(100_000)}});
    let object = DynamicObject::new("big", &resource).data(big(0));
    let created = here.create(&PostParams::default(), &object).await.unwrap();

    let version = created.metadata.resource_version.unwrap();
    let watch = over_there.watch(&Default::default(), &version).await;
    let mut watch = std::pin::pin!(watch.unwrap());
    for number in 10..90 {
        let object = DynamicObject::new("big", &resource).data(big(number));
        let params = PostParams::default();
        let written = here.replace("big", &params, &object);
        let in_time = world
            .clock()
            .timeout(Duration::from_secs(20), written)
            .await;
        in_time.expect("nobody waits for a watcher").unwrap();
    }
    let mut seen = 0;
    let end = loop {
        match watch.try_next().await.unwrap() {
            Some(WatchEvent::Modified(_)) => seen += 1,
            other => break other,
        }
    };
    assert!(seen < 80, "what a socket does not hold is not kept for it");
    assert!(matches!(end, Some(WatchEvent::Error(status)) if status.code == 410));
    server.shutdown().await;
}

#[tokio::test]
async fn the_bearer_token_alone_makes_an_administrator() {
    let (server, _, mut config) = serving().await;
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    client(config).await.list_api_groups().await.unwrap();
    server.shutdown().await;
}

#[tokio::test]
async fn without_certificate_and_token_one_is_a_stranger() {
    let (server, _, mut config) = serving().await;
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    user.token = None;
    let client = client(config).await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.minor, "36");
    let refused = client.list_api_groups().await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    server.shutdown().await;
}
