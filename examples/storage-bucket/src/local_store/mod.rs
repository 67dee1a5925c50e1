//! A real S3 server in memory, for demos and tests.
//!
//! It serves a loopback socket, or calls in the same process without a socket, which work with
//! virtual time. It can be stopped, started again and made slow; it keeps its buckets.

mod buckets;
mod signature_age;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use sendo::World;
use tower::Service;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::http::Http;
use crate::store::Credentials;
use buckets::Buckets;
use signature_age::SignatureAge;

/// An S3 server in memory. Clones are the same server.
///
/// It creates, lists and deletes buckets, and puts, gets and deletes objects.
/// Requests must be signed (AWS Signature Version 4) with the credentials it was
/// made with. Its tasks belong to the world it was made in, and end with it.
#[derive(Clone)]
pub struct LocalStore {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    s3: S3Service,
    buckets: Buckets,
    /// The address on which it listens; `None` without a socket.
    address: Option<SocketAddr>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The world of the time since the last start; `None` while stopped.
    running: Option<World>,
    delay: Duration,
}

/// Why the server sent no response.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// It is stopped, or was while it worked on the request.
    #[error("the local store is stopped")]
    Stopped,
    /// It failed.
    #[error("the local store failed: {0:?}")]
    Failed(s3s::HttpError),
}

impl LocalStore {
    /// A running server without a socket, reached by [`LocalStore::http`].
    pub fn in_process(world: &World, credentials: &Credentials) -> Self {
        let store = LocalStore::stopped(world, credentials, None);
        store.run();
        store
    }

    /// A running server on a port of the loopback interface; port 0 takes a free one.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn on_loopback(world: &World, credentials: &Credentials, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let store = LocalStore::stopped(world, credentials, Some(listener.local_addr()?));
        store.listen(listener)?;
        Ok(store)
    }

    fn stopped(world: &World, credentials: &Credentials, address: Option<SocketAddr>) -> Self {
        let world = world.child("local-store");
        let buckets = Buckets::new(world.clock());
        let mut s3 = S3ServiceBuilder::new(buckets.clone());
        s3.set_auth(SimpleAuth::from_single(
            credentials.key(),
            credentials.secret(),
        ));
        // s3s compares the time of a signature with the machine's clock. This server has the clock
        // of its world, so it makes this check itself.
        let mut any_time = S3Config::default();
        any_time.presigned_url_max_skew_time_secs = u32::MAX;
        s3.set_config(Arc::new(StaticConfigProvider::new(Arc::new(any_time))));
        s3.set_access(SignatureAge::new(world.clock()));
        LocalStore {
            inner: Arc::new(Inner {
                world,
                s3: s3.build(),
                buckets,
                address,
                state: Mutex::default(),
            }),
        }
    }

    /// The URL of the server, for a resource's `spec.endpoint`.
    pub fn endpoint(&self) -> String {
        match self.inner.address {
            Some(address) => format!("http://{address}"),
            None => "http://local-store.invalid".to_owned(),
        }
    }

    /// A client for this server that needs no socket.
    pub fn http(&self) -> Http {
        Http::in_process(self.clone())
    }

    /// Creates a bucket, if there is none of that name.
    pub fn create_bucket(&self, name: &str) {
        self.inner.buckets.create(name);
    }

    /// Removes a bucket with all that is in it, if there is one.
    pub fn remove_bucket(&self, name: &str) {
        self.inner.buckets.remove(name);
    }

    /// Puts an object into a bucket, if there is one of that name.
    pub fn put_object(&self, bucket: &str, key: &str, text: &str) {
        let bytes = Bytes::from(text.to_owned());
        self.inner.buckets.put(bucket, key, bytes);
    }

    /// Removes an object from a bucket, if it is there.
    pub fn remove_object(&self, bucket: &str, key: &str) {
        self.inner.buckets.take(bucket, key);
    }

    /// The names of the objects in a bucket; `None` if there is no such bucket.
    pub fn objects(&self, bucket: &str) -> Option<Vec<String>> {
        self.inner.buckets.keys(bucket)
    }

    /// Waits this long before each response from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Stops the server: requests in flight are dropped, new ones cannot
    /// connect. Returns when its port is closed. Does nothing if it is stopped.
    pub async fn stop(&self) {
        let running = self.state().running.take();
        if let Some(running) = running {
            running.tasks().stop().await;
        }
    }

    /// Starts the server again, on the same port. Does nothing if it is running.
    ///
    /// # Errors
    /// If the port cannot be opened: another process may use it.
    pub fn start(&self) -> io::Result<()> {
        if self.state().running.is_some() {
            return Ok(());
        }
        match self.inner.address {
            Some(address) => self.listen(TcpListener::bind(address)?),
            None => {
                self.run();
                Ok(())
            }
        }
    }

    fn run(&self) -> World {
        let running = self.inner.world.child("running");
        self.state().running = Some(running.clone());
        running
    }

    fn listen(&self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let running = self.run();
        let tasks = running.tasks().clone();
        let serve = self.clone().accept(listener, running);
        tasks.spawn("listener", serve);
        Ok(())
    }

    async fn accept(self, listener: tokio::net::TcpListener, running: World) {
        let stopping = running.tasks().stopping();
        while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
            let connection = match accepted {
                Ok((connection, _)) => TokioIo::new(connection),
                Err(error) => {
                    // Probably out of file descriptors: retry when some may be free.
                    tracing::warn!(%error, "the local store cannot accept a connection");
                    running.clock().sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let store = self.clone();
            let stopping = stopping.clone();
            running.tasks().spawn("connection", async move {
                let service = service_fn(|request| store.clone().answer(request));
                let serving = http1::Builder::new().serve_connection(connection, service);
                // Errors of a connection are reported by the client.
                let _ = stopping.run_until_cancelled(serving).await;
            });
        }
    }

    async fn answer<B>(self, request: Request<B>) -> Result<Response<s3s::Body>, NoAnswer>
    where
        B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
    {
        let (running, delay) = {
            let state = self.state();
            (state.running.clone().ok_or(NoAnswer::Stopped)?, state.delay)
        };
        let answer = async {
            running.clock().sleep(delay).await;
            let request = request.map(s3s::Body::http_body_unsync);
            // s3s logs times of the machine's clock, which differ between runs.
            let unlogged = NoSubscriber::default();
            self.inner.s3.call(request).with_subscriber(unlogged).await
        };
        let answer = running.tasks().stopping().run_until_cancelled(answer).await;
        answer.ok_or(NoAnswer::Stopped)?.map_err(NoAnswer::Failed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore")
            .field("endpoint", &self.endpoint())
            .field("running", &self.state().running.is_some())
            .finish_non_exhaustive()
    }
}

/// The server without a socket.
impl<B> Service<Request<B>> for LocalStore
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Send + 'static,
{
    type Response = Response<s3s::Body>;
    type Error = NoAnswer;
    type Future = BoxFuture<'static, Result<Self::Response, NoAnswer>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoAnswer>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}
