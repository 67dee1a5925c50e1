//! What a program sends over a real connection: TLS, a kubeconfig, and a server
//! that counts.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use http::{Method, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use rcgen::{CertificateParams, KeyPair};
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, Error, Rate, RateLimit};
use sendo::command::Args;
use sendo::metrics::{ClientMetrics, Format, Registry};
use sendo::{ObjectKey, World};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The requests that came, as method and path.
type Requests = Arc<Mutex<Vec<String>>>;

/// Serves TLS with a certificate that a kubeconfig in `folder` trusts, and answers
/// every request with this code and a Status that asks to come again.
async fn serve(world: &World, folder: &Path, code: u16) -> Requests {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    std::fs::write(folder.join("ca.crt"), certificate.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": folder.join("ca.crt")}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    });
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();

    let requests = Requests::default();
    let (seen, tasks) = (requests.clone(), world.tasks().clone());
    let stopping = tasks.stopping().clone();
    let accept = async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            let stopping = tasks.stopping().clone();
            let connection = async move {
                let Ok(stream) = acceptor.accept(socket).await else {
                    return;
                };
                let answer = service_fn(move |request: http::Request<Incoming>| {
                    let line = format!("{} {}", request.method(), request.uri().path());
                    seen.lock().unwrap().push(line);
                    async move { Ok::<_, Infallible>(refusal(code)) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let connection = connection.serve_connection(TokioIo::new(stream), answer);
                // A client that has its answer may go as it likes.
                let _ = connection.await;
            };
            tasks.spawn("connection", async move {
                stopping.run_until_cancelled(connection).await;
            });
        }
    };
    world.tasks().spawn("server", async move {
        stopping.run_until_cancelled::<_>(accept).await;
    });
    requests
}

fn refusal(code: u16) -> Response<Full<Bytes>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                        "message": "not now", "reason": "Timeout", "details": {"retryAfterSeconds": 1}});
    Response::builder()
        .status(code)
        .header("retry-after", "1")
        .body(Full::from(status.to_string()))
        .unwrap()
}

struct Program {
    world: World,
    client: Client,
    requests: Requests,
    metrics: Registry,
}

impl Program {
    /// A client as a program has it whose flags name a kubeconfig.
    async fn new(folder: &Path, code: u16) -> Self {
        let world = World::real();
        let requests = serve(&world, folder, code).await;
        let config = folder.join("config");
        let args = Args::parse_from(["program", "--kubeconfig", config.to_str().unwrap()]);
        let config = args
            .config("program", world.child("program"))
            .await
            .unwrap();
        let cache = Cache::new(
            config.client.clone(),
            world.clone(),
            CacheOptions::default(),
        );
        let metrics = Registry::new();
        let rate = Rate {
            per_second: 1000.0,
            burst: 1,
        };
        let options = ClientOptions {
            metrics: Some(ClientMetrics::new(&metrics, "server")),
            rate: Some(Arc::new(RateLimit::new(rate))),
            timeout: Duration::from_secs(5),
            ..ClientOptions::default()
        };
        Program {
            client: Client::new(config.client, cache, world.clone(), options),
            world,
            requests,
            metrics,
        }
    }

    /// How many requests of a method came, which the metrics must say too.
    fn count(&self, method: &Method, code: u16) -> usize {
        let came = self.requests.lock().unwrap();
        let came = came
            .iter()
            .filter(|line| line.starts_with(method.as_str()))
            .count();
        let line = format!(
            "rest_client_requests_total{{code=\"{code}\",host=\"server\",method=\"{method}\"}} {came}\n"
        );
        let page = self.metrics.encode(Format::Prometheus);
        assert!(
            came == 0 || page.contains(&line),
            "{line} is not in\n{page}"
        );
        came
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_sent_once_and_its_refusal_reaches_the_caller() {
    for code in [429, 503, 504] {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::new(folder.path(), code).await;
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("a".to_owned());
        map.metadata.generate_name = Some("one-".to_owned());
        let refused = program.client.create(&map).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert_eq!(program.count(&Method::POST, code), 1, "{code}");

        let pod = ObjectKey::from("a/p");
        let eviction = program.client.subresource::<Pod>(&pod, "eviction").unwrap();
        let refused = eviction.create::<Value>(&json!({})).await.unwrap_err();
        assert!(matches!(&refused, Error::Api(status) if status.message == "not now"));
        assert_eq!(program.count(&Method::POST, code), 2, "{code}");
        program.world.tasks().stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_sent_again_and_every_attempt_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(folder.path(), 503).await;
    let live = program.client.live();
    let refused = live.get::<ConfigMap>("a/one").await.unwrap_err();
    assert_eq!(refused.code(), 503);
    // One a second, as asked, within the time-out of five.
    let sent = program.count(&Method::GET, 503);
    assert!((2..=6).contains(&sent), "{sent}");
    program.world.tasks().stop().await;
}
