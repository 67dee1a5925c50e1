//! The webhooks of a program that runs: a request in, a response out, with no socket.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts as Head;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use sendo_world::{Moment, World};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SetOnce, watch};

use super::admission::{Admission, Surroundings};
use super::convert::Conversions;
use super::decide::{Decide, Refusal};
use super::declaration::Webhook;
use super::denied::Refused;
use super::operations::Operation;
use super::review::{self, ADMISSION, AdmissionRequest, AdmissionResponse};
use crate::cache::{Cache, Namespaces};
use crate::client::Client;
use crate::error::{Undeclared, panic_message};
use crate::metrics::{Registry, WebhookMetrics};
use crate::reader::Reader;

/// The path of conversions, as controller-runtime has it.
pub(crate) const CONVERT: &str = "/convert";

/// How long a conversion may take if the API server does not say.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How much earlier than the API server gives up a webhook does: a tenth, and no more than this.
const MARGIN: Duration = Duration::from_millis(500);

/// The limits of a program's webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a review; 7 MiB by default, more than the API server stores twice over.
    pub body: usize,
    /// How many reviews are handled at once; 128 by default. Others wait, as long as they have
    /// time.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 7 << 20,
            concurrency: 128,
        }
    }
}

/// The webhooks of a program that runs. Cheap to clone.
///
/// [`Service::call`] is all of them: whatever brings the requests, a socket with TLS or a server
/// in the same process.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    routes: BTreeMap<String, Route>,
    limits: Limits,
    permits: Semaphore,
    in_flight: watch::Sender<usize>,
    world: World,
}

struct Route {
    timeout: Duration,
    metrics: WebhookMetrics,
    handler: Handler,
}

enum Handler {
    Admission {
        decide: Arc<dyn Decide>,
        /// What it reads, once that is opened.
        opened: SetOnce<Arc<Surroundings>>,
    },
    Conversion(Arc<Conversions>),
}

/// What webhooks are run with.
pub(crate) struct Parts<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) client: &'a Client,
    pub(crate) metrics: &'a Registry,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) world: &'a World,
    pub(crate) limits: Limits,
}

impl Service {
    /// The webhooks. Reviews wait until [`Service::open`] has opened what their webhook reads.
    pub(crate) fn new(
        webhooks: &[Webhook],
        conversions: Arc<Conversions>,
        with: &Parts<'_>,
    ) -> Self {
        let mut routes = BTreeMap::new();
        for webhook in webhooks {
            let path = webhook.path();
            let route = Route {
                timeout: webhook.timeout(),
                metrics: WebhookMetrics::new(with.metrics, &path),
                handler: Handler::Admission {
                    decide: webhook.decide.clone(),
                    opened: SetOnce::new(),
                },
            };
            routes.insert(path, route);
        }
        if !conversions.is_empty() {
            let route = Route {
                timeout: CONVERSION_TIMEOUT,
                metrics: WebhookMetrics::of_conversions(with.metrics, CONVERT),
                handler: Handler::Conversion(conversions),
            };
            routes.insert(CONVERT.to_owned(), route);
        }
        Service {
            inner: Arc::new(Inner {
                routes,
                limits: with.limits,
                permits: Semaphore::new(with.limits.concurrency),
                in_flight: watch::Sender::new(0),
                world: with.world.clone(),
            }),
        }
    }

    /// Opens what one of the webhooks reads. A second time changes nothing.
    pub(crate) fn open(&self, webhook: &Webhook, with: &Parts<'_>) {
        let path = webhook.path();
        let Some(Handler::Admission { opened, .. }) =
            self.inner.routes.get(&path).map(|route| &route.handler)
        else {
            return;
        };
        if opened.initialized() {
            return;
        }
        let name = path.trim_start_matches('/');
        let world = with.world.child(name);
        let reader = Reader::open(name, &webhook.reads, with.cache, &world, with.namespaces);
        for index in &webhook.indexes {
            (index.add)(&reader);
        }
        // Only another thread can have been faster, with the same.
        let _ = opened.set(Arc::new(Surroundings {
            reader,
            client: with.client.clone(),
            world,
        }));
    }

