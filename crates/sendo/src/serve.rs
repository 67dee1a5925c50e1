//! A small HTTP server for metrics, probes, and pages of the program's own that a runnable serves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sendo_world::{Stop, World};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::tls::Tls;

/// Connections served at once; more wait to be accepted.
const CONNECTIONS: usize = 128;
/// How long a connection may be silent before its request has come.
const REQUEST_HEAD: Duration = Duration::from_secs(30);
/// How long requests under way may take after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// How long to wait before accepting again after that failed, as it does when
/// the process has no more file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// An address that is bound: whoever connects waits until it is served.
///
/// Binding comes first and apart from serving, so that a program finds out
/// before it starts anything else that it cannot have the address.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program listens there.
    #[error("address in use: {address}, choose another with {flag}")]
    InUse {
        /// The address.
        address: String,
        /// The setting it came from.
        flag: String,
    },
    /// It is no address, or one that this machine or this user cannot have.
    #[error("cannot listen on {address}: {cause}; choose another address with {flag}")]
    Unusable {
        /// The address.
        address: String,
        /// The setting it came from.
        flag: String,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
}

impl Listener {
    /// Binds `address`: `host:port`, or `:port` for all interfaces; port 0 takes a free one.
    ///
    /// `flag` names the setting that the address came from, for the error.
    pub async fn bind(address: &str, flag: &str) -> Result<Self, BindError> {
        let error = |cause: io::Error| {
            let (address, flag) = (address.to_owned(), flag.to_owned());
            match cause.kind() {
                io::ErrorKind::AddrInUse => BindError::InUse { address, flag },
                _ => BindError::Unusable {
                    address,
                    flag,
                    cause,
                },
            }
        };
        let everywhere = address.strip_prefix(':');
        let address = everywhere.map_or(address.to_owned(), |port| format!("[::]:{port}"));
        let mut addresses: Vec<SocketAddr> = lookup_host(address).await.map_err(error)?.collect();
        // A machine without IPv6 has only the other way to say "all interfaces".
        addresses.extend(
            everywhere
                .and_then(|port| port.parse().ok())
                .map(|port: u16| SocketAddr::from(([0, 0, 0, 0], port))),
        );
        let socket = TcpListener::bind(addresses.as_slice())
            .await
            .map_err(error)?;
        let address = socket.local_addr().map_err(error)?;
        Ok(Listener { socket, address })
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests with `handler` until `stop`; then lets those under way
    /// finish for 5 s and returns when no connection is left.
    ///
    /// ```no_run
    /// use sendo::{PageResponse, PageRequest, Listener, Manager, everywhere};
    ///
    /// let program = Manager::new("greeter").runnable(everywhere("page", |cx| async move {
    ///     let listener = Listener::bind("127.0.0.1:8080", "PAGE_ADDRESS").await?;
    ///     let page = |request: PageRequest| async move { PageResponse::ok(format!("the path is {}\n", request.path)) };
    ///     listener.serve(cx.world(), cx.stopping(), page).await;
    ///     Ok(())
    /// }));
    /// ```
    pub async fn serve<H, F>(self, world: &World, stop: &Stop, handler: H)
    where
        H: Fn(PageRequest) -> F + Clone + Send + 'static,
        F: Future<Output = PageResponse> + Send + 'static,
    {
        self.serve_with(None, world, stop, handler).await;
    }

    /// The same, through TLS if there is any.
    pub(crate) async fn serve_with<H, F>(
        self,
        tls: Option<Tls>,
        world: &World,
        stop: &Stop,
        handler: H,
    ) where
        H: Fn(PageRequest) -> F + Clone + Send + 'static,
        F: Future<Output = PageResponse> + Send + 'static,
    {
        let converse = {
            let (world, stop) = (world.clone(), stop.clone());
            move |stream: Connection| {
                let (world, stop, handler) = (world.clone(), stop.clone(), handler.clone());
                async move { converse(stream, &world, &stop, handler).await }
            }
        };
        self.serve_connections(tls, world, stop, CONNECTIONS, converse)
            .await;
    }

    /// Accepts up to `limit` connections at once until `stop`, through TLS if there is any, and
    /// returns when no connection is left. `converse` is one connection, and ends soon after the
    /// stop.
    pub(crate) async fn serve_connections<C, F>(
        self,
        tls: Option<Tls>,
        world: &World,
        stop: &Stop,
        limit: usize,
        converse: C,
    ) where
        C: Fn(Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let connections = world.tasks().child("http");
        let permits = Arc::new(Semaphore::new(limit));
        loop {
            let accept = async {
                let permit = permits.clone().acquire_owned().await;
                (self.socket.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = accept => next,
            };
            let Ok((stream, _)) = accepted else {
                world.clock().sleep(ACCEPT_AGAIN).await;
                continue;
            };
            // A response is complete when it is written: nothing is gained by waiting for more.
            let _ = stream.set_nodelay(true);
            let (clock, stop) = (world.clock().clone(), stop.clone());
            let (tls, converse) = (tls.clone(), converse.clone());
            connections.spawn("connection", async move {
                match tls {
                    None => converse(Either::Left(stream)).await,
                    Some(tls) => {
                        let accept = async { tls.acceptor().await.accept(stream).await };
                        let handshake = clock.timeout(REQUEST_HEAD, accept);
                        // Who cannot agree on TLS goes away.
                        if let Some(Some(Ok(stream))) = stop.run_until_cancelled(handshake).await {
                            converse(Either::Right(stream)).await;
                        }
                    }
                }
                drop(permit);
            });
        }
        drop(self.socket);
        connections.ended().await;
    }
}

/// A connection, through TLS or not: one type for both, so that what serves them is compiled once.
pub(crate) type Connection = Either<TcpStream, TlsStream<TcpStream>>;

/// One connection, until its peer closes it or the program stops.
async fn converse<H, F>(stream: Connection, world: &World, stop: &Stop, handler: H)
where
    H: Fn(PageRequest) -> F,
    F: Future<Output = PageResponse>,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let head_only = request.method() == Method::HEAD;
        let answer = PageRequest::from(request).map(&handler);
        async move {
            let answer = match answer {
                Ok(answer) => answer.await,
                Err(refusal) => refusal,
            };
            Ok::<_, std::convert::Infallible>(answer.into_response(head_only))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD)
        .auto_date_header(false);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // A connection that breaks is its peer's business: nobody here waits for it.
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = world.clock().timeout(DRAIN, connection).await;
        }
        _ = connection.as_mut() => {}
    }
}

