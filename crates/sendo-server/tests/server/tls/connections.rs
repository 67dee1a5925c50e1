//! Who gets in, and what holds a connection up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DynamicObject, Patch, PostParams, WatchEvent};
use sendo_server::Serving;
use sendo_store::Retention;
use sendo_world::World;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, RootCertStore};

use super::{Served, client};

#[tokio::test]
async fn the_kubeconfig_makes_an_administrator() {
    let served = Served::in_real_time().await;
    let client = served.client().await;
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let object = DynamicObject::new("a", &resource).data(json!({"data": {"k": "v"}}));
    maps.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data["data"]["k"], "v");
    served.server.shutdown().await;
    assert_eq!(served.world.tasks().running(), [""; 0]);
}

#[tokio::test]
async fn a_shutdown_ends_the_watches_of_connected_clients() {
    let served = Served::in_real_time().await;
    let (world, server) = (&served.world, &served.server);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::default_namespaced(served.client().await);
    let watch = maps.watch(&Default::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);
    let first = watch.try_next().await.unwrap();
    assert!(
        matches!(first, Some(WatchEvent::Bookmark(_))),
        "there is nothing yet, and that is said: {first:?}"
    );
    let stopped = world
        .clock()
        .timeout(Duration::from_secs(20), server.shutdown());
    let (stopped, last) = futures::join!(stopped, watch.try_next());
    stopped.expect("nothing holds the server up");
    assert!(last.unwrap().is_none(), "a watch ends, it does not break");
    assert_eq!(world.tasks().running(), [""; 0]);
}

/// In virtual time, which passes at once when nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_body_that_never_comes() {
    let served = Served::start(World::seeded(1), Retention::default()).await;
    let mut stream = connect(&served.serving).await;
    let config = served.serving.kubeconfig();
    let (_, token) = config.split_once("token: ").unwrap();
    let token = token.lines().next().unwrap();
    let head = [
        "POST /api/v1/namespaces HTTP/1.1",
        "Host: a",
        &format!("Authorization: Bearer {token}"),
        "Content-Length: 9",
        "\r\n",
    ];
    stream
        .write_all(head.join("\r\n").as_bytes())
        .await
        .unwrap();
    stream.flush().await.unwrap();
    let clock = served.world.clock();
    clock.sleep(Duration::from_secs(1)).await;
    let began = clock.now();
    served.server.shutdown().await;
    assert_eq!((clock.now() - began).as_secs(), 5);
}

/// A client that trusts the server's authority, and says nothing yet.
async fn connect(serving: &Serving) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
    connect_as(serving, b"http/1.1").await
}

/// The same, in a version of HTTP.
pub(crate) async fn connect_as(
    serving: &Serving,
    version: &[u8],
) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
    let mut roots = RootCertStore::empty();
    let authority = serving.authority().pem();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![version.to_vec()];
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    let name = ServerName::from(serving.address().ip());
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

