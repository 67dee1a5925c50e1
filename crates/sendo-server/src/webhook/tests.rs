//! Calls over real connections on loopback, and of services of this process.

use std::convert::Infallible;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use sendo_store::{Memory, Retention, Store};
use sendo_world::World;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use super::*;
use crate::{Authority, Identity};

fn webhooks(world: &World) -> Webhooks {
    let store: Arc<dyn Store> = Arc::new(Memory::new(world.clock().clone(), Retention::default()));
    Webhooks::new(&Arc::new(Outbound::new(&store, world)))
}

/// A webhook server with a certificate for loopback.
struct Server {
    world: World,
    address: SocketAddr,
    authority: Authority,
    /// Paths, queries and HTTP versions of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    async fn start(world: &World) -> Self {
        let authority = Authority::new(world.clock().wall()).unwrap();
        let identity = authority.server(&[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            world: world.clone(),
            address: listener.local_addr().unwrap(),
            authority,
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(tls(&identity)));
        let (seen, connections) = (Arc::clone(&server.seen), Arc::clone(&server.connections));
        let tasks = world.tasks().clone();
        let stopping = tasks.stopping().clone();
        world.tasks().spawn("webhook", async move {
            let accept = async {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    *connections.lock() += 1;
                    let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                    let stopping = tasks.stopping().clone();
                    tasks.spawn("webhook-connection", async move {
                        stopping
                            .run_until_cancelled(serve(acceptor, stream, seen))
                            .await;
                    });
                }
            };
            stopping.run_until_cancelled(accept).await;
        });
        server
    }

    fn config(&self, path: &str) -> ClientConfig {
        ClientConfig::read(&json!({
            "url": format!("https://{}{path}", self.address),
            "caBundle": STANDARD.encode(self.authority.pem()),
        }))
    }
}

fn tls(identity: &Identity) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.private_key())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: tokio::net::TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        seen.lock().push(format!(
            "{} {:?}",
            request.uri().path_and_query().unwrap(),
            request.version()
        ));
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let response = match path.as_str() {
                "/never" => std::future::pending().await,
                "/large" => Response::new(Full::new(Bytes::from(vec![b' '; ANSWER_LIMIT + 1]))),
                "/away" => Response::builder()
                    .status(302)
                    .header("location", "/echo")
                    .body(Full::default())
                    .unwrap(),
                _ => Response::new(Full::new(body)),
            };
            Ok::<_, Infallible>(response)
        }
    });
    // A client that goes away is an error here.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

const LIMIT: Duration = Duration::from_secs(10);

async fn error(webhooks: &Webhooks, config: &ClientConfig, limit: Duration) -> String {
    let review = Bytes::from_static(b"{}");
    webhooks
        .post(config, limit, review)
        .await
        .unwrap_err()
        .to_string()
}

#[tokio::test]
async fn a_url_is_called_over_one_kept_connection() {
    let world = World::seeded(1);
    let server = Server::start(&world).await;
    let webhooks = webhooks(&world);
    for _ in 0..3 {
        let review = Bytes::from_static(b"{\"a\": 1}");
        let config = server.config("/echo");
        let answer = webhooks.post(&config, LIMIT, review.clone()).await;
        assert_eq!(answer.unwrap(), review);
    }
    assert_eq!(*server.connections.lock(), 1);
    assert_eq!(*server.seen.lock(), ["/echo?timeout=10s HTTP/2.0"; 3]);
    server.world.tasks().stop().await;
}

#[tokio::test]
async fn failures_are_told_in_the_words_of_kubernetes() {
    let world = World::seeded(1);
    let server = Server::start(&world).await;
    let webhooks = webhooks(&world);
    let url = format!("https://{}", server.address);

    let away = error(&webhooks, &server.config("/away"), LIMIT).await;
    assert_eq!(
        away,
        "the server responded with the status code 302 but did not return more information"
    );
    let large = error(&webhooks, &server.config("/large"), LIMIT).await;
    assert_eq!(
        large,
        "unexpected error when reading response body. Please retry. Original error: length limit exceeded"
    );
    let never = error(
        &webhooks,
        &server.config("/never"),
        Duration::from_millis(50),
    )
    .await;
    assert_eq!(
        never,
        format!("Post \"{url}/never?timeout=1s\": context deadline exceeded")
    );
    let mut untrusted = server.config("/echo");
    let other = Authority::new(world.clock().wall()).unwrap();
    untrusted.ca_bundle = other.pem().into_bytes();
    assert_eq!(
        error(&webhooks, &untrusted, LIMIT).await,
        format!(
            "Post \"{url}/echo?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
    );
    untrusted.ca_bundle = b"x".to_vec();
    assert_eq!(
        error(&webhooks, &untrusted, LIMIT).await,
        "unable to load root certificates: unable to parse bytes as PEM block"
    );
    server.world.tasks().stop().await;

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let config = ClientConfig::read(&json!({"url": format!("https://{address}")}));
    assert_eq!(
        error(&webhooks, &config, LIMIT).await,
        format!(
            "Post \"https://{address}/?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    let config = ClientConfig::read(&json!({"service": {"namespace": "n", "name": "s"}}));
    assert_eq!(
        error(&webhooks, &config, LIMIT).await,
        "Post \"https://s.n.svc:443/?timeout=10s\": service \"s\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_of_this_process_is_called_in_virtual_time() {
    let world = World::seeded(1);
    let webhooks = webhooks(&world);
    let clock = world.clock().clone();
    let slow = move |request: Request<Bytes>| {
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_secs(5)).await;
            assert_eq!(request.uri().to_string(), "/p?timeout=10s");
            Response::new(request.into_body())
        }
    };
    let _registered = webhooks.outbound.local().register("s.n.svc", 443, slow);
    let config =
        ClientConfig::read(&json!({"service": {"namespace": "n", "name": "s", "path": "/p"}}));
    let review = Bytes::from_static(b"{}");
    let answer = webhooks.post(&config, LIMIT, review.clone()).await;
    assert_eq!(answer.unwrap(), review);
    assert_eq!(
        error(&webhooks, &config, Duration::from_secs(4)).await,
        "Post \"https://s.n.svc:443/p?timeout=4s\": context deadline exceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_asks_for_it_is_called_again() {
    let world = World::seeded(1);
    let webhooks = webhooks(&world);
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let busy_twice = move |request: Request<Bytes>| {
        *counted.lock() += 1;
        let busy = *counted.lock() < 3;
        async move {
            let mut response = Response::new(request.into_body());
            if busy {
                *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
                let headers = response.headers_mut();
                headers.insert("retry-after", HeaderValue::from_static("2"));
            }
            response
        }
    };
    let _registered = webhooks
        .outbound
        .local()
        .register("a.example", 443, busy_twice);
    let config = ClientConfig::read(&json!({"url": "https://a.example"}));
    let review = Bytes::from_static(b"{}");
    let before = world.clock().now();
    let answer = webhooks.post(&config, LIMIT, review.clone()).await;
    assert_eq!(answer.unwrap(), review);
    assert_eq!(*calls.lock(), 3);
    assert_eq!(world.clock().now() - before, Duration::from_secs(4));
}