/// A GET or HEAD request to a handler.
pub struct PageRequest {
    /// The path, without a slash at its end.
    pub path: String,
    query: String,
    /// The `Accept` header; empty if there is none.
    pub accept: String,
    /// The `Authorization` header. A secret.
    pub(crate) authorization: String,
}

/// Without what is secret.
impl std::fmt::Debug for PageRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageRequest")
            .field("path", &self.path)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl PageRequest {
    fn from(request: Request<Incoming>) -> Result<Self, PageResponse> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(PageResponse::text(
                status,
                "only GET and HEAD are served here\n",
            ));
        }
        let header = |name: http::HeaderName| {
            let value = request.headers().get(name);
            let text = value.and_then(|value| value.to_str().ok());
            text.unwrap_or_default().to_owned()
        };
        Ok(PageRequest {
            path: request.uri().path().trim_end_matches('/').to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            accept: header(http::header::ACCEPT),
            authorization: header(http::header::AUTHORIZATION),
        })
    }

    /// The values of a query parameter, in order, as they are written.
    pub fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(move |(key, _)| *key == name).map(|(_, v)| v)
    }
}

/// What a handler answers.
#[derive(Debug)]
pub struct PageResponse {
    /// The status code.
    pub status: StatusCode,
    /// The `Content-Type` header.
    pub content_type: &'static str,
    /// The page.
    pub body: String,
}

