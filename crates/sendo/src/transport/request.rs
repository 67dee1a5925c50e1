//! Requests as values, and the one way they take to the API server.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use sendo_world::{Clock, Moment};

use super::error::{Error, without_values};
use super::guarded::APPLY;
use super::intercept::{Call, Interceptor};
use super::rate::RateLimit;
use super::retry::Retries;
use crate::metrics::ClientMetrics;
use crate::rights::DeclaredRights;

const JSON: &str = "application/json";

/// One request, not yet sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: Method,
    path: String,
    query: String,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
    /// How the program calls the type of the objects, if it has one.
    kind: Option<fn() -> String>,
}

impl Request {
    pub(crate) fn new(method: Method, path: String) -> Self {
        Request {
            method,
            path,
            query: String::new(),
            accept: JSON,
            content_type: JSON,
            body: Bytes::new(),
            kind: None,
        }
    }

    pub(crate) fn get(path: String) -> Self {
        Request::new(Method::GET, path)
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        self.query.push(separator);
        self.query.push_str(name);
        self.query.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.query.push(char::from(byte));
            } else {
                write!(self.query, "%{byte:02X}").expect("a string takes all that is written");
            }
        }
        self
    }

    pub(crate) fn query_if(self, wanted: bool, name: &str, value: &str) -> Self {
        if wanted {
            self.query(name, value)
        } else {
            self
        }
    }

    /// Names the type of the objects, for the error of a request that is not declared.
    pub(crate) fn about(mut self, kind: Option<fn() -> String>) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    pub(crate) fn json<T: serde::Serialize>(mut self, body: &T) -> Result<Self, Error> {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.body = bytes.into(),
            Err(cause) => return Err(self.codec_error(&cause)),
        }
        Ok(self)
    }

    pub(crate) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    fn as_call(&self) -> Call<'_> {
        Call {
            method: &self.method,
            path: &self.path,
            query: self.query.trim_start_matches('?'),
            body: &self.body,
        }
    }

    pub(crate) fn codec_error(&self, cause: &serde_json::Error) -> Error {
        let (request, cause) = (self.to_string(), without_values(cause));
        Error::Codec { request, cause }
    }

    fn to_http(&self, user_agent: &HeaderValue) -> Result<http::Request<Body>, http::Error> {
        let mut request = http::Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{}", self.path, self.query))
            .header(USER_AGENT, user_agent)
            .header(ACCEPT, self.accept)
            // A compressed watch would be held back until a block is full.
            .header(ACCEPT_ENCODING, "identity");
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request.body(Body::from(self.body.clone()))
    }
}

/// Method and path.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Decides whether this program may write now; see [`Client::with_gate`](crate::Client::with_gate).
pub trait WriteGate: Send + Sync {
    /// How long from now writes are allowed, `None` if they are not. A write
    /// that would take longer is cut off.
    fn open_for(&self) -> Option<Duration>;

    /// Called for a write without a response, or whose sender did not wait for it: it may still
    /// take effect, for as long as `within`.
    fn left_unanswered(&self, within: Duration) {
        let _ = within;
    }
}

/// A write in flight. If it is dropped before the response has come, the gate is notified.
struct WriteInFlight<'a> {
    gate: Option<&'a Arc<dyn WriteGate>>,
    clock: &'a Clock,
    deadline: Moment,
}

impl WriteInFlight<'_> {
    fn answered(mut self) {
        self.gate = None;
    }
}

impl Drop for WriteInFlight<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.gate {
            gate.left_unanswered(self.deadline - self.clock.now());
        }
    }
}

/// Sends requests to the API server: headers, time-outs, retries, errors.
#[derive(Clone)]
pub(crate) struct Transport {
    client: kube::Client,
    clock: Clock,
    user_agent: HeaderValue,
    timeout: Duration,
    gate: Option<Arc<dyn WriteGate>>,
    rights: Option<DeclaredRights>,
    retries: Option<Retries>,
    rate: Option<Arc<RateLimit>>,
    metrics: Option<ClientMetrics>,
    interceptors: Vec<Arc<dyn Interceptor>>,
}

impl Transport {
    /// A transport that sends each request once and at once.
    ///
    /// Names that cannot stand in a header are left out of it.
    pub(crate) fn new(client: kube::Client, clock: Clock, name: &str, timeout: Duration) -> Self {
        Transport {
            client,
            clock,
            user_agent: HeaderValue::from_str(name)
                .unwrap_or_else(|_| HeaderValue::from_static("sendo")),
            timeout,
            gate: None,
            rights: None,
            retries: None,
            rate: None,
            metrics: None,
            interceptors: Vec::new(),
        }
    }

    pub(crate) fn with_gate(mut self, gate: Arc<dyn WriteGate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Sends only what is declared.
    pub(crate) fn with_rights(mut self, rights: Option<DeclaredRights>) -> Self {
        self.rights = rights;
        self
    }

    pub(crate) fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = Some(retries);
        self
    }

    pub(crate) fn with_rate(mut self, rate: Option<Arc<RateLimit>>) -> Self {
        self.rate = rate;
        self
    }

    pub(crate) fn with_metrics(mut self, metrics: Option<ClientMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    pub(crate) fn with_interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.interceptors.push(interceptor);
        self
    }

    /// The whole answer. The time-out covers all attempts, and the wait for a turn.
    pub(crate) async fn send(&self, request: &Request) -> Result<Bytes, Error> {
        self.check_declared(request)?;
        for interceptor in &self.interceptors {
            interceptor.before(&request.as_call())?;
        }
        let outcome = match self.limit_of(request) {
            Ok(limit) => self.send_within(request, limit).await,
            Err(refused) => Err(refused),
        };
        for interceptor in &self.interceptors {
            interceptor.after(&request.as_call(), outcome.as_ref().map(|answer| &**answer));
        }
        outcome
    }

