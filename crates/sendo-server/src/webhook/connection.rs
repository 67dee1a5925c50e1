//! Connections to webhooks, kept between calls.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `defaultCacheSize`, `HookClient`

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

use super::config::Target;
use super::failure::DialError;
use super::trust;

/// How many clients are kept, each with its connections.
const KEPT: usize = 200;

/// A client for webhooks with the same name and the same trusted certificates.
pub(super) type Client = legacy::Client<HttpsConnector<Dial>, Full<Bytes>>;

/// The clients that have been made, the last used at the end.
pub(super) struct Connections {
    world: World,
    clients: Mutex<Vec<(Key, Client)>>,
}

#[derive(PartialEq, Eq)]
struct Key {
    server_name: String,
    http2: bool,
    ca_bundle: Arc<[u8]>,
}

impl Connections {
    pub(super) fn new(world: &World) -> Self {
        Connections {
            world: world.clone(),
            clients: Mutex::default(),
        }
    }

    /// The client for a target whose certificate `ca_bundle` vouches for.
    pub(super) fn client(&self, target: &Target, ca_bundle: &[u8]) -> Result<Client, String> {
        let (name, http2) = (target.server_name(), target.allows_http2());
        let mut clients = self.clients.lock();
        let known = clients.iter().position(|(key, _)| {
            key.server_name == name && key.http2 == http2 && *key.ca_bundle == *ca_bundle
        });
        if let Some(known) = known {
            let entry = clients.remove(known);
            let client = entry.1.clone();
            clients.push(entry);
            return Ok(client);
        }
        let client = self.connect(name, http2, ca_bundle)?;
        if clients.len() >= KEPT {
            clients.remove(0);
        }
        let key = Key {
            server_name: name.to_owned(),
            http2,
            ca_bundle: ca_bundle.into(),
        };
        clients.push((key, client.clone()));
        Ok(client)
    }

    fn connect(&self, name: &str, http2: bool, ca_bundle: &[u8]) -> Result<Client, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let tls = trust::client_config(ca_bundle, self.world.clock())?;
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name));
        let connector = match http2 {
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
pub(super) struct Dial;

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