    /// The longest that a call may take.
    pub(crate) fn longest(&self) -> Duration {
        let timeouts = self.inner.routes.values().map(|route| route.timeout);
        timeouts.max().unwrap_or_default()
    }

    /// Waits until no call is under way.
    pub(crate) async fn idle(&self) {
        let mut in_flight = self.inner.in_flight.subscribe();
        // The sender lives as long as this does.
        let _ = in_flight.wait_for(|calls| *calls == 0).await;
    }

    /// Answers a review. Never panics, and ends before its time is over: that of the query's
    /// `timeout`, or what the webhook declares. The body is read within that time too, and no
    /// further than it may be long.
    ///
    /// A handler that panics, fails or takes too long is a failed call to the API server (a
    /// status of 500 or more), so that the failure policy decides. What it refuses is a refusal.
    pub async fn call(&self, request: Request<Bytes>) -> Response<Bytes> {
        let whole = |body| Full::new(body).map_err(|never: Infallible| match never {});
        self.call_with(request.map(|body| whole(body).boxed_unsync()))
            .await
    }

    /// The same with a body that is still to come.
    pub(crate) fn call_streamed(
        self,
        request: Request<Incoming>,
    ) -> BoxFuture<'static, Result<Response<Full<Bytes>>, Infallible>> {
        let request = request.map(|body| body.map_err(BodyError::new).boxed_unsync());
        Box::pin(async move { Ok(self.call_with(request).await.map(Full::new)) })
    }

    async fn call_with(&self, request: Request<AnyBody>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let Some(route) = self.inner.routes.get(path) else {
            return failure(
                StatusCode::NOT_FOUND,
                &format!("there is no webhook at {path}"),
            );
        };
        self.inner.in_flight.send_modify(|calls| *calls += 1);
        let _counted = InFlight(&self.inner.in_flight);
        let _active = route.metrics.active();
        let started = self.inner.world.clock().now();
        let response = self.answer(route, &head, body).await;
        let took = self.inner.world.clock().now() - started;
        route.metrics.answered(response.status().as_u16(), took);
        response
    }

    async fn answer(&self, route: &Route, head: &Head, body: AnyBody) -> Response<Bytes> {
        if let Some(refusal) = refusal_of_form(head) {
            return refusal;
        }
        let clock = self.inner.world.clock();
        let given = timeout_of(&head.uri).unwrap_or(route.timeout);
        let limit = given - (given / 10).min(MARGIN);
        let until = clock.now() + limit;
        let handled = AssertUnwindSafe(self.handle(route, body, until)).catch_unwind();
        match clock.timeout(limit, handled).await {
            Some(Ok(response)) => response,
            Some(Err(panic)) => {
                if Undeclared::of_panic(&*panic).is_none() {
                    route.metrics.panicked();
                }
                let (path, panic) = (head.uri.path(), panic_message(&*panic));
                tracing::error!(path, panic, "a webhook panicked");
                let why = format!("the webhook panicked: {panic}");
                failure(StatusCode::INTERNAL_SERVER_ERROR, &why)
            }
            None => {
                let path = head.uri.path();
                tracing::error!(path, ?limit, "a webhook took too long");
                let why = format!("the webhook has not decided within {limit:?}");
                failure(StatusCode::GATEWAY_TIMEOUT, &why)
            }
        }
    }

    async fn handle(&self, route: &Route, body: AnyBody, until: Moment) -> Response<Bytes> {
        // Before the body, so that no more than so many are in memory.
        let permit = self.inner.permits.acquire().await;
        let body = match Limited::new(body, self.inner.limits.body).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return too_large(self.inner.limits.body);
            }
            Err(error) => {
                let why = format!("the body cannot be read: {error}");
                return failure(StatusCode::BAD_REQUEST, &why);
            }
        };
        let response = match &route.handler {
            Handler::Conversion(conversions) => match conversions.answer(&body) {
                Ok(answer) => ok(answer),
                Err(why) => failure(StatusCode::BAD_REQUEST, &why),
            },
            Handler::Admission { decide, opened } => match review::admission(&body) {
                Ok(request) => self.admit(&**decide, opened, request, until).await,
                Err(why) => failure(StatusCode::BAD_REQUEST, &why),
            },
        };
        drop(permit);
        response
    }

    async fn admit(
        &self,
        decide: &dyn Decide,
        opened: &SetOnce<Arc<Surroundings>>,
        request: AdmissionRequest,
        until: Moment,
    ) -> Response<Bytes> {
        let Some(operation) = Operation::named(&request.operation) else {
            let why = format!("{:?} is no operation that is known", request.operation);
            return failure(StatusCode::BAD_REQUEST, &why);
        };
        let clock = self.inner.world.clock();
        // A little is left to say so.
        let left = until.since(clock.now());
        let synced = async {
            let surroundings = opened.wait().await;
            surroundings.reader.synced().await;
            surroundings
        };
        let Some(surroundings) = clock.timeout(left - left / 10, synced).await else {
            let why = "the cache does not have yet what the webhook reads";
            return failure(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        let cx = Admission {
            surroundings: surroundings.clone(),
            request: Arc::new(request),
            operation,
            notes: Arc::default(),
        };
        let decided = decide.decide(&cx.request.clone(), cx.clone()).await;
        let request = &cx.request;
        let mut response = AdmissionResponse {
            uid: request.uid.clone(),
            ..AdmissionResponse::default()
        };
        match decided {
            Ok(patch) => {
                response.allowed = true;
                if !patch.is_empty() {
                    response.patch = Some(STANDARD.encode(Value::from(patch).to_string()));
                    response.patch_type = Some("JSONPatch");
                }
            }
            Err(Refusal::NotDeclared(why)) => return failure(StatusCode::BAD_REQUEST, &why),
            Err(Refusal::Unreadable(why)) => {
                response.status = Some(status(StatusCode::BAD_REQUEST, "BadRequest", &why));
            }
            Err(Refusal::Denied(denied)) => match denied.into_status(&refused(request)) {
                Ok(status) => response.status = Some(status),
                Err(why) => {
                    let (kind, name) = (&request.kind.kind, &request.name);
                    tracing::error!(kind, name, error = why, "a webhook failed");
                    return failure(StatusCode::INTERNAL_SERVER_ERROR, &why);
                }
            },
        }
        let notes = std::mem::take(&mut *cx.notes.lock());
        response.warnings = notes.warnings;
        response.audit_annotations = notes.audit_annotations;
        let review =
            json!({"apiVersion": ADMISSION, "kind": "AdmissionReview", "response": response});
        ok(review.to_string().into_bytes())
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.routes.keys()).finish()
    }
}

