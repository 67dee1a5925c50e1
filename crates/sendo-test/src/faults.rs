//! Requests that fail: what lies between a program and its API server on a bad day.

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
/// Each request may be refused before it is looked at, be slow, or be done with
/// its answer lost on the way back, so that the program cannot know that it was;
/// each watch may break off in the middle. Clones share the switch and the counts.
#[derive(Clone, Debug)]
pub struct Faults {
    world: World,
    chance: f64,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    injected: AtomicU64,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server says that it is too busy.
    TooBusy,
    /// The server breaks down before it has done anything.
    Broken,
    /// The connection cannot be made.
    NotSent,
    /// The request is done, but the connection breaks before the answer.
    AnswerLost,
    /// The answer takes its time.
    Slow,
}

const FAULTS: [Fault; 5] = [
    Fault::TooBusy,
    Fault::Broken,
    Fault::NotSent,
    Fault::AnswerLost,
    Fault::Slow,
];

/// A watch breaks off before this many pieces of it have come, if it does.
const LONGEST_BROKEN_WATCH: u64 = 20;

impl Faults {
    /// Faults that meet each request with the probability `chance`, from 0 to 1.
    pub fn new(world: &World, chance: f64) -> Self {
        Faults {
            world: world.child("faults"),
            chance,
            shared: Arc::default(),
        }
    }

    /// Ends them: from now on every request goes through. Watches that are open
    /// may still break off once.
    pub fn end(&self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }

    /// How many faults there were.
    pub fn injected(&self) -> u64 {
        self.shared.injected.load(Ordering::Relaxed)
    }

    /// A client whose requests reach `service` only past these faults.
    pub fn client<S, B>(&self, service: S) -> kube::Client
    where
        S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let past_faults = PastFaults {
            inner: service,
            faults: self.clone(),
        };
        kube::Client::new(past_faults, "default")
    }

    fn strikes(&self) -> bool {
        if self.shared.ended.load(Ordering::Relaxed) {
            return false;
        }
        let strikes = self.world.random().fraction() < self.chance;
        if strikes {
            self.shared.injected.fetch_add(1, Ordering::Relaxed);
        }
        strikes
    }

    fn draw(&self) -> Option<Fault> {
        let strikes = self.strikes();
        let one = || self.world.random().below(0..FAULTS.len() as u64);
        strikes.then(|| FAULTS[one() as usize])
    }
}

/// A service with faults before it.
#[derive(Clone)]
struct PastFaults<S> {
    inner: S,
    faults: Faults,
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<S, B> Service<Request<kube::client::Body>> for PastFaults<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let faults = self.faults.clone();
        let fault = faults.draw();
        let query = request.uri().query().unwrap_or_default();
        let is_watch = request.method() == Method::GET && query.contains("watch=");
        let breaks_after = (is_watch && faults.strikes())
            .then(|| faults.world.random().below(0..LONGEST_BROKEN_WATCH));
        let done = match fault {
            Some(Fault::TooBusy) => return at_once(Ok(failure(429, "TooManyRequests"))),
            Some(Fault::Broken) => return at_once(Ok(failure(500, "InternalError"))),
            Some(Fault::NotSent) => return at_once(Err("the connection was refused".into())),
            Some(Fault::AnswerLost | Fault::Slow) | None => self.inner.call(request),
        };
        Box::pin(async move {
            let answer = done.await.map_err(Into::into)?;
            match fault {
                Some(Fault::AnswerLost) if !is_watch => {
                    // What was asked for is done before its answer is lost.
                    let _ = answer.into_body().collect().await;
                    return Err("the connection broke before the answer".into());
                }
                Some(Fault::Slow) => {
                    let longest = Duration::from_secs(5);
                    let part = faults.world.random().fraction();
                    faults.world.clock().sleep(longest.mul_f64(part)).await;
                }
                _ => {}
            }
            Ok(answer.map(|body| {
                let body = body.map_err(Into::into).boxed_unsync();
                match breaks_after {
                    Some(left) => Breaking { body, left }.boxed_unsync(),
                    None => body,
                }
            }))
        })
    }
}

fn at_once(answer: Result<Answer, BoxError>) -> BoxFuture<'static, Result<Answer, BoxError>> {
    Box::pin(std::future::ready(answer))
}

/// What the server answers instead.
fn failure(code: u16, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": "injected by the test",
    });
    let body = Full::new(Bytes::from(status.to_string()));
    let mut answer = Response::new(
        body.map_err(|never: Infallible| match never {})
            .boxed_unsync(),
    );
    *answer.status_mut() = StatusCode::from_u16(code).expect("a code of HTTP");
    let json = http::HeaderValue::from_static("application/json");
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    answer
}

/// A body that breaks off.
struct Breaking {
    body: UnsyncBoxBody<Bytes, BoxError>,
    left: u64,
}

impl Body for Breaking {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Ready(Some(Err("the watch broke off".into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.left -= 1;
        }
        frame
    }
}
