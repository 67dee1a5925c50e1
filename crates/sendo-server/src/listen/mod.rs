//! Serves TLS and HTTP on a socket, and hands each request to the server.

pub(crate) mod certificates;
pub(crate) mod gathered;
pub(crate) mod idle;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use sendo_world::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tower::Service as _;

use self::certificates::{Authority, AuthorityError, CertificateError, Identity};
use crate::access::tokens;
use crate::api_server::ApiServer;
use crate::bootstrap::{FRONT_PROXY_CLIENT, StartError};
use crate::listen::gathered::Gathered;
use crate::listen::idle::Idle;
use crate::outbound::ClientCertificate;
use crate::read::streams::Streams;
use crate::request::body::Body;
use crate::request::upgrade::{Arranged, Upgrade};
use crate::request::user::{self, User};

/// How long a client may take to shake hands, to send a request's head, and to
/// show that it is still there.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a silent connection is sent a ping, to find out whether its client is still there.
const PING_PERIOD: Duration = Duration::from_secs(30);
/// How long a connection without requests is kept.
const IDLE: Duration = Duration::from_secs(90);

/// How long requests under way, and clients that do not listen, hold up the end
/// of a connection that the server closes.
const PARTING: Duration = Duration::from_secs(5);

/// How much is held for a stream whose client does not read: with many watches
/// on one connection, this bounds what slow ones cost.
const SEND_BUFFER: usize = 64 * 1024;

/// The most that the head of a request may have: 1 MiB, as selectors can be long.
const HEAD: u32 = 1 << 20;

/// How much of several requests is read at once: TLS by itself reads one by one.
const READ_TOGETHER: usize = 32 * 1024;

/// The server's socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on: it is in use, or not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A token could not be made.
    #[error("cannot make the administrator's token: {0}")]
    Token(String),
    /// The authority of the certificate that other API servers are shown cannot be had.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The endpoints of the service `kubernetes`, or what other API servers read, could not be
    /// written.
    #[error(transparent)]
    Advertise(#[from] StartError),
    /// The TLS library refuses the certificates.
    #[error("the TLS library refuses the server's certificates: {0}")]
    Tls(String),
}

/// A server that listens, until the server's world stops.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    authority: Authority,
    admin: Identity,
    token: String,
}

impl ApiServer {
    /// Listens on `address` with TLS, HTTP/1.1 and HTTP/2; port 0 takes a free port.
    ///
    /// The server's certificate is signed by `authority`, and a client with a
    /// certificate signed by it is the user that it names (CN), in its groups (O).
    /// Connections are tasks of the server: [`ApiServer::shutdown`] ends them
    /// after the requests they carry, or after five seconds. The service `kubernetes` leads here.
    /// Other API servers, those that APIServices name, are shown a certificate from now on, and
    /// find its authority in the ConfigMap `extension-apiserver-authentication` of `kube-system`.
    ///
    /// # Errors
    /// If the address cannot be listened on, or no certificate can be made.
    pub async fn serve(
        &self,
        address: SocketAddr,
        authority: Authority,
    ) -> Result<Serving, ServeError> {
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let acceptor = acceptor(&authority, bound)?;
        let admin = authority.client("kubernetes-admin", user::MASTERS)?;
        let token = tokens::secret().map_err(|error| ServeError::Token(error.to_string()))?;
        self.give_token(&token, User::admin());
        self.advertise(bound).await?;
        self.identify(&authority).await?;
        let server = self.clone();
        let tasks = self.world().tasks().clone();
        self.world().tasks().spawn("listener", async move {
            let mut well = true;
            loop {
                let connection = tokio::select! {
                    biased;
                    () = tasks.stopping().cancelled() => return,
                    connection = listener.accept() => connection,
                };
                match connection {
                    Ok((stream, _)) => {
                        well = true;
                        let (server, acceptor, owner) =
                            (server.clone(), acceptor.clone(), tasks.clone());
                        tasks.spawn("connection", async move {
                            converse(server, acceptor, stream, owner).await
                        });
                    }
                    // Out of file descriptors, most likely: others close some.
                    Err(error) => {
                        if std::mem::take(&mut well) {
                            tracing::warn!(%error, "cannot accept connections, and tries again");
                        }
                        server
                            .world()
                            .clock()
                            .sleep(Duration::from_millis(100))
                            .await;
                    }
                }
            }
        });
        Ok(Serving {
            address: bound,
            authority,
            admin,
            token,
        })
    }
}

impl ApiServer {
    /// Makes the certificate that this server shows to other API servers, and tells them of it.
    async fn identify(&self, clients: &Authority) -> Result<(), ServeError> {
        let now = self.world().clock().wall();
        let front_proxy = Authority::of_front_proxy(self.store(), now).await?;
        let identity = front_proxy.proxy(FRONT_PROXY_CLIENT)?;
        let certificate = ClientCertificate {
            chain: identity.chain(),
            key: identity.private_key(),
        };
        let (clients, front_proxy) = (clients.pem(), front_proxy.pem());
        let identified = self.identify_to_extensions(certificate, &clients, &front_proxy);
        Ok(identified.await?)
    }
}

