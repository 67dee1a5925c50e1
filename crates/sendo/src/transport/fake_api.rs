//! An API server whose every answer a test gives by hand.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Pieces = mpsc::UnboundedReceiver<Result<Frame<Bytes>, Error>>;
type Answer = Response<StreamBody<Pieces>>;

/// The requests of a client, in the order in which they come.
pub(crate) struct FakeApi {
    calls: mpsc::UnboundedReceiver<Call>,
}

/// A request that waits for its answer.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    answer: oneshot::Sender<Answer>,
}

impl FakeApi {
    /// A client, and what it asks.
    pub(crate) fn new() -> (kube::Client, FakeApi) {
        let (sender, calls) = mpsc::unbounded();
        let service = tower::service_fn(move |request: Request<Body>| {
            let sender = sender.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (answer, answered) = oneshot::channel();
                sender
                    .unbounded_send(Call {
                        method: head.method,
                        path: head.uri.path().to_owned(),
                        query: head.uri.query().unwrap_or_default().to_owned(),
                        headers: head.headers,
                        body,
                        answer,
                    })
                    .map_err(|_| Error::from("the test is over"))?;
                answered.await.map_err(|_| Error::from("connection reset"))
            }
        });
        (kube::Client::new(service, "default"), FakeApi { calls })
    }

    /// The next request, which must be this one.
    pub(crate) async fn expect(&mut self, method: Method, path: &str) -> Call {
        let call = self.calls.next().await.expect("the client lives");
        assert_eq!(
            (&call.method, &*call.path),
            (&method, path),
            "{}",
            call.query
        );
        call
    }

    pub(crate) async fn expect_list(&mut self, path: &str) -> Call {
        let call = self.expect(Method::GET, path).await;
        assert!(!call.has("watch=true"), "{}", call.query);
        call
    }

    pub(crate) async fn expect_watch(&mut self, path: &str) -> Call {
        let call = self.expect(Method::GET, path).await;
        assert!(call.has("watch=true"), "{}", call.query);
        call
    }

    /// Fails if a request comes within `time`.
    pub(crate) async fn expect_silence(&mut self, time: Duration) {
        if let Ok(call) = tokio::time::timeout(time, self.calls.next()).await {
            let call = call.expect("the client lives");
            panic!("unexpected {} {}?{}", call.method, call.path, call.query);
        }
    }
}

impl Call {
    /// Whether the query has this parameter.
    pub(crate) fn has(&self, parameter: &str) -> bool {
        self.query.split('&').any(|found| found == parameter)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    pub(crate) fn answer(self, code: u16, body: impl Display) {
        self.open(code).raw(body);
    }

    /// Answers with a Status.
    pub(crate) fn fail(self, code: u16, reason: &str, message: &str) {
        let details = json!({"name": "x"});
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                            "reason": reason, "message": message, "details": details});
        self.answer(code, status);
    }

    /// Answers with a Status that asks to wait.
    pub(crate) fn fail_for(self, code: u16, reason: &str, message: &str, seconds: u32) {
        let details = json!({"name": "x", "retryAfterSeconds": seconds});
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                            "reason": reason, "message": message, "details": details});
        self.answer(code, status);
    }

    /// Answers as an API server that has too much to do to look at the request.
    pub(crate) fn turn_away(self, seconds: u32) {
        let answer = self.begin(429, Some(seconds));
        answer.raw("Too many requests, please try again later.\n");
    }

    /// Answers with a whole list.
    pub(crate) fn list(self, version: u64, items: &[Value]) {
        self.page(version, "", items);
    }

    pub(crate) fn page(self, version: u64, next: &str, items: &[Value]) {
        let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
        self.answer(200, json!({"metadata": metadata, "items": items}));
    }

    /// Closes the connection without an answer.
    pub(crate) fn reset(self) {}

    /// Begins an answer that goes on.
    pub(crate) fn open(self, code: u16) -> Stream {
        self.begin(code, None)
    }

    fn begin(self, code: u16, retry_after: Option<u32>) -> Stream {
        let (pieces, receiver) = mpsc::unbounded();
        let mut answer = Response::new(StreamBody::new(receiver));
        *answer.status_mut() = http::StatusCode::from_u16(code).expect("a status code");
        if let Some(seconds) = retry_after {
            answer.headers_mut().insert("retry-after", seconds.into());
        }
        // A client that has given up does not want it.
        let _ = self.answer.send(answer);
        Stream { pieces }
    }
}

/// An answer that goes on until it is dropped.
pub(crate) struct Stream {
    pieces: mpsc::UnboundedSender<Result<Frame<Bytes>, Error>>,
}

impl Stream {
    pub(crate) fn raw(&self, text: impl Display) {
        let frame = Frame::data(Bytes::from(text.to_string()));
        let _ = self.pieces.unbounded_send(Ok(frame));
    }

    /// An event of a watch.
    pub(crate) fn event(&self, kind: &str, object: Value) {
        self.raw(format!("{}\n", json!({"type": kind, "object": object})));
    }

    /// Breaks the connection.
    pub(crate) fn cut(self) {
        let _ = self.pieces.unbounded_send(Err("connection reset".into()));
    }
}
