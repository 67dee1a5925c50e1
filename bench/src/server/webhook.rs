//! What a validating webhook on loopback adds to a create.
//!
//! Objects are created by one client, one after the other, in turn in a namespace that the
//! webhook is for and in one that it is not for; each pair is compared. The webhook allows
//! everything, on a thread of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sendo::World;
use sendo_server::Authority;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{DEFAULT_VERSIONS, ServerConfig};

use super::client::{Connection, Target};
use super::process::{Keeps, Process};

/// The number of pairs that are compared, and that come before to warm up.
const PAIRS: usize = 3000;
const WARM_UP: usize = 300;

const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const LABEL: &str = "bench.sendo.example/webhook";

/// Measures `sendo up`, and the server of `real` too if there is one.
pub(crate) async fn measure(real: Option<&Path>) -> anyhow::Result<()> {
    let world = World::real();
    let hook = Hook::start(&world).await?;
    println!("| create of a ConfigMap, p50 (p99) | without webhook | with one | it adds (p50) |");
    println!("|---|---|---|---|");
    let process = Process::start(&world, Keeps::Memory).await?;
    report("`sendo up`", &world, &process.target, &hook).await?;
    if let Some(file) = real {
        let text = std::fs::read_to_string(file).context("read the kubeconfig")?;
        report("Kubernetes", &world, &Target::read(&text)?, &hook).await?;
    }
    println!();
    world.tasks().stop().await;
    Ok(())
}

async fn report(name: &str, world: &World, target: &Target, hook: &Hook) -> anyhow::Result<()> {
    let mut connection = target.connect(world).await?;
    let pairs = compare(world, &mut connection, hook).await?;
    let without = pairs.iter().map(|pair| pair.without).collect();
    let with = pairs.iter().map(|pair| pair.with).collect();
    let added = pairs
        .iter()
        .map(|pair| pair.with.saturating_sub(pair.without))
        .collect();
    let [without, with, added] = [without, with, added].map(Percentiles::new);
    println!(
        "| {name} | {:.0?} ({:.0?}) | {:.0?} ({:.0?}) | {:.0?} |",
        without.p50, without.p99, with.p50, with.p99, added.p50
    );
    Ok(())
}

/// How long two creates took, one after the other.
struct Pair {
    without: Duration,
    with: Duration,
}

struct Percentiles {
    p50: Duration,
    p99: Duration,
}

impl Percentiles {
    fn new(mut all: Vec<Duration>) -> Self {
        all.sort();
        Percentiles {
            p50: all[all.len() / 2],
            p99: all[(all.len() - 1) * 99 / 100],
        }
    }
}

async fn compare(
    world: &World,
    connection: &mut Connection,
    hook: &Hook,
) -> anyhow::Result<Vec<Pair>> {
    let with = namespace(connection, &json!({LABEL: "true"})).await?;
    let without = namespace(connection, &json!({})).await?;
    let configuration = connection
        .create(CONFIGURATIONS, &hook.configuration())
        .await?;
    let configuration: Value = serde_json::from_slice(&configuration)?;
    let name = configuration["metadata"]["name"]
        .as_str()
        .context("no name")?;
    until_called(world, connection, &with).await?;

    let mut pairs = Vec::new();
    for number in 0..WARM_UP + PAIRS {
        let without = create(world, connection, &without, number).await?;
        let with = create(world, connection, &with, number).await?;
        if number >= WARM_UP {
            pairs.push(Pair { without, with });
        }
    }
    let line = format!("DELETE {CONFIGURATIONS}/{name}");
    connection.call(&line, Bytes::new()).await?;
    Ok(pairs)
}

/// Creates a namespace with these labels, and returns the path of its ConfigMaps.
async fn namespace(connection: &mut Connection, labels: &Value) -> anyhow::Result<String> {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let wanted = json!({"metadata": {"generateName": "bench-", "labels": labels}});
    let created: Value = serde_json::from_slice(&connection.create(NAMESPACES, &wanted).await?)?;
    let name = created["metadata"]["name"].as_str().context("no name")?;
    Ok(format!("{NAMESPACES}/{name}/configmaps"))
}

async fn create(
    world: &World,
    connection: &mut Connection,
    path: &str,
    number: usize,
) -> anyhow::Result<Duration> {
    let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"k": "v"}});
    let body = Bytes::from(map.to_string());
    let began = world.clock().now();
    connection.post(path, body).await?;
    Ok(world.clock().now() - began)
}

/// Waits until the server has taken notice of the webhook, which refuses what is named so.
async fn until_called(
    world: &World,
    connection: &mut Connection,
    path: &str,
) -> anyhow::Result<()> {
    let probe = json!({"metadata": {"name": REFUSED}}).to_string();
    let line = format!("{path}?dryRun=All");
    let called = world.clock().timeout(Duration::from_secs(30), async {
        loop {
            let sent = connection.post(&line, probe.clone().into()).await;
            if sent.is_err_and(|error| error.to_string().contains("denied the request")) {
                return;
            }
            world.clock().sleep(Duration::from_millis(20)).await;
        }
    });
    called.await.context("the server does not call the webhook")
}

/// The name of an object that the webhook refuses.
const REFUSED: &str = "refused";

/// A webhook on loopback.
struct Hook {
    address: SocketAddr,
    ca_bundle: String,
}

impl Hook {
    /// Serves it on a thread of its own, as long as this program runs.
    async fn start(world: &World) -> anyhow::Result<Self> {
        let authority = Authority::new(world.clock().wall())?;
        let identity = authority.server(&[])?;
        let chain = vec![CertificateDer::from_pem_slice(
            identity.certificate().as_bytes(),
        )?];
        let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(DEFAULT_VERSIONS)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async { serve(TcpListener::from_std(listener)?, acceptor).await })
        });
        Ok(Hook {
            address,
            ca_bundle: base64::engine::general_purpose::STANDARD.encode(authority.pem()),
        })
    }

    fn configuration(&self) -> Value {
        json!({
            "metadata": {"generateName": "bench-"},
            "webhooks": [{
                "name": "webhook.bench.sendo.example",
                "clientConfig": {"url": format!("https://{}", self.address), "caBundle": self.ca_bundle},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {LABEL: "true"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await?;
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            connection.await.map_err(std::io::Error::other)
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = &review["request"];
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": request["name"] != REFUSED},
    });
    Ok(Response::new(Full::new(answer.to_string().into())))
}