    async fn send_within(&self, request: &Request, limit: Duration) -> Result<Bytes, Error> {
        let on_its_way = WriteInFlight {
            gate: self.gate.as_ref().filter(|_| request.is_write()),
            clock: &self.clock,
            deadline: self.clock.now() + limit,
        };
        let attempts = self.attempts(request, limit);
        let outcome = self.within(limit, request, attempts).await;
        if !matches!(outcome, Err(Error::Transport { .. })) {
            on_its_way.answered();
        }
        outcome
    }

    /// An answer that goes on: the time-out covers its beginning only.
    pub(crate) async fn open(&self, request: &Request) -> Result<Body, Error> {
        self.check_declared(request)?;
        let answer = self.within(self.timeout, request, self.answer(request));
        Ok(answer.await?.into_body())
    }

    fn check_declared(&self, request: &Request) -> Result<(), Error> {
        let Some(rights) = &self.rights else {
            return Ok(());
        };
        let line = (&*request.path, request.query.trim_start_matches('?'));
        let applies = request.content_type.starts_with(APPLY);
        Ok(rights.check(&request.method, line, applies, request.kind)?)
    }

    async fn attempts(&self, request: &Request, limit: Duration) -> Result<Bytes, Error> {
        let end = self.clock.now() + limit;
        let mut failed = 0;
        loop {
            if let Some(rate) = &self.rate {
                rate.turn(&self.clock).await;
            }
            let error = match self.attempt(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failed += 1;
            let retries = self.retries.as_ref();
            let wait = retries.and_then(|retries| retries.wait(request, &error, failed));
            // What would come too late is not waited for: the error says more than a time-out.
            let Some(wait) = wait.filter(|wait| self.clock.now() + *wait < end) else {
                return Err(error);
            };
            tracing::debug!(%request, %error, ?wait, "trying again");
            self.clock.sleep(wait).await;
        }
    }

    async fn attempt(&self, request: &Request) -> Result<Bytes, Error> {
        let body = self.answer(request).await?.into_body();
        collect(request, body).await
    }

    fn limit_of(&self, request: &Request) -> Result<Duration, Error> {
        let Some(gate) = self.gate.as_ref().filter(|_| request.is_write()) else {
            return Ok(self.timeout);
        };
        match gate.open_for() {
            Some(left) => Ok(left.min(self.timeout)),
            None => Err(Error::not_the_leader(request)),
        }
    }

    async fn within<T>(
        &self,
        limit: Duration,
        request: &Request,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.clock.timeout(limit, work).await {
            Some(outcome) => outcome,
            None => Err(Error::Transport {
                request: request.to_string(),
                cause: format!("no answer within {limit:?}").into(),
            }),
        }
    }

    async fn answer(&self, request: &Request) -> Result<Response<Body>, Error> {
        let message = request.to_http(&self.user_agent);
        let message = message.map_err(|cause| no_answer(request, cause))?;
        let started = self.clock.now();
        let sent = self.client.send(message).await;
        if let Some(metrics) = &self.metrics {
            let code = sent.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.sent(request.method.as_str(), code, self.clock.now() - started);
        }
        let answer = sent.map_err(|cause| no_answer(request, cause))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (code, wait) = (answer.status().as_u16(), retry_after(answer.headers()));
        let body = collect(request, answer.into_body()).await?;
        let mut status = read_status(code, &body);
        if let Some(seconds) = wait {
            let details = status.details.get_or_insert_with(no_details);
            details.retry_after_seconds = seconds;
        }
        Err(Error::Api(Box::new(status)))
    }
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

/// The seconds of a `Retry-After`; the date that it may be instead no API server sends.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

async fn collect(request: &Request, body: Body) -> Result<Bytes, Error> {
    let collected = body.collect().await;
    let collected = collected.map_err(|cause| no_answer(request, cause))?;
    Ok(collected.to_bytes())
}

fn no_answer(
    request: &Request,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Transport {
        request: request.to_string(),
        cause: cause.into(),
    }
}

/// The Status an answer carries, or one made from plain text: proxies answer
/// with it, and so does the API server where it serves nothing.
fn read_status(code: u16, body: &[u8]) -> Status {
    let parsed = serde_json::from_slice::<Status>(body).ok();
    let status = parsed.filter(|status| status.code != 0 || !status.message.is_empty());
    let mut status = status.unwrap_or_else(|| Status {
        message: String::from_utf8_lossy(body).trim().to_owned(),
        ..Status::default()
    });
    if status.message.is_empty() {
        status.message = format!("the API server answered with status {code}");
    }
    status.code = code;
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_escaped() {
        let request = Request::get("/api/v1/pods".to_owned())
            .query("labelSelector", "app in (a,b)")
            .query_if(false, "limit", "500")
            .query("continue", "x/y+z=");
        assert_eq!(
            request.query,
            "?labelSelector=app%20in%20%28a%2Cb%29&continue=x%2Fy%2Bz%3D"
        );
        assert_eq!(request.to_string(), "GET /api/v1/pods");
    }

    #[test]
    fn an_answer_in_plain_text_is_an_error_with_its_words() {
        let status = read_status(404, b"404 page not found\n");
        assert_eq!((status.code, &*status.message), (404, "404 page not found"));
        assert!(Error::Api(Box::new(status)).is_not_served());
        assert_eq!(
            read_status(502, b"").message,
            "the API server answered with status 502"
        );
    }
}
