//! Turns the answer of a pipeline step into an HTTP response.

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};
use sendo_apimachinery::schema::Types;
use sendo_apimachinery::{Status, protobuf};
use serde_json::Value;

use crate::read::view::ListStream;
use crate::read::yaml;
use crate::request::Request;
use crate::request::body::Body;
use crate::request::negotiate::{self, Encoding, Form};

/// An answer, before it is written in the form that was agreed on.
#[derive(Debug)]
pub(crate) enum ApiResponse {
    /// A JSON document.
    Json(StatusCode, Bytes),
    /// A list, a JSON document too, which may be long.
    List(ListStream),
    /// A JSON document whose media type says more, as aggregated discovery's does.
    Typed(StatusCode, &'static str, Bytes),
    /// Plain text.
    Text(StatusCode, String),
    /// A stream of watch events in the form agreed on.
    Stream(Body),
    /// Nothing but a code.
    Empty(StatusCode),
    /// A document that clients may keep as long as its tag stays.
    Tagged {
        /// Names this very content.
        tag: String,
        /// What it is written in.
        media_type: &'static str,
        /// The document.
        bytes: Bytes,
    },
    /// Word that too many others are served, and when to come again.
    Busy,
    /// A redirect to another path.
    Redirect(String),
    /// What another server answered.
    Forwarded(Box<Response<Body>>),
}

impl ApiResponse {
    /// 200 with a document.
    pub(crate) fn document(value: &Value) -> ApiResponse {
        ApiResponse::Json(StatusCode::OK, to_bytes(value))
    }

    /// What a path answers whose API is served elsewhere, and cannot be reached.
    pub(crate) fn unavailable() -> ApiResponse {
        ApiResponse::Text(
            StatusCode::SERVICE_UNAVAILABLE,
            "service unavailable\n".to_owned(),
        )
    }

