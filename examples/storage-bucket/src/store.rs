//! A bucket's health, asked of its object store.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, S3Action, UrlStyle};
use sendo::{Clock, Timestamp};

use crate::api::StorageBucketSpec;
use crate::http::{Http, HttpError};

pub use rusty_s3::Credentials;

/// A message goes into the resource's status, whatever a store writes.
const LONGEST_MESSAGE: usize = 300;

/// Asks object stores about buckets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    http: Http,
    timeout: Duration,
}

/// What a check of a bucket has found.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// The bucket is there and may be listed.
    Healthy {
        /// From the beginning of the check to the store's answer.
        latency: Duration,
    },
    /// Something is wrong.
    Unhealthy(Problem),
}

impl Health {
    /// What is wrong, if something is.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Health::Healthy { .. } => None,
            Health::Unhealthy(problem) => Some(problem),
        }
    }

    /// What was found, in a word: `Healthy`, or the reason of the problem.
    pub fn reason(&self) -> String {
        match self.problem() {
            None => "Healthy".to_owned(),
            Some(problem) => problem.reason.to_string(),
        }
    }

    /// What was found, in a sentence.
    pub fn message(&self) -> &str {
        match self.problem() {
            None => "the bucket is there and can be listed",
            Some(problem) => &problem.message,
        }
    }
}

/// What is wrong with a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// For programs.
    pub reason: Reason,
    /// For people, in a sentence.
    pub message: String,
}

/// What kind of [`Problem`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No connection to the store could be made, or it broke.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The store has no bucket of that name.
    NoSuchBucket,
    /// The store does not let these credentials, or nobody without any, list the bucket.
    AccessDenied,
    /// The answer is not one that an S3 store gives, or tells of a failure of its own.
    BadAnswer,
    /// The credentials that the resource names cannot be used.
    BadCredentials,
    /// The endpoint of the resource is no URL.
    BadEndpoint,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Reason {
    /// A problem of this kind.
    pub(crate) fn because(self, message: impl Into<String>) -> Problem {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Problem {
            reason: self,
            message,
        }
    }
}

impl Store {
    /// A store client that waits no longer than `timeout` for an answer.
    pub fn new(http: Http, timeout: Duration) -> Self {
        Store { http, timeout }
    }

    /// Checks a bucket: asks its store for the name of one object in it.
    ///
    /// Requests are signed for the time of `clock`, or not signed without
    /// credentials. Takes no longer than the time-out. Cancel safe.
    pub async fn check(
        &self,
        bucket: &StorageBucketSpec,
        credentials: Option<&Credentials>,
        clock: &Clock,
    ) -> Health {
        let started = clock.now();
        let listing = self.list_one(bucket, credentials, clock.wall());
        match clock.timeout(self.timeout, listing).await {
            Some(Ok(())) => Health::Healthy {
                latency: clock.now() - started,
            },
            Some(Err(problem)) => Health::Unhealthy(problem),
            None => Health::Unhealthy(Reason::TimedOut.because(format!(
                "{} did not answer within {:?}",
                bucket.endpoint, self.timeout
            ))),
        }
    }

    async fn list_one(
        &self,
        spec: &StorageBucketSpec,
        credentials: Option<&Credentials>,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let bad_endpoint =
            |cause: String| Reason::BadEndpoint.because(format!("{}: {cause}", spec.endpoint));
        let endpoint = spec.endpoint.parse();
        let endpoint = endpoint.map_err(|error| bad_endpoint(format!("{error}")))?;
        let bucket = Bucket::new(
            endpoint,
            UrlStyle::Path,
            spec.bucket.clone(),
            spec.region.clone(),
        );
        let bucket = bucket.map_err(|error| bad_endpoint(error.to_string()))?;

        let mut list = bucket.list_objects_v2(credentials);
        list.with_max_keys(1);
        let url = list.sign_with_time(self.http.signature_lifetime(), &now);
        let request = Request::get(url.as_str()).body(Full::default());
        let request = request.map_err(|error| bad_endpoint(error.to_string()))?;

        match self.http.send(request).await {
            Ok(answer) => judge(&answer),
            Err(HttpError::Unreachable(cause)) => Err(Reason::Unreachable
                .because(format!("{} cannot be reached: {cause}", spec.endpoint))),
            Err(HttpError::BadAnswer(cause)) => Err(Reason::BadAnswer.because(format!(
                "{} does not answer as an S3 store does: {cause}",
                spec.endpoint
            ))),
        }
    }
}

