//! Reviews over TLS, as an API server sends them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join;
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::{http1, http2};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::*;
use crate::cache::{Cache, CacheOptions, Namespaces};
use crate::certificates::{AuthorityKey, Lifetimes, Names};
use crate::client::{Client, ClientOptions};
use crate::metrics::Registry;
use crate::tls::TlsOptions;
use crate::transport::fake_api::FakeApi;
use crate::webhook::{self, Admission, Change, Conversions, Denied, Limits, Parts};

const PATH: &str = "/validate-v1-configmap";

/// Does what the name of the object says.
async fn obey(change: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
    let map = change.new().expect("deletions are not reviewed");
    match map.metadata.name.as_deref() {
        Some("panic") => panic!("on purpose"),
        Some("hang") => std::future::pending().await,
        Some("hoard") => {
            // It waits between its allocations, so that it can be dropped.
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 10]);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Some("slow") => tokio::time::sleep(Duration::from_millis(300)).await,
        _ => {}
    }
    Ok(())
}

/// A server on the loopback.
struct Served {
    address: SocketAddr,
    authority: AuthorityKey,
    world: World,
    stop: Stop,
    ended: sendo_world::Task<()>,
}

impl Served {
    async fn start() -> Self {
        let (kube, _api) = FakeApi::new();
        let world = World::real();
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let client = Client::new(kube, cache.clone(), world.clone(), ClientOptions::default());
        let webhooks = [webhook::validates(obey)];
        let with = Parts {
            cache: &cache,
            client: &client,
            metrics: &Registry::new(),
            namespaces: &Namespaces::All,
            world: &world,
            limits: Limits::default(),
        };
        let service = Service::new(&webhooks, Arc::new(Conversions::default()), &with);
        service.open(&webhooks[0], &with);
        let (now, lifetimes) = (world.clock().wall(), Lifetimes::default());
        let authority = AuthorityKey::make("tests", now, &lifetimes, world.random()).unwrap();
        let names = Names::new("localhost", []);
        let identity = authority.sign(&names, now, &lifetimes, world.random());
        let options = TlsOptions {
            http2: true,
            ..TlsOptions::new(world.clock())
        };
        let tls = Tls::without_certificate(None, options);
        tls.give(identity.unwrap()).unwrap();
        let listener = Listener::bind("127.0.0.1:0", "--x").await.unwrap();
        let (address, stop) = (listener.address(), Stop::new());
        let serving = {
            let (world, stop) = (world.clone(), stop.clone());
            async move {
                let limit = Duration::from_secs(5);
                serve(listener, tls, service, &world, &stop, limit).await;
            }
        };
        let ended = world.tasks().spawn("server", serving);
        Served {
            address,
            authority,
            world,
            stop,
            ended,
        }
    }

    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate.der.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(rustls::DEFAULT_VERSIONS);
        let mut config = config
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = stream.await.unwrap();
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            Some(protocol.as_bytes())
        );
        stream
    }

    async fn http2(&self) -> http2::SendRequest<Body> {
        let stream = TokioIo::new(self.connect("h2").await);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (sender, connection) = http2::handshake(executor, stream).await.unwrap();
        let connection = async { drop(connection.await) };
        self.world.tasks().spawn("client", connection);
        sender
    }

    async fn http1(&self) -> http1::SendRequest<Body> {
        let stream = TokioIo::new(self.connect("http/1.1").await);
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        let connection = async { drop(connection.await) };
        self.world.tasks().spawn("client", connection);
        sender
    }

    async fn end(self) {
        self.stop.cancel();
        self.ended.output().await;
        self.world.tasks().stop().await;
    }
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

fn review(name: &str) -> Bytes {
    let review = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "u", "name": name, "namespace": "default", "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "userInfo": {"username": "ann"}, "dryRun": false,
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
        },
    });
    review.to_string().into()
}

fn post(path: &str, body: Body) -> Request<Body> {
    post_within("60s", path, body)
}

