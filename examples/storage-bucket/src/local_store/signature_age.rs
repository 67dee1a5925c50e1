//! Checks the time of signatures.

use http::Uri;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};
use sendo::{Clock, Timestamp};

/// The clock skew that S3 allows.
const TOLERANCE: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// Refuses requests that are not signed, or signed for another time than this clock's.
pub(super) struct SignatureAge {
    clock: Clock,
}

impl SignatureAge {
    pub(super) fn new(clock: &Clock) -> Self {
        SignatureAge {
            clock: clock.clone(),
        }
    }
}

#[async_trait::async_trait]
impl S3Access for SignatureAge {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        if cx.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "requests must be signed"));
        }
        let header = cx.headers().get("x-amz-date");
        let signed = header
            .and_then(|date| date.to_str().ok())
            .or_else(|| query_value(cx.uri(), "X-Amz-Date"))
            .and_then(signing_time)
            .ok_or_else(|| s3_error!(AccessDenied, "the signature has no time"))?;
        let age = self.clock.wall().duration_since(signed).unsigned_abs();
        if age > TOLERANCE {
            return Err(s3_error!(
                RequestTimeTooSkewed,
                "the request was signed for {signed}, which is too far from the store's time"
            ));
        }
        Ok(())
    }
}

fn query_value<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut pairs = uri.query()?.split('&').filter_map(|p| p.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The time in an `X-Amz-Date`, such as `20260101T000000Z`.
fn signing_time(date: &str) -> Option<Timestamp> {
    date.parse().ok()
}
