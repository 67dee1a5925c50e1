//! The client for buckets in object stores: check, create, delete.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, S3Action, UrlStyle};
use sendo::Clock;

use crate::api::{Probe, StorageBucketSpec};
use crate::http::{Http, HttpError};

pub use crate::problem::{Health, Problem, Reason};
pub use rusty_s3::Credentials;

/// The region in which S3 creates a bucket by default.
const DEFAULT_REGION: &str = "us-east-1";

/// A client for object stores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    http: Http,
    timeout: Duration,
}

/// The result of creating a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was not there before.
    New,
    /// It was there already, and belongs to these credentials.
    AlreadyOurs,
}

impl Store {
    /// A store client that waits no longer than `timeout` for an answer.
    pub fn new(http: Http, timeout: Duration) -> Self {
        Store { http, timeout }
    }

    /// A bucket, as it is asked for with these credentials, or without any.
    /// Requests are signed for the time of `clock`.
    pub fn bucket<'a>(
        &'a self,
        spec: &'a StorageBucketSpec,
        credentials: Option<&'a Credentials>,
        clock: &'a Clock,
    ) -> Access<'a> {
        Access {
            store: self,
            spec,
            credentials,
            clock,
        }
    }
}

/// A bucket with credentials; see [`Store::bucket`].
///
/// No method takes longer than the store's time-out. All are cancel safe, in
/// that a dropped future leaves nothing running; whether the store has done what
/// was asked is not known then.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    store: &'a Store,
    spec: &'a StorageBucketSpec,
    credentials: Option<&'a Credentials>,
    clock: &'a Clock,
}