fn post_within(timeout: &str, path: &str, body: Body) -> Request<Body> {
    Request::post(format!("https://localhost{path}?timeout={timeout}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

async fn read(response: hyper::Result<http::Response<Incoming>>) -> (StatusCode, Value) {
    let response = response.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn reviews_come_by_http_1_and_2() {
    let served = Served::start().await;
    let (mut one, mut two) = (served.http1().await, served.http2().await);
    for _ in 0..2 {
        let first = one.send_request(post(PATH, whole(review("a")))).await;
        let second = two.send_request(post(PATH, whole(review("a")))).await;
        for response in [first, second] {
            let (status, review) = read(response).await;
            assert_eq!(status, 200);
            assert_eq!(review["response"], json!({"uid": "u", "allowed": true}));
        }
    }
    let (status, told) = read(two.send_request(post("/other", whole(""))).await).await;
    assert_eq!(status, 404);
    assert_eq!(told["message"], "there is no webhook at /other");
    served.end().await;
}

#[tokio::test]
async fn a_call_that_panics_hangs_or_hoards_ends_alone() {
    let served = Served::start().await;
    let sender = served.http2().await;
    let call = |name: &'static str| {
        let mut sender = sender.clone();
        let timeout = match name {
            "hang" | "hoard" => "1s",
            _ => "60s",
        };
        let request = post_within(timeout, PATH, whole(review(name)));
        async move { read(sender.send_request(request).await).await }
    };
    for (name, status, why) in [
        ("panic", 500, "the webhook panicked: on purpose"),
        ("hang", 504, "the webhook has not decided within 900ms"),
        ("hoard", 504, "the webhook has not decided within 900ms"),
    ] {
        let ((failed, told), (well, _)) = join(call(name), call("a")).await;
        assert_eq!(
            (failed.as_u16(), told["message"].as_str()),
            (status, Some(why))
        );
        assert_eq!(well, 200);
        assert_eq!(call("a").await.0, 200);
    }
    served.end().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_garbage_or_never_whole_is_refused() {
    let served = Served::start().await;
    let sender = served.http2().await;
    let call = |body: Body| {
        let mut sender = sender.clone();
        async move { read(sender.send_request(post(PATH, body)).await).await }
    };
    let (status, told) = call(whole(vec![b' '; (7 << 20) + 1])).await;
    assert_eq!(status, 413, "{told}");
    assert_eq!(told["message"], "the review has more than 7340032 bytes");
    let (status, told) = call(whole("garbage")).await;
    assert_eq!(status, 400, "{told}");
    let old = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}"#;
    let (status, told) = call(whole(old)).await;
    assert_eq!(status, 400, "{told}");
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("admission.k8s.io/v1beta1")
    );
    let beginning = futures::stream::once(async { Ok(Frame::data(Bytes::from_static(b"{"))) });
    let endless = beginning.chain(futures::stream::pending());
    let late = post_within("1s", PATH, StreamBody::new(endless).boxed_unsync());
    let (status, _) = read(sender.clone().send_request(late).await).await;
    assert_eq!(status, 504);
    assert_eq!(call(whole(review("a"))).await.0, 200);
    served.end().await;
}

#[tokio::test]
async fn a_stop_lets_calls_under_way_end_and_closes_what_is_idle() {
    let served = Served::start().await;
    let (mut busy, idle) = (served.http2().await, served.http1().await);
    let (address, stop) = (served.address, served.stop.clone());
    let stopping = async {
        served.world.clock().sleep(Duration::from_millis(100)).await;
        stop.cancel();
    };
    let call = busy.send_request(post(PATH, whole(review("slow"))));
    let (answered, ()) = join(call, stopping).await;
    assert_eq!(read(answered).await.0, 200);
    served.end().await;
    assert!(idle.is_closed());
    assert!(TcpStream::connect(address).await.is_err());
}
