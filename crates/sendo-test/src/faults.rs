//! Fault injection between a program and its API server.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use sendo::World;
use serde_json::json;
use tower::{BoxError, Service};

/// Makes some of a program's requests fail, chosen by the seed of its world.
///
/// A request may be refused before the server handles it, take long, or be handled while its response
/// is lost, so that the program cannot know that it was. A watch may break off. Clones share the
/// switch and the counter.
#[derive(Clone, Debug)]
pub struct Faults {
    world: World,
    chance: f64,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    ended: AtomicBool,
    injected: AtomicU64,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server answers 429.
    TooManyRequests,
    /// The server answers 500 and does nothing.
    InternalError,
    /// The connection cannot be established.
    ConnectionRefused,
    /// The request is handled, but the connection breaks before the response.
    ResponseLost,
    /// The response is delayed.
    Slow,
}

const FAULTS: [Fault; 5] = [
    Fault::TooManyRequests,
    Fault::InternalError,
    Fault::ConnectionRefused,
    Fault::ResponseLost,
    Fault::Slow,
];

/// A watch that breaks off does so before this many frames.
const MAX_FRAMES_BEFORE_BREAK: u64 = 20;

impl Faults {
    /// Faults that hit each request with the probability `chance`, from 0 to 1.
    pub fn new(world: &World, chance: f64) -> Self {
        Faults {
            world: world.child("faults"),
            chance,
            state: Arc::default(),
        }
    }

    /// Stops injecting faults. Watches that are open may still break off once.
    pub fn end(&self) {
        self.state.ended.store(true, Ordering::Relaxed);
    }

    /// The number of injected faults.
    pub fn injected(&self) -> u64 {
        self.state.injected.load(Ordering::Relaxed)
    }

    /// A client that calls `service` with these faults injected.
    pub fn client<S, B>(&self, service: S) -> kube::Client
    where
        S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let injector = FaultInjector {
            inner: service,
            faults: self.clone(),
        };
        kube::Client::new(injector, "default")
    }

    fn is_injected(&self) -> bool {
        if self.state.ended.load(Ordering::Relaxed) {
            return false;
        }
        let is_injected = self.world.random().fraction() < self.chance;
        if is_injected {
            self.state.injected.fetch_add(1, Ordering::Relaxed);
        }
        is_injected
    }

    fn choose(&self) -> Option<Fault> {
        let is_injected = self.is_injected();
        let one = || self.world.random().below(0..FAULTS.len() as u64);
        is_injected.then(|| FAULTS[one() as usize])
    }
}

/// A service that injects faults.
#[derive(Clone)]
struct FaultInjector<S> {
    inner: S,
    faults: Faults,
}

type FaultyResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<S, B> Service<Request<kube::client::Body>> for FaultInjector<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = FaultyResponse;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<FaultyResponse, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let faults = self.faults.clone();
        let fault = faults.choose();
        let query = request.uri().query().unwrap_or_default();
        let is_watch = request.method() == Method::GET && query.contains("watch=");
        let frames_before_break = (is_watch && faults.is_injected())
            .then(|| faults.world.random().below(0..MAX_FRAMES_BEFORE_BREAK));
        let pending = match fault {
            Some(Fault::TooManyRequests) => return ready(Ok(failure(429, "TooManyRequests"))),
            Some(Fault::InternalError) => return ready(Ok(failure(500, "InternalError"))),
            Some(Fault::ConnectionRefused) => {
                return ready(Err("the connection was refused".into()));
            }
            Some(Fault::ResponseLost | Fault::Slow) | None => self.inner.call(request),
        };
        Box::pin(async move {
            let response = pending.await.map_err(Into::into)?;
            match fault {
                Some(Fault::ResponseLost) if !is_watch => {
                    // The request is handled before its response is lost.
                    let _ = response.into_body().collect().await;
                    return Err("the connection broke before the response".into());
                }
                Some(Fault::Slow) => {
                    let longest = Duration::from_secs(5);
                    let part = faults.world.random().fraction();
                    faults.world.clock().sleep(longest.mul_f64(part)).await;
                }
                _ => {}
            }
            Ok(response.map(|body| {
                let body = body.map_err(Into::into).boxed_unsync();
                match frames_before_break {
                    Some(frames_left) => TruncatedBody { body, frames_left }.boxed_unsync(),
                    None => body,
                }
            }))
        })
    }
}

fn ready(
    response: Result<FaultyResponse, BoxError>,
) -> BoxFuture<'static, Result<FaultyResponse, BoxError>> {
    Box::pin(std::future::ready(response))
}

/// The Status that is sent instead of the response.
fn failure(code: u16, reason: &str) -> FaultyResponse {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": "injected by the test",
    });
    let body = Full::new(Bytes::from(status.to_string()));
    let mut response = Response::new(
        body.map_err(|never: Infallible| match never {})
            .boxed_unsync(),
    );
    *response.status_mut() = StatusCode::from_u16(code).expect("a code of HTTP");
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

/// A body that ends with an error after some frames.
struct TruncatedBody {
    body: UnsyncBoxBody<Bytes, BoxError>,
    frames_left: u64,
}

impl Body for TruncatedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.frames_left == 0 {
            return Poll::Ready(Some(Err("the watch broke off".into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.frames_left -= 1;
        }
        frame
    }
}
