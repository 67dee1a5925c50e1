//! Calls webhooks: the programs that decide about requests (admission) and convert
//! custom resources.
//!
//! [`Webhooks::post`] sends a review to the webhook of a [`ClientConfig`] and returns the body
//! of its response. `outbound/` says how a webhook is reached. Connections are kept between
//! calls, and use HTTP/2 where Kubernetes does (a URL of this machine). Redirects are not
//! followed. An answer over [`ANSWER_LIMIT`] is refused, which Kubernetes does not do.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `HookClient`, `hookClientConfig`, `isLocalHost`
//! - `staging/src/k8s.io/client-go/rest/request.go`: `Do`, `URL`
//! - `staging/src/k8s.io/client-go/rest/with_retry.go`: `IsNextRetry`, `checkWait`

mod answer;
mod config;
pub(crate) mod review;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use sendo_world::{Clock, Moment};

use crate::outbound::{Outbound, Tls, Trust, failure_text};
use answer::HookResponse;

pub(crate) use config::{ClientConfig, Target};

/// How many bytes an answer may have.
const ANSWER_LIMIT: usize = 32 << 20;

/// How often a call is repeated because the answer asks for it (`maxRetries` of client-go).
const RETRIES: usize = 10;

const OUT_OF_TIME: &str = "context deadline exceeded";

/// Why a webhook gave no answer, in the words of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration can reach no webhook: `could not get REST client: …` in admission.
    #[error("{0}")]
    Configuration(String),
    /// The call failed: `failed to call webhook: …` in admission.
    #[error("{0}")]
    Call(String),
    /// The webhook answered without success; the text is as that of a call that failed.
    #[error("{0}")]
    Response(String),
}

/// Calls webhooks.
pub(crate) struct Webhooks {
    outbound: Arc<Outbound>,
}

impl Webhooks {
    /// Calls webhooks over the connections of `outbound`.
    pub(crate) fn new(outbound: &Arc<Outbound>) -> Self {
        Webhooks {
            outbound: Arc::clone(outbound),
        }
    }

    /// Posts a review, and returns the body of the response, which is not empty.
    ///
    /// The call ends after `limit` of the world's clock. Dropping the future cancels it.
    pub(crate) async fn post(
        &self,
        config: &ClientConfig,
        limit: Duration,
        review: Bytes,
    ) -> Result<Bytes, CallError> {
        let call = Call {
            outbound: &self.outbound,
            target: config.target()?,
            ca_bundle: &config.ca_bundle,
            seconds: limit.as_secs() + u64::from(limit.subsec_nanos() > 0),
            until: self.outbound.world().clock().now() + limit,
            review,
        };
        let answer = call.run().await?;
        answer.into_body().map_err(CallError::Response)
    }
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks")
            .field("outbound", &self.outbound)
            .finish()
    }
}

/// One call of a webhook.
struct Call<'a> {
    outbound: &'a Outbound,
    target: Target,
    ca_bundle: &'a [u8],
    /// What the webhook is told of the limit.
    seconds: u64,
    until: Moment,
    review: Bytes,
}

impl Call<'_> {
    /// Calls until there is an answer that does not ask to be called again.
    async fn run(&self) -> Result<HookResponse, CallError> {
        for _ in 0..RETRIES {
            let answer = self.attempt().await?;
            let Some(wait) = answer.retry_after() else {
                return Ok(answer);
            };
            let waited = self.in_time(self.clock().sleep(wait)).await;
            waited.ok_or_else(|| self.failed(OUT_OF_TIME))?;
        }
        self.attempt().await
    }

    async fn attempt(&self) -> Result<HookResponse, CallError> {
        let local = self.outbound.local();
        if let Some(service) = local.find(&self.target.host, self.target.port) {
            let request = self.request(self.path_and_query(), self.review.clone());
            return match self.in_time(service.call(request)).await {
                Some(Some(response)) => self.read(response).await,
                Some(None) => Err(self.failed("EOF")),
                None => Err(self.failed(OUT_OF_TIME)),
            };
        }
        let client = self.outbound.client(&Tls {
            server_name: self.target.server_name(),
            http2: self.target.allows_http2(),
            trust: Trust::Bundle(self.ca_bundle),
            as_front_proxy: false,
        });
        let client = client.map_err(CallError::Configuration)?;
        let sent = self.in_time(async {
            let address = self.address().await?;
            let request = self.request(
                format!("https://{address}{}", self.path_and_query()),
                Full::new(self.review.clone()),
            );
            let response = client.request(request).await;
            response.map_err(|error| failure_text(&error))
        });
        let response = sent.await.ok_or_else(|| self.failed(OUT_OF_TIME))?;
        self.read(response.map_err(|why| self.failed(why))?).await
    }

    /// Reads the body of a response, at most [`ANSWER_LIMIT`] of it.
    async fn read<B>(&self, response: Response<B>) -> Result<HookResponse, CallError>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = response.into_parts();
        let limited = Limited::new(body, ANSWER_LIMIT);
        let body = match self.in_time(limited.collect()).await {
            Some(Ok(body)) => body.to_bytes(),
            Some(Err(error)) => return Err(unreadable(failure_text(&*error))),
            None => return Err(unreadable(OUT_OF_TIME.to_owned())),
        };
        Ok(HookResponse::new(Response::from_parts(head, body)))
    }

    /// The host and port to dial.
    async fn address(&self) -> Result<String, String> {
        match &self.target.service {
            Some((namespace, name)) => {
                let port = self.target.port;
                self.outbound.resolve(namespace, name, port).await
            }
            None => Ok(self.target.authority()),
        }
    }

    fn request<B>(&self, uri: String, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.parse().expect("the target of a call is checked");
        let json = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, json);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static("kube-apiserver-admission"),
        );
        if let Ok(host) = HeaderValue::from_str(&self.target.shown_authority()) {
            headers.insert(HOST, host);
        }
        request
    }

    fn path_and_query(&self) -> String {
        format!("{}?timeout={}s", self.target.path, self.seconds)
    }

    /// What `future` gives, if it does so before the call has to end.
    async fn in_time<F: Future>(&self, future: F) -> Option<F::Output> {
        let clock = self.clock();
        let left = self.until.since(clock.now());
        if left.is_zero() {
            return None;
        }
        clock.timeout(left, future).await
    }

    fn clock(&self) -> &Clock {
        self.outbound.world().clock()
    }

    fn failed(&self, why: impl std::fmt::Display) -> CallError {
        let authority = self.target.shown_authority();
        let path = self.path_and_query();
        CallError::Call(format!("Post \"https://{authority}{path}\": {why}"))
    }
}

fn unreadable(why: String) -> CallError {
    CallError::Call(format!(
        "unexpected error when reading response body. Please retry. Original error: {why}"
    ))
}
