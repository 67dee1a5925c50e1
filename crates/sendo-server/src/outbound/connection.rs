//! Connections to other programs, kept between calls.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `defaultCacheSize`, `HookClient`
//! - `staging/src/k8s.io/client-go/transport/cache.go`: `tlsTransportCache`, `tlsCacheKey`

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use sendo_world::{Tasks, World};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::failure::DialError;
use super::trust::{self, ClientCertificate, Trust};

/// How many clients are kept, each with its connections.
const KEPT: usize = 200;

/// A client for programs with the same name and the same trusted certificates.
pub(crate) type Client = legacy::Client<HttpsConnector<Dial>, Full<Bytes>>;

/// How TLS is spoken with a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tls<'a> {
    /// The name or address that the certificate must be for.
    pub(crate) server_name: &'a str,
    /// Whether HTTP/2 may be spoken.
    pub(crate) http2: bool,
    /// Who vouches for the certificate.
    pub(crate) trust: Trust<'a>,
    /// Whether this server shows its own certificate, by which the program knows that it
    /// may say whose requests it sends. It has one once it listens.
    pub(crate) as_front_proxy: bool,
}

/// The clients that have been made, the last used at the end.
pub(super) struct Connections {
    world: World,
    front_proxy: Mutex<Option<Arc<ClientCertificate>>>,
    clients: Mutex<Vec<(Key, Client)>>,
}

#[derive(PartialEq, Eq)]
struct Key {
    server_name: String,
    http2: bool,
    /// `None` if any certificate will do.
    ca_bundle: Option<Arc<[u8]>>,
    as_front_proxy: bool,
}

impl Key {
    fn new(tls: &Tls<'_>) -> Self {
        Key {
            server_name: tls.server_name.to_owned(),
            http2: tls.http2,
            ca_bundle: tls.trust.ca_bundle().map(Arc::from),
            as_front_proxy: tls.as_front_proxy,
        }
    }

    fn is_of(&self, tls: &Tls<'_>) -> bool {
        self.server_name == tls.server_name
            && self.http2 == tls.http2
            && self.ca_bundle.as_deref() == tls.trust.ca_bundle()
            && self.as_front_proxy == tls.as_front_proxy
    }
}

impl Connections {
    pub(super) fn new(world: &World) -> Self {
        Connections {
            world: world.clone(),
            front_proxy: Mutex::default(),
            clients: Mutex::default(),
        }
    }

    /// Shows `certificate` in new connections; those that showed another one are forgotten.
    pub(super) fn set_front_proxy_certificate(&self, certificate: ClientCertificate) {
        *self.front_proxy.lock() = Some(Arc::new(certificate));
        self.clients.lock().retain(|(key, _)| !key.as_front_proxy);
    }

    /// The client for programs with this certificate.
    pub(super) fn client(&self, tls: &Tls<'_>) -> Result<Client, String> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.iter().position(|(key, _)| key.is_of(tls)) {
            let entry = clients.remove(known);
            let client = entry.1.clone();
            clients.push(entry);
            return Ok(client);
        }
        let client = self.connect(tls)?;
        if clients.len() >= KEPT {
            clients.remove(0);
        }
        clients.push((Key::new(tls), client.clone()));
        Ok(client)
    }

    fn connect(&self, tls: &Tls<'_>) -> Result<Client, String> {
        let name = ServerName::try_from(tls.server_name.to_owned());
        let name = name.map_err(|error| error.to_string())?;
        let front_proxy = self.front_proxy.lock().clone();
        let certificate = front_proxy.filter(|_| tls.as_front_proxy);
        let config = trust::client_config(tls.trust, certificate.as_deref(), self.world.clock())?;
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name));
        let connector = match tls.http2 {
            true => builder.enable_all_versions().wrap_connector(Dial),
            false => builder.enable_http1().wrap_connector(Dial),
        };
        let tasks = self.world.tasks().clone();
        Ok(legacy::Client::builder(Executor { tasks })
            .pool_timer(TokioTimer::new())
            .build(connector))
    }
}

/// Runs what drives a connection as a task of the server.
#[derive(Clone)]
struct Executor {
    tasks: Tasks,
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, connection: F) {
        let stopping = self.tasks.stopping().clone();
        self.tasks.spawn("connection", async move {
            stopping.run_until_cancelled(connection).await;
        });
    }
}

/// Opens TCP connections to the authority of a URI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial;

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(dial(uri))
    }
}

async fn dial(uri: Uri) -> Result<TokioIo<TcpStream>, DialError> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = uri.host().unwrap_or_default();
    let no_such_host = |_| DialError::Lookup(host.to_owned());
    let addresses = tokio::net::lookup_host(authority).await;
    let mut first = None;
    for address in addresses.map_err(no_such_host)? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream
                    .set_nodelay(true)
                    .map_err(|error| DialError::Connect { address, error })?;
                return Ok(TokioIo::new(stream));
            }
            Err(error) => first = first.or(Some(DialError::Connect { address, error })),
        }
    }
    Err(first.unwrap_or_else(|| DialError::Lookup(host.to_owned())))
}
