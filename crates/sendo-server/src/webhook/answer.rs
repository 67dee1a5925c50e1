//! Reads the HTTP response of a webhook as client-go does.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/client-go/rest/request.go`: `transformResponse`, `newUnstructuredResponseError`, `isTextResponse`, `retryAfterSeconds`, `Into`, `Error`
//! - `staging/src/k8s.io/client-go/rest/with_retry.go`: `checkWait`
//! - `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`: `NewGenericServerResponse`

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Response, StatusCode};
use sendo_apimachinery::go_quote;
use serde_json::Value;

/// How much of a body that is no object may become part of a message.
const TEXT_LIMIT: usize = 2048;

/// What a webhook answered.
#[derive(Debug)]
pub(super) struct HookResponse {
    response: Response<Bytes>,
}

impl HookResponse {
    pub(super) fn new(response: Response<Bytes>) -> Self {
        HookResponse { response }
    }

    /// How long to wait until the next attempt, if the webhook asks for one.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let status = self.response.status();
        if status != StatusCode::TOO_MANY_REQUESTS && status.as_u16() < 500 {
            return None;
        }
        let seconds = self.response.headers().get(RETRY_AFTER)?.to_str().ok()?;
        let seconds: i64 = seconds.parse().ok()?;
        Some(Duration::from_secs(seconds.max(0).unsigned_abs()))
    }

    /// The body of a successful response, or why there is none.
    pub(super) fn into_body(self) -> Result<Bytes, String> {
        let code = self.response.status().as_u16();
        if !(200..=206).contains(&code) {
            return Err(self.refusal(code));
        }
        if self.response.body().is_empty() {
            return Err(format!(
                "0-length response with status code: {code} and content type: {}",
                self.content_type().unwrap_or("application/json")
            ));
        }
        Ok(self.response.into_body())
    }

    /// The message of a response that is no success: that of a Status in it, or one by its code.
    fn refusal(&self, code: u16) -> String {
        let status: Option<Value> = serde_json::from_slice(self.response.body()).ok();
        if let Some(status) = status
            && status["kind"] == "Status"
            && matches!(status["apiVersion"].as_str(), None | Some("v1" | ""))
            && status["status"] == "Failure"
        {
            return status["message"].as_str().unwrap_or_default().to_owned();
        }
        generic_message(code, &self.text())
    }

    /// What the body says, if it is text.
    fn text(&self) -> String {
        let is_text = self.content_type().is_none_or(|media_type| {
            media_type
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("text/")
        });
        if !is_text {
            return "unknown".to_owned();
        }
        let body = self.response.body();
        let shown = &body[..body.len().min(TEXT_LIMIT)];
        String::from_utf8_lossy(shown).trim().to_owned()
    }

    fn content_type(&self) -> Option<&str> {
        let own = self.response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        Some(own).filter(|own| !own.is_empty())
    }
}

fn generic_message(code: u16, text: &str) -> String {
    let fixed = match code {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        406 if matches!(text, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => text,
        405 => "the server does not allow this method on the requested resource",
        422 => "the server rejected our request due to an error in our request",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        500.. => {
            let text = go_quote(text);
            return format!(
                "an error on the server ({text}) has prevented the request from succeeding"
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, media_type: &str, body: &'static str) -> String {
        let response = Response::builder()
            .status(code)
            .header(CONTENT_TYPE, media_type)
            .body(Bytes::from_static(body.as_bytes()));
        HookResponse::new(response.unwrap())
            .into_body()
            .unwrap_err()
    }

    #[test]
    fn a_response_without_success_gives_its_text_or_one_by_its_code() {
        let status = r#"{"kind": "Status", "status": "Failure", "message": "not today"}"#;
        let cases = [
            (
                500,
                "text/plain",
                "broken\n",
                "an error on the server (\"broken\") has prevented the request from succeeding",
            ),
            (
                500,
                "application/json",
                "broken",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (403, "text/plain", "who are you", "who are you"),
            (403, "application/json", status, "not today"),
            (
                302,
                "text/html",
                "over there",
                "the server responded with the status code 302 but did not return more information",
            ),
            (
                200,
                "application/json",
                "",
                "0-length response with status code: 200 and content type: application/json",
            ),
        ];
        for (code, media_type, body, expected) in cases {
            assert_eq!(refusal(code, media_type, body), expected);
        }
    }

    #[test]
    fn only_an_overloaded_or_broken_server_is_called_again() {
        let after = |code: u16, wait: &str| {
            let response = Response::builder().status(code).header(RETRY_AFTER, wait);
            HookResponse::new(response.body(Bytes::new()).unwrap()).retry_after()
        };
        assert_eq!(after(429, "2"), Some(Duration::from_secs(2)));
        assert_eq!(after(503, "0"), Some(Duration::ZERO));
        assert_eq!(after(404, "2"), None);
        assert_eq!(after(503, "soon"), None);
    }
}