/// What an answer to a listing says about the bucket.
fn judge(answer: &Response<Bytes>) -> Result<(), Problem> {
    let body = String::from_utf8_lossy(answer.body());
    let status = answer.status();
    if status == StatusCode::OK {
        return match ListObjectsV2::parse_response(&body) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Reason::BadAnswer.because("the store's answer is not a listing of a bucket"))
            }
        };
    }
    let code = element(&body, "Code");
    let reason = match (status, code.as_deref()) {
        // Any web server answers 404; only a store names the bucket as the reason.
        (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => Reason::NoSuchBucket,
        (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _) => Reason::AccessDenied,
        _ => Reason::BadAnswer,
    };
    let mut message = format!("the store answers {status}");
    for detail in [code, element(&body, "Message")].into_iter().flatten() {
        message = format!("{message}: {detail}");
    }
    Err(reason.because(message))
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
mod tests {
    use super::*;
    use crate::local_store::LocalStore;
    use sendo::World;
    use std::convert::Infallible;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn keys() -> Credentials {
        Credentials::new("key", "secret")
    }

    fn spec(store: &LocalStore) -> StorageBucketSpec {
        StorageBucketSpec {
            endpoint: store.endpoint(),
            bucket: "logs".to_owned(),
            region: "us-east-1".to_owned(),
            credentials_secret_ref: None,
            check_every_seconds: 60,
        }
    }

    fn reason(health: &Health) -> Option<Reason> {
        health.problem().map(|problem| problem.reason)
    }

    /// The health of a bucket whose store answers every request like this.
    async fn health_if_answered(status: u16, body: &'static str) -> Health {
        let service = tower::service_fn(move |_| async move {
            let answer = Response::builder().status(status);
            Ok::<_, Infallible>(
                answer
                    .body(Full::new(Bytes::from_static(body.as_bytes())))
                    .unwrap(),
            )
        });
        let world = World::seeded(1);
        let spec = spec(&LocalStore::in_process(&world, &keys()));
        let store = Store::new(Http::in_process(service), TIMEOUT);
        store.check(&spec, None, world.clock()).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_can_be_listed_is_healthy() {
        let world = World::seeded(1);
        let local = LocalStore::in_process(&world, &keys());
        local.create_bucket("logs");
        local.set_delay(Duration::from_millis(40));
        let store = Store::new(local.http(), TIMEOUT);
        let health = store
            .check(&spec(&local), Some(&keys()), world.clock())
            .await;
        let latency = Duration::from_millis(40);
        assert_eq!(health, Health::Healthy { latency });
    }

    #[tokio::test(start_paused = true)]
    async fn each_problem_has_its_reason() {
        let world = World::seeded(1);
        let local = LocalStore::in_process(&world, &keys());
        let store = Store::new(local.http(), TIMEOUT);
        let spec = spec(&local);
        let check = async |credentials: Option<Credentials>| {
            let health = store
                .check(&spec, credentials.as_ref(), world.clock())
                .await;
            reason(&health)
        };

        assert_eq!(check(Some(keys())).await, Some(Reason::NoSuchBucket));
        local.create_bucket("logs");
        assert_eq!(check(Some(keys())).await, None);
        assert_eq!(check(None).await, Some(Reason::AccessDenied));
        for wrong in [
            Credentials::new("key", "guess"),
            Credentials::new("who", "secret"),
        ] {
            assert_eq!(check(Some(wrong)).await, Some(Reason::AccessDenied));
        }
        local.set_delay(TIMEOUT * 2);
        assert_eq!(check(Some(keys())).await, Some(Reason::TimedOut));
        local.stop().await;
        assert_eq!(check(Some(keys())).await, Some(Reason::Unreachable));
        local.start().unwrap();
        local.set_delay(Duration::ZERO);
        assert_eq!(check(Some(keys())).await, None);
    }

    #[tokio::test]
    async fn a_store_on_a_socket_goes_and_comes_back() {
        let world = World::real();
        let local = LocalStore::on_loopback(&world, &keys(), 0).unwrap();
        local.create_bucket("logs");
        let store = Store::new(Http::over_sockets().unwrap(), Duration::from_secs(60));
        let spec = spec(&local);
        let check = async || store.check(&spec, Some(&keys()), world.clock()).await;

        assert_eq!(reason(&check().await), None);
        local.stop().await;
        let Health::Unhealthy(problem) = check().await else {
            panic!("a stopped store cannot be healthy");
        };
        assert_eq!(problem.reason, Reason::Unreachable);
        assert!(
            problem.message.contains("Connection refused"),
            "{}",
            problem.message
        );
        local.start().unwrap();
        assert_eq!(reason(&check().await), None);
        world.tasks().stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_no_store_gives_is_a_bad_one() {
        for (status, body) in [
            (200, "<html>Please log in</html>"),
            (404, "<html>not found</html>"),
            (301, "<Error><Code>PermanentRedirect</Code></Error>"),
            (503, ""),
        ] {
            let health = health_if_answered(status, body).await;
            assert_eq!(reason(&health), Some(Reason::BadAnswer), "{status} {body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_s_own_words_are_in_the_message() {
        let body = "<Error><Code>AccessDenied</Code><Message>not for &quot;you&quot; &amp;lt;</Message></Error>";
        let Health::Unhealthy(problem) = health_if_answered(403, body).await else {
            panic!("healthy");
        };
        assert_eq!(
            problem.message,
            "the store answers 403 Forbidden: AccessDenied: not for \"you\" &lt;"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_message_is_cut() {
        let body: &'static str = format!("<Code>{}</Code>", "é".repeat(1000)).leak();
        let Health::Unhealthy(problem) = health_if_answered(500, body).await else {
            panic!("healthy");
        };
        assert_eq!(problem.message.chars().count(), LONGEST_MESSAGE + 1);
    }
}