impl PageResponse {
    /// A page of plain text.
    pub fn ok(body: impl Into<String>) -> Self {
        PageResponse::text(StatusCode::OK, body)
    }

    /// Plain text with another status.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        PageResponse {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// That there is no such page.
    pub fn not_found() -> Self {
        PageResponse::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    fn into_response(self, head_only: bool) -> Response<Full<Bytes>> {
        let length = self.body.len();
        let body = if head_only { String::new() } else { self.body };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(
            http::header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// The whole answer to one request, as text.
    pub(crate) async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Serves `handler` on a free port of the loopback while `client` runs.
    pub(crate) async fn while_serving<H, F, C>(handler: H, client: impl FnOnce(SocketAddr) -> C)
    where
        H: Fn(PageRequest) -> F + Clone + Send + 'static,
        F: Future<Output = PageResponse> + Send + 'static,
        C: Future<Output = ()>,
    {
        let world = World::seeded(1);
        let listener = Listener::bind("127.0.0.1:0", "--x").await.unwrap();
        let address = listener.address();
        let stop = Stop::new();
        let client = async {
            client(address).await;
            stop.cancel();
        };
        tokio::join!(listener.serve(&world, &stop, handler), client);
        assert!(world.tasks().running().is_empty());
    }

    async fn echo(asked: PageRequest) -> PageResponse {
        PageResponse::text(StatusCode::OK, asked.path)
    }

    #[tokio::test]
    async fn an_address_in_use_names_the_flag_to_change() {
        let first = Listener::bind("127.0.0.1:0", "--x").await.unwrap();
        let address = first.address().to_string();
        let second = Listener::bind(&address, "--metrics-address").await;
        assert_eq!(
            second.unwrap_err().to_string(),
            format!("address in use: {address}, choose another with --metrics-address")
        );
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_refused() {
        let error = Listener::bind("nonsense", "--x").await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot listen on nonsense: "), "{text}");
        assert!(text.ends_with("choose another address with --x"), "{text}");
    }

    #[tokio::test]
    async fn get_and_head_are_answered_and_nothing_else() {
        while_serving(echo, |address| async move {
            let get = ask(address, "GET /a/b/").await;
            assert!(get.starts_with("HTTP/1.1 200 OK\r\n"), "{get}");
            assert!(get.ends_with("\r\n\r\n/a/b"), "{get}");
            let head = ask(address, "HEAD /a/b").await;
            assert!(head.contains("content-length: 4\r\n"), "{head}");
            assert!(head.ends_with("\r\n\r\n"), "{head}");
            let post = ask(address, "POST /a").await;
            assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
            assert!(post.contains("allow: GET, HEAD\r\n"), "{post}");
        })
        .await;
    }

    #[tokio::test]
    async fn a_stop_lets_a_request_finish_and_closes_idle_connections() {
        let stopping = Stop::new();
        let (entered, release) = (stopping.clone(), Stop::new());
        let handler = {
            let release = release.clone();
            move |asked| {
                let (entered, release) = (entered.clone(), release.clone());
                async move {
                    entered.cancel();
                    release.cancelled().await;
                    echo(asked).await
                }
            }
        };
        let world = World::seeded(1);
        let listener = Listener::bind("127.0.0.1:0", "--x").await.unwrap();
        let address = listener.address();
        let _idle = TcpStream::connect(address).await.unwrap();
        let stop = Stop::new();
        let end = async {
            stopping.cancelled().await;
            stop.cancel();
            tokio::task::yield_now().await;
            release.cancel();
        };
        let (answer, (), ()) = tokio::join!(
            ask(address, "GET /slow"),
            listener.serve(&world, &stop, handler),
            end
        );
        assert!(answer.ends_with("/slow"), "{answer}");
    }
}