impl Access<'_> {
    /// Checks the bucket as its spec says. `object` is the name of the object
    /// that is written, read and deleted if that is the probe.
    pub async fn check(&self, object: &str) -> Health {
        let started = self.clock.now();
        let probe = self.spec.effective_probe();
        let probing = async {
            match probe {
                Probe::Reachable => self.answers().await,
                Probe::List => self.list_one().await,
                Probe::ReadWrite => self.write_read_delete(object).await,
            }
        };
        match self.in_time(probing).await {
            Ok(()) => Health::Healthy {
                latency: self.clock.now() - started,
                probe,
            },
            Err(problem) => Health::Unhealthy(problem),
        }
    }

    /// Creates the bucket.
    pub async fn create(&self) -> Result<Created, Problem> {
        let bucket = self.bucket()?;
        let signed = bucket
            .create_bucket(self.managing_credentials()?)
            .sign_with_time(self.lifetime(), &self.clock.wall());
        let body = match self.spec.region.as_str() {
            DEFAULT_REGION => String::new(),
            region => format!(
                "<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            ),
        };
        let answer = self.in_time(self.send(Method::PUT, signed.as_str(), body.into()));
        let answer = answer.await?;
        let text = String::from_utf8_lossy(answer.body());
        match (answer.status(), element(&text, "Code").as_deref()) {
            (status, _) if status.is_success() => Ok(Created::New),
            (StatusCode::CONFLICT, Some("BucketAlreadyOwnedByYou")) => Ok(Created::AlreadyOurs),
            (StatusCode::CONFLICT, Some("BucketAlreadyExists")) => {
                let message = "a bucket of this name belongs to somebody else in this store";
                Err(Reason::NameTaken.because(message))
            }
            _ => Err(refusal(&answer)),
        }
    }

    /// Deletes the bucket, which must be empty but for `object`, which a probe
    /// that was cut off may have left. One that is not there is fine.
    pub async fn delete(&self, object: &str) -> Result<(), Problem> {
        match self.delete_bucket().await {
            Err(problem) if problem.reason == Reason::NotEmpty => {
                self.in_time(self.delete_object(object)).await?;
                self.delete_bucket().await
            }
            deleted => deleted,
        }
    }

    async fn delete_bucket(&self) -> Result<(), Problem> {
        let bucket = self.bucket()?;
        let signed = bucket
            .delete_bucket(self.managing_credentials()?)
            .sign_with_time(self.lifetime(), &self.clock.wall());
        let answer = self.in_time(self.send(Method::DELETE, signed.as_str(), Bytes::new()));
        let answer = answer.await?;
        let text = String::from_utf8_lossy(answer.body());
        match (answer.status(), element(&text, "Code").as_deref()) {
            (status, _) if status.is_success() => Ok(()),
            (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => Ok(()),
            (StatusCode::CONFLICT, Some("BucketNotEmpty")) => {
                Err(Reason::NotEmpty.because("the bucket has something in it, and stays"))
            }
            _ => Err(refusal(&answer)),
        }
    }

    /// Whether the server sends any HTTP response.
    async fn answers(&self) -> Result<(), Problem> {
        let endpoint = self.bucket()?.base_url().clone();
        self.send(Method::GET, endpoint.as_str(), Bytes::new())
            .await
            .map(drop)
    }

    async fn list_one(&self) -> Result<(), Problem> {
        let bucket = self.bucket()?;
        let mut list = bucket.list_objects_v2(self.credentials);
        list.with_max_keys(1);
        let url = list.sign_with_time(self.lifetime(), &self.clock.wall());
        let answer = self.send(Method::GET, url.as_str(), Bytes::new()).await?;
        let body = succeeded(&answer)?;
        match ListObjectsV2::parse_response(&String::from_utf8_lossy(body)) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Reason::BadAnswer.because("the store's answer is not a listing of a bucket"))
            }
        }
    }

    /// The object has one name, so that one left behind by a crash is written over.
    async fn write_read_delete(&self, object: &str) -> Result<(), Problem> {
        let bucket = self.bucket()?;
        let now = self.clock.wall();
        let written = Bytes::from(format!("written at {now}"));
        let put = bucket.put_object(self.credentials, object);
        let put = put.sign_with_time(self.lifetime(), &now);
        succeeded(
            &self
                .send(Method::PUT, put.as_str(), written.clone())
                .await?,
        )?;

        let get = bucket.get_object(self.credentials, object);
        let get = get.sign_with_time(self.lifetime(), &now);
        let read = self.send(Method::GET, get.as_str(), Bytes::new()).await?;
        let is_same = *succeeded(&read)? == written;

        self.delete_object(object).await?;
        match is_same {
            true => Ok(()),
            false => Err(Reason::BadAnswer.because("what was read is not what was written")),
        }
    }

    async fn delete_object(&self, object: &str) -> Result<(), Problem> {
        let bucket = self.bucket()?;
        let delete = bucket.delete_object(self.credentials, object);
        let delete = delete.sign_with_time(self.lifetime(), &self.clock.wall());
        let answer = self.send(Method::DELETE, delete.as_str(), Bytes::new());
        succeeded(&answer.await?).map(drop)
    }

    fn bucket(&self) -> Result<Bucket, Problem> {
        let endpoint = self.spec.endpoint.parse();
        let endpoint = endpoint.map_err(|error| self.bad_endpoint(format!("{error}")))?;
        let (name, region) = (self.spec.bucket.clone(), self.spec.region.clone());
        let bucket = Bucket::new(endpoint, UrlStyle::Path, name, region);
        bucket.map_err(|error| self.bad_endpoint(error.to_string()))
    }

    fn bad_endpoint(&self, cause: String) -> Problem {
        Reason::BadEndpoint.because(format!("{}: {cause}", self.spec.endpoint))
    }

    fn managing_credentials(&self) -> Result<&Credentials, Problem> {
        let missing =
            || Reason::BadCredentials.because("a bucket is managed with credentials only");
        self.credentials.ok_or_else(missing)
    }

    fn lifetime(&self) -> Duration {
        self.store.http.signature_lifetime()
    }

    async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let limit = self.store.timeout;
        let late = || {
            let endpoint = &self.spec.endpoint;
            Err(Reason::TimedOut.because(format!("{endpoint} did not answer within {limit:?}")))
        };
        self.clock.timeout(limit, asking).await.unwrap_or_else(late)
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, Problem> {
        let request = Request::builder().method(method).uri(url);
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| self.bad_endpoint(error.to_string()))?;
        let endpoint = &self.spec.endpoint;
        let sent = self.store.http.send(request).await;
        sent.map_err(|error| match error {
            HttpError::Unreachable(cause) => {
                Reason::Unreachable.because(format!("{endpoint} cannot be reached: {cause}"))
            }
            HttpError::BadAnswer(cause) => Reason::BadAnswer.because(format!(
                "{endpoint} does not answer as an S3 store does: {cause}"
            )),
            HttpError::Refused(refused) => Reason::EndpointRefused.because(refused.to_string()),
        })
    }
}

/// The body of a successful response.
fn succeeded(answer: &Response<Bytes>) -> Result<&Bytes, Problem> {
    match answer.status().is_success() {
        true => Ok(answer.body()),
        false => Err(refusal(answer)),
    }
}

/// The problem of a failed response.
fn refusal(answer: &Response<Bytes>) -> Problem {
    let body = String::from_utf8_lossy(answer.body());
    let status = answer.status();
    let code = element(&body, "Code");
    let reason = match (status, code.as_deref()) {
        // Any web server may send 404; only a store has `NoSuchBucket` as the reason.
        (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => Reason::NoSuchBucket,
        (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _) => Reason::AccessDenied,
        _ => Reason::BadAnswer,
    };
    let mut message = format!("the store answers {status}");
    for detail in [code, element(&body, "Message")].into_iter().flatten() {
        message = format!("{message}: {detail}");
    }
    reason.because(message)
}

/// The text of an element of an error document, which has no two of one name.
fn element<'a>(document: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    if !text.contains('&') {
        return Some(text.into());
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    let plain = entities
        .iter()
        .fold(text.to_owned(), |text, (entity, plain)| {
            text.replace(entity, plain)
        });
    Some(plain.into())
}

#[cfg(test)]
mod tests;