impl Serving {
    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that signed the server's certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A kubeconfig for the administrator, in YAML: with a client certificate, and
    /// a bearer token for clients that cannot show one. Both are secrets.
    pub fn kubeconfig(&self) -> String {
        let encode = |text: &str| {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(text)
        };
        crate::read::yaml::write(&serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sendo", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": encode(&self.authority.pem()),
            }}],
            "users": [{"name": "admin", "user": {
                "client-certificate-data": encode(self.admin.certificate()),
                "client-key-data": encode(self.admin.key()),
                "token": self.token,
            }}],
            "contexts": [{"name": "sendo", "context": {"cluster": "sendo", "user": "admin"}}],
            "current-context": "sendo",
        }))
    }
}

fn acceptor(authority: &Authority, bound: SocketAddr) -> Result<TlsAcceptor, ServeError> {
    let refused = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let identity = authority.server(&[bound.ip().to_string()])?;
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(authority.der())
        .map_err(|error| refused(&error))?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| refused(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(|error| refused(&error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(identity.chain(), identity.private_key())
        .map_err(|error| refused(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves one connection to its end.
async fn converse(server: ApiServer, acceptor: TlsAcceptor, stream: TcpStream, tasks: Tasks) {
    // Small events must not wait for more to say.
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok().map(|address| address.ip());
    let stream = BufReader::with_capacity(READ_TOGETHER, stream);
    let written = Gathered::new(stream);
    let handshake = server
        .world()
        .clock()
        .timeout(PATIENCE, acceptor.accept(written.clone()))
        .await;
    let stream = match handshake {
        Some(Ok(stream)) => stream,
        Some(Err(error)) => {
            server.metrics().tls_handshake_errors.add(1);
            tracing::debug!(%error, "a client did not shake hands");
            let clock = server.world().clock();
            let alert = clock.timeout(PARTING, send_alert(written));
            return either(tasks.stopping().cancelled(), async { drop(alert.await) }).await;
        }
        None => {
            server.metrics().tls_handshake_errors.add(1);
            return tracing::debug!("a client took too long to shake hands");
        }
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let user = certificates.and_then(|chain| certificates::user_of(chain.first()?));
    let caller = server.on_connection(user, peer);
    let idle = Idle::new(server.world().clock().clone());
    let arranged = Arranged::default();
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = idle.begin();
        if let Some(client) = request.extensions_mut().remove::<OnUpgrade>() {
            let upgrade = Upgrade::new(client, &arranged);
            request.extensions_mut().insert(upgrade);
        }
        let answer = match check_host(&request) {
            Ok(()) => Ok(caller.clone().call(request)),
            Err(why) => Err(why),
        };
        async move {
            let response = match answer {
                Ok(answer) => answer.await?,
                Err(why) => bad_request(why),
            };
            Ok::<_, Infallible>(response.map(|body| busy.until_sent(body)))
        }
    });
    let mut streams = Streams::new(tasks.clone(), server.world().clock().clone());
    let mut builder = auto::Builder::new(streams.executor());
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(HEAD as usize)
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(PING_PERIOD))
        .keep_alive_timeout(PATIENCE)
        .max_header_list_size(HEAD)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(1000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = poll_fn(|context| poll(&mut streams, &written, connection.as_mut(), context)) => ended,
        () = either(tasks.stopping().cancelled(), idle.wait(IDLE)) => {
            connection.as_mut().graceful_shutdown();
            let last = poll_fn(|context| poll(&mut streams, &written, connection.as_mut(), context));
            match server.world().clock().timeout(PARTING, last).await {
                Some(ended) => ended,
                None => return tracing::debug!("a connection was cut that did not end"),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
    if let Some(tunnel) = arranged.take() {
        let tunnel = tunnel.run(server.world().clock());
        tasks.stopping().run_until_cancelled(tunnel).await;
    }
}

/// Sends the alert that says why no hands were shaken, and waits until the client hangs up:
/// if the connection ended with something unread, the system would cut it, and the alert
/// might never be read.
async fn send_alert(mut connection: Gathered<BufReader<TcpStream>>) -> io::Result<()> {
    connection.shutdown().await?;
    let mut unread = [0; 1024];
    while connection.read(&mut unread).await? > 0 {}
    Ok(())
}

/// Polls a connection and its streams, and sends what they wrote.
fn poll<C: Future>(
    streams: &mut Streams,
    written: &Gathered<BufReader<TcpStream>>,
    mut connection: Pin<&mut C>,
    context: &mut Context<'_>,
) -> Poll<C::Output> {
    let mut gathered = poll_fn(|context| written.poll_gathered(connection.as_mut(), context));
    streams.poll(Pin::new(&mut gathered), context)
}

/// A request of HTTP/1.1 must have exactly one Host header (RFC 9112, section 3.2).
fn check_host<B>(request: &Request<B>) -> Result<(), &'static str> {
    match request.headers().get_all(header::HOST).iter().count() {
        _ if request.version() != Version::HTTP_11 => Ok(()),
        0 => Err("400 Bad Request: missing required Host header"),
        1 => Ok(()),
        _ => Err("400 Bad Request: too many Host headers"),
    }
}

fn bad_request(why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(why));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = one => {}
        () = other => {}
    }
}