    /// The answer of a path that is in no API.
    pub(crate) fn page_not_found() -> ApiResponse {
        ApiResponse::Text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
    }
}

pub(crate) fn to_bytes(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("a JSON value writes into memory")
        .into()
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static(protobuf::MEDIA_TYPE);
const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Writes an answer as HTTP, in the form that the client requested.
pub(crate) fn respond(
    types: &Types,
    request: &Request,
    answer: Result<ApiResponse, Status>,
) -> Response<Body> {
    let mut response = match answer {
        Ok(ApiResponse::Json(code, bytes)) => document(types, code, bytes, request.form, request),
        Ok(ApiResponse::List(pieces)) => list(types, pieces, request),
        Ok(ApiResponse::Typed(code, media_type, bytes)) => {
            with(code, HeaderValue::from_static(media_type), bytes.into())
        }
        Ok(ApiResponse::Text(code, text)) => with(code, TEXT, text.into()),
        Ok(ApiResponse::Busy) => {
            let text = "Too many requests, please try again later.\n".to_owned();
            let mut response = with(StatusCode::TOO_MANY_REQUESTS, TEXT, text.into());
            let headers = response.headers_mut();
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        Ok(ApiResponse::Stream(body)) if request.form.encoding == Encoding::Protobuf => {
            with(StatusCode::OK, PROTOBUF_STREAM, body)
        }
        Ok(ApiResponse::Stream(body)) => with(StatusCode::OK, JSON, body),
        Ok(ApiResponse::Empty(code)) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = code;
            response
        }
        Ok(ApiResponse::Tagged {
            tag,
            media_type,
            bytes,
        }) => tagged(request, &tag, media_type, bytes),
        Ok(ApiResponse::Redirect(to)) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            if let Ok(to) = HeaderValue::from_str(&to) {
                response.headers_mut().insert(http::header::LOCATION, to);
            }
            response
        }
        Ok(ApiResponse::Forwarded(response)) => *response,
        Err(status) => failure(types, request, &status),
    };
    for warning in request.warnings() {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// What a GET would be answered with, as the answer to a HEAD: without its body, which
/// HTTP/2 would send.
pub(crate) fn head_of(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let length = http_body::Body::size_hint(&body).exact();
    if let Some(length) = length.filter(|_| head.status != StatusCode::NOT_MODIFIED) {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

/// A list, sent piece by piece where it can be.
fn list(types: &Types, pieces: ListStream, request: &Request) -> Response<Body> {
    let form = request.form;
    let is_plain = form.encoding == Encoding::Json && !form.pretty && !wants_lines(request);
    if is_plain && !pieces.is_one() {
        return with(StatusCode::OK, JSON, Body::stream(stream::iter(pieces)));
    }
    let whole: Vec<Bytes> = pieces.collect();
    let whole = match &*whole {
        [one] => one.clone(),
        several => several.concat().into(),
    };
    document(types, StatusCode::OK, whole, form, request)
}

/// A document with its tag, or only word that the client's copy is still good.
fn tagged(request: &Request, tag: &str, media_type: &'static str, bytes: Bytes) -> Response<Body> {
    let tag = format!("\"{tag}\"");
    let known = request.header(http::header::IF_NONE_MATCH);
    let is_known = known == "*"
        || known
            .split(',')
            .any(|own| own.trim().trim_start_matches("W/") == tag);
    let mut response = if is_known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let media_type = HeaderValue::from_static(media_type);
        with(StatusCode::OK, media_type, bytes.into())
    };
    // The tag is one for all encodings.
    let accept = HeaderValue::from_static("Accept");
    response.headers_mut().insert(http::header::VARY, accept);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(http::header::ETAG, tag);
    }
    // What a hash names never changes.
    if request.query.first("hash").is_some() {
        let for_ever = HeaderValue::from_static("public, immutable");
        response
            .headers_mut()
            .insert(http::header::CACHE_CONTROL, for_ever);
    }
    response
}

/// A refusal, as a Status in what of the accepted forms can carry one.
fn failure(types: &Types, request: &Request, status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let form = negotiate::status(request.accept().as_deref());
    let mut response = document(types, code, to_bytes(&status.to_json()), form, request);
    let retry = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, retry.into());
    }
    response
}

fn document(
    types: &Types,
    code: StatusCode,
    bytes: Bytes,
    form: Form,
    request: &Request,
) -> Response<Body> {
    match form.encoding {
        Encoding::Protobuf => match protobuf::encode(types, &parse(&bytes)) {
            Some(message) => with(code, PROTOBUF, message.into()),
            None => with(code, JSON, bytes.into()),
        },
        Encoding::Yaml => with(code, YAML, yaml::write(&parse(&bytes)).into()),
        Encoding::Json if form.pretty || wants_lines(request) => {
            let text =
                serde_json::to_vec_pretty(&parse(&bytes)).expect("a JSON value writes into memory");
            with(code, JSON, text.into())
        }
        Encoding::Json => with(code, JSON, bytes.into()),
    }
}

fn parse(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).expect("documents are JSON of ours")
}

/// `pretty` says so; without it, the tools people type at a prompt get lines.
fn wants_lines(request: &Request) -> bool {
    request.query.optional_flag("pretty").unwrap_or_else(|| {
        let agent = request.header(http::header::USER_AGENT);
        ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|tool| agent.starts_with(tool))
    })
}

fn with(code: StatusCode, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// A warning's text as a quoted string of HTTP.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request {
        let mut builder = http::Request::get(uri);
        for (key, value) in headers {
            builder = builder.header(*key, *value);
        }
        Request::new(&builder.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_failure_says_when_to_come_again() {
        let request = request("/api/v1/nodes", &[]);
        let status = Status::too_many_requests("busy", 3);
        let response = respond(&Types::builtin(), &request, Err(status));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "3");
    }

    #[test]
    fn warnings_are_quoted() {
        let request = request("/api/v1/nodes", &[]);
        request.warn("unknown field \"x\"");
        let answer = Ok(ApiResponse::Empty(StatusCode::OK));
        let response = respond(&Types::builtin(), &request, answer);
        assert_eq!(
            response.headers()["warning"],
            "299 - \"unknown field \\\"x\\\"\""
        );
    }

    #[test]
    fn lines_are_for_those_who_ask_or_read_at_a_prompt() {
        assert!(wants_lines(&request("/a?pretty=true", &[])));
        assert!(wants_lines(&request("/a", &[("user-agent", "curl/8")])));
        assert!(!wants_lines(&request(
            "/a?pretty=false",
            &[("user-agent", "curl/8")]
        )));
        assert!(!wants_lines(&request(
            "/a",
            &[("user-agent", "kubectl/v1.36")]
        )));
    }
}