/// Counts a call as under way until it is dropped.
struct InFlight<'a>(&'a watch::Sender<usize>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls -= 1);
    }
}

/// The body of a request, whatever carried it.
type AnyBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BodyError(String);

impl BodyError {
    fn new(cause: hyper::Error) -> Self {
        BodyError(cause.to_string())
    }
}

/// The refusal of what is no review for its form alone.
fn refusal_of_form(head: &Head) -> Option<Response<Bytes>> {
    if head.method != Method::POST {
        let why = "reviews are sent with POST";
        return Some(failure(StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let media_type = head.headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default();
    if media_type.split(';').next().map(str::trim) != Some("application/json") {
        let why = format!("reviews are application/json, not {media_type:?}");
        return Some(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, &why));
    }
    None
}

fn too_large(limit: usize) -> Response<Bytes> {
    let why = format!("the review has more than {limit} bytes");
    failure(StatusCode::PAYLOAD_TOO_LARGE, &why)
}

/// How long the API server waits: `?timeout=10s`, as Go writes a duration.
fn timeout_of(uri: &Uri) -> Option<Duration> {
    let pairs = uri.query()?.split('&');
    let text = pairs
        .filter_map(|pair| pair.strip_prefix("timeout="))
        .next()?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    let given = Duration::try_from_secs_f64(seconds).ok()?;
    (!given.is_zero()).then_some(given)
}

fn refused(request: &AdmissionRequest) -> Refused<'_> {
    Refused {
        group: &request.kind.group,
        kind: &request.kind.kind,
        name: &request.name,
    }
}

fn status(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message,
    })
}

/// A call that failed. The API server shows the message.
fn failure(code: StatusCode, message: &str) -> Response<Bytes> {
    let mut response = ok(status(code, "", message).to_string().into_bytes());
    *response.status_mut() = code;
    response
}

fn ok(body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