/// In virtual time, which passes at once when nobody has anything to do.
#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let served = Served::start(World::seeded(1), Retention::default()).await;
    let (world, serving) = (&served.world, &served.serving);
    let elapsed = |since| (world.clock().now() - since).as_secs();

    let began = world.clock().now();
    let mut without_tls = TcpStream::connect(serving.address()).await.unwrap();
    assert_eq!(without_tls.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(elapsed(began), 30);

    // Nothing at all, and a head without an end.
    for (said, seconds) in [("", 90), ("GET /version HTTP/1.1\r\nHost:", 30)] {
        let mut stream = connect(serving).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let began = world.clock().now();
        // How a connection ends matters less than that it does.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(elapsed(began), seconds, "{said:?}");
    }
    served.server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_tells_where_the_server_listens_comes_back() {
    let served = Served::start(World::seeded(1), Retention::default()).await;
    let here = kube::Client::new(served.server.client_service(), "default");
    let slices: Api<EndpointSlice> = Api::default_namespaced(here.clone());
    let endpoints: Api<Endpoints> = Api::default_namespaced(here);
    let port = i32::from(served.serving.address().port());
    let told = async || {
        let slice = slices.get("kubernetes").await.unwrap();
        assert_eq!(slice.ports.unwrap()[0].port, Some(port));
        let endpoints = endpoints.get("kubernetes").await.unwrap();
        assert_eq!(
            endpoints.subsets.unwrap()[0].ports.as_ref().unwrap()[0].port,
            port
        );
    };
    told().await;
    let wrong = Patch::Merge(json!({"subsets": null}));
    endpoints
        .patch("kubernetes", &Default::default(), &wrong)
        .await
        .unwrap();
    slices
        .delete("kubernetes", &Default::default())
        .await
        .unwrap();
    served.world.clock().sleep(Duration::from_secs(11)).await;
    told().await;
    served.server.shutdown().await;
}

/// As many bytes as no socket holds, in objects that are forgotten soon.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_holds_nobody_up() {
    let retention = Retention {
        keep_bytes: 1 << 20,
        ..Default::default()
    };
    let served = Served::start(World::real(), retention).await;
    let (world, server) = (&served.world, &served.server);
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let open = |client| Api::<DynamicObject>::default_namespaced_with(client, &resource);
    let over_there = open(served.client().await);
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
            // On a busy machine a minute may have passed.
            Some(WatchEvent::Bookmark(_)) => {}
            other => break other,
        }
    };
    assert!(seen < 80, "what a socket does not hold is not kept for it");
    assert!(matches!(end, Some(WatchEvent::Error(status)) if status.code == 410));
    server.shutdown().await;
}

#[tokio::test]
async fn the_bearer_token_alone_makes_an_administrator() {
    let served = Served::in_real_time().await;
    let mut config = served.kubeconfig();
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    client(config).await.list_api_groups().await.unwrap();
    served.server.shutdown().await;
}

#[tokio::test]
async fn without_certificate_and_token_one_is_a_stranger() {
    let served = Served::in_real_time().await;
    let mut config = served.kubeconfig();
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    user.token = None;
    let client = client(config).await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.minor, "36");
    let refused = client.list_api_groups().await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    served.server.shutdown().await;
}

/// Says something as HTTP/1.1 and gives the head of the answer.
pub(crate) async fn answer_to(serving: &Serving, said: &str) -> String {
    let mut stream = connect(serving).await;
    stream.write_all(said.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn whom_a_request_means_is_said_once() {
    let served = Served::in_real_time().await;
    for (hosts, code) in [
        ("", 400),
        ("Host: a\r\n", 200),
        ("Host: a\r\nHost: b\r\n", 400),
    ] {
        let said = format!("GET /version HTTP/1.1\r\n{hosts}\r\n");
        let head = answer_to(&served.serving, &said).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {code} ")),
            "{hosts:?}: {head}"
        );
    }
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_star_is_no_path() {
    let served = Served::in_real_time().await;
    for (method, code) in [("OPTIONS", 200), ("GET", 404)] {
        let said = format!("{method} * HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = answer_to(&served.serving, &said).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {code} ")),
            "{method}: {head}"
        );
    }
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_long_selector_is_no_flood_of_headers() {
    let served = Served::in_real_time().await;
    let stream = TokioIo::new(connect_as(&served.serving, b"h2").await);
    let handshake = http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = handshake.unwrap();
    served
        .world
        .tasks()
        .spawn("connection", async { drop(connection.await) });
    // Of anonymous users too, whose refusal names them.
    let selector = "a".repeat(50_000);
    let long = format!("https://a/api/v1/pods?labelSelector={selector}");
    let request = http::Request::get(long).body(Full::<Bytes>::default());
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 403);

    let flood = "x".repeat(2 << 20);
    let flood = format!("GET /version HTTP/1.1\r\nHost: a\r\nX: {flood}\r\n\r\n");
    let mut stream = connect(&served.serving).await;
    // It may hang up before it has heard all.
    let _ = stream.write_all(flood.as_bytes()).await;
    let mut head = [0; 12];
    if stream.read_exact(&mut head).await.is_ok() {
        assert_eq!(&head, b"HTTP/1.1 431");
    }
    served.server.shutdown().await;
}
