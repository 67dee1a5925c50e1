//! A request: its path, query, options, body and user, read and checked.

pub(crate) mod audit_annotations;
pub(crate) mod body;
pub(crate) mod conversions;
pub(crate) mod delete_options;
pub(crate) mod in_flight;
pub(crate) mod negotiate;
pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod upgrade;
pub(crate) mod user;
pub(crate) mod warnings;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::{Mutex, MutexGuard};
use sendo_apimachinery::{FieldSelector, Status};
use serde_json::Value;

use self::audit_annotations::AuditAnnotations;
use self::conversions::Conversions;
use self::path::{Target, Verb};
use crate::request::negotiate::Form;
use crate::request::query::Query;
use crate::request::upgrade::Upgrade;
use crate::request::user::User;
use crate::request::warnings::Warnings;

pub(crate) use sendo_apimachinery::decode::BODY_LIMIT;

/// A request, taken apart and authenticated.
#[derive(Debug)]
pub(crate) struct Request {
    /// The HTTP method. What is done with a resource goes by [`Request::verb`] alone.
    pub(crate) method: Method,
    /// Path and query as they were sent.
    pub(crate) uri: Uri,
    /// The path, escapes resolved.
    pub(crate) path: String,
    /// What the path names.
    pub(crate) target: Target,
    /// The verb. [`Verb::Unknown`] for paths that name no resource.
    pub(crate) verb: Verb,
    /// What a collection is narrowed to; empty for everything else.
    pub(crate) fields: FieldSelector,
    /// The query parameters.
    pub(crate) query: Query,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The address that the request came from; none for one of this process.
    pub(crate) peer: Option<IpAddr>,
    /// The connection, if it can become what the request asks for instead of HTTP.
    pub(crate) upgrade: Option<Upgrade>,
    /// Whether the audit log records the request.
    pub(crate) is_audited: bool,
    /// The user, once the request is authenticated.
    pub(crate) user: User,
    /// The body; empty until the request is allowed.
    pub(crate) body: Bytes,
    /// The form of the answer; JSON until it is agreed on.
    pub(crate) form: Form,
    warnings: Mutex<Warnings>,
    annotations: Mutex<AuditAnnotations>,
    /// The object that was sent, if the request is recorded.
    sent_object: Mutex<Option<Value>>,
    /// How long webhooks took, in nanoseconds.
    webhook_time: AtomicU64,
    conversions: Mutex<Conversions>,
}

impl Request {
    /// Takes the head of a request apart. Its user is anonymous until authentication says more.
    pub(crate) fn new(head: &http::request::Parts) -> Request {
        let raw = head.uri.path();
        // One with a broken escape is refused before it is used.
        let path = path::decode(raw).unwrap_or_else(|| raw.to_owned());
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let target = Target::parse(&path);
        let (verb, fields) = match &target {
            Target::Resource(resource) => {
                let verb = resource.verb(&head.method, &query);
                (verb, resource.fields(verb, &query))
            }
            Target::Other => (Verb::Unknown, FieldSelector::default()),
        };
        Request {
            method: head.method.clone(),
            uri: head.uri.clone(),
            path,
            target,
            verb,
            fields,
            query,
            headers: head.headers.clone(),
            peer: None,
            upgrade: head.extensions.get().cloned(),
            is_audited: false,
            user: User::anonymous(),
            body: Bytes::new(),
            form: Form::JSON,
            warnings: Mutex::default(),
            annotations: Mutex::default(),
            sent_object: Mutex::default(),
            webhook_time: AtomicU64::new(0),
            conversions: Mutex::default(),
        }
    }

    /// Objects that were converted for the tracking of field managers.
    pub(crate) fn conversions(&self) -> MutexGuard<'_, Conversions> {
        self.conversions.lock()
    }

    /// A request that the server makes of itself.
    pub(crate) fn internal() -> Request {
        let (head, ()) = http::Request::new(()).into_parts();
        Request::new(&head)
    }

    /// Whether the path has an escape that stands for nothing.
    pub(crate) fn is_misspelt(&self) -> bool {
        let path = self.uri.path();
        path.contains('%') && path::decode(path).is_none()
    }

    /// Whether a body is of interest. The head of a request that only reads says all, so
    /// that it need not wait for the rest.
    pub(crate) fn has_use_for_a_body(&self) -> bool {
        match self.verb {
            Verb::Create | Verb::Update | Verb::Patch => true,
            Verb::Delete | Verb::DeleteCollection => true,
            Verb::Get | Verb::List | Verb::Watch | Verb::Proxy | Verb::Unknown => false,
        }
    }

    /// Whether the connection is to become something else than HTTP.
    pub(crate) fn asks_for_upgrade(&self) -> bool {
        let values = self.headers.get_all(http::header::CONNECTION);
        let mut texts = values.iter().filter_map(|value| value.to_str().ok());
        texts.any(|text| text.to_ascii_lowercase().contains("upgrade"))
    }

    /// Reads the body, at most [`BODY_LIMIT`] of it.
    pub(crate) async fn read_body<B>(&mut self, body: B) -> Result<(), Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limited = std::pin::pin!(Limited::new(body, BODY_LIMIT));
        self.body = match limited.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let cause = format_args!("limit is {BODY_LIMIT}");
                return Err(Status::request_entity_too_large(cause));
            }
            Err(error) => {
                return Err(Status::bad_request(format!(
                    "the body could not be read: {error}"
                )));
            }
        };
        Ok(())
    }

    /// A header's text; empty if it is absent or no text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Replaces a header, unless the text cannot be one.
    pub(crate) fn set_header(&mut self, name: HeaderName, text: &str) {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.insert(name, value);
        }
    }

    /// The `Accept` header, several joined to one.
    pub(crate) fn accept(&self) -> Option<String> {
        let values: Vec<&str> = self
            .headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// The media type of the body, in lower case and without parameters; `None` if it cannot be read.
    ///
    /// A request without the header is one of JSON.
    pub(crate) fn content_type(&self) -> Option<String> {
        let header = self.header(CONTENT_TYPE);
        if header.is_empty() {
            return Some("application/json".to_owned());
        }
        media_type(header)
    }

    /// Adds a `Warning` to the answer, whatever that will be. Each text is sent once, and
    /// no more of them than headers have room for.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock();
        warnings.add(text.into());
    }

    /// Notes something for the audit event of the request. The first value of a key stays.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.lock().add(key.into(), value.into());
    }

    /// The audit annotations so far.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        self.annotations.lock().all().clone()
    }

    /// Keeps the object that was sent for the audit log, if that records the request.
    pub(crate) fn keep_sent_object(&self, object: &Value) {
        if self.is_audited {
            *self.sent_object.lock() = Some(object.clone());
        }
    }

    /// Takes the object that was kept for the audit log.
    pub(crate) fn take_sent_object(&self) -> Option<Value> {
        self.sent_object.lock().take()
    }

    /// Adds to the time that webhooks took, which is not the server's own.
    pub(crate) fn add_webhook_time(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.webhook_time.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How long webhooks took.
    pub(crate) fn webhook_time(&self) -> Duration {
        Duration::from_nanos(self.webhook_time.load(Ordering::Relaxed))
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock();
        warnings.sent().to_vec()
    }
}

/// Reads `type/subtype; key=value` as Go's `mime.ParseMediaType`, strict in its parameters.
fn media_type(header: &str) -> Option<String> {
    let mut parts = header.split(';');
    let media = parts.next()?.trim().to_ascii_lowercase();
    let (kind, subkind) = media.split_once('/')?;
    let token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let parameters_are_pairs = parts.all(|part| {
        let part = part.trim();
        part.is_empty()
            || part
                .split_once('=')
                .is_some_and(|(key, value)| token(key.trim()) && !value.is_empty())
    });
    (token(kind) && token(subkind) && parameters_are_pairs).then_some(media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_strictly() {
        assert_eq!(
            media_type("APPLICATION/JSON; charset=utf-8").as_deref(),
            Some("application/json")
        );
        assert_eq!(media_type("application/json;bad"), None);
        assert_eq!(media_type(";;"), None);
        assert_eq!(media_type("text"), None);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let (head, ()) = http::Request::post("/api/v1/nodes")
            .body(())
            .unwrap()
            .into_parts();
        let mut request = Request::new(&head);
        let body = http_body_util::Full::new(Bytes::from(vec![b' '; BODY_LIMIT + 1]));
        let status = request.read_body(body).await.unwrap_err();
        assert_eq!(status.message, "Request entity too large: limit is 3145728");
        let body = http_body_util::Full::new(Bytes::from(vec![b' '; BODY_LIMIT]));
        request.read_body(body).await.unwrap();
    }

    #[test]
    fn a_warning_is_sent_once() {
        let (head, ()) = http::Request::get("/api/v1/nodes")
            .body(())
            .unwrap()
            .into_parts();
        let request = Request::new(&head);
        request.warn("a");
        request.warn("a");
        assert_eq!(request.warnings(), ["a"]);
    }
}
