//! Who may see the metrics: whoever the API server says may `get /metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use parking_lot::Mutex;
use sendo_world::{Clock, Moment};

use crate::client::{Client, Error};
use crate::serve::PageResponse;

/// How long an answer of the API server holds.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How many tokens are remembered. There is one scraper, or a few.
const TOKENS: usize = 64;

/// Lets in who shows a token that the API server knows, and whom it lets `get`
/// the path. Clones share what they remember.
#[derive(Clone)]
pub(super) struct Guard {
    client: Client,
    clock: Clock,
    known: Arc<Mutex<Known>>,
}

/// What the API server said of a token and a path, and until when that holds.
type Known = BTreeMap<(String, String), (Verdict, Moment)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Unknown,
    Forbidden,
}

impl Guard {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Guard {
            client,
            clock,
            known: Arc::default(),
        }
    }

    /// What to answer in place of `path`, if who asks may not see it.
    pub(super) async fn refusal(&self, authorization: &str, path: &str) -> Option<PageResponse> {
        let token = authorization
            .strip_prefix("Bearer ")
            .unwrap_or_default()
            .trim();
        if token.is_empty() {
            return Some(PageResponse::text(
                StatusCode::UNAUTHORIZED,
                "Unauthorized\n",
            ));
        }
        let asked = (token.to_owned(), path.to_owned());
        let verdict = match self.remembered(&asked) {
            Some(verdict) => verdict,
            None => match self.ask(token, path).await {
                Ok(verdict) => self.remember(asked, verdict),
                Err(error) => {
                    tracing::warn!(%error, "cannot ask who may see the metrics");
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    return Some(PageResponse::text(status, "Authentication failed\n"));
                }
            },
        };
        match verdict {
            Verdict::Allowed => None,
            Verdict::Unknown => Some(PageResponse::text(
                StatusCode::UNAUTHORIZED,
                "Unauthorized\n",
            )),
            Verdict::Forbidden => Some(PageResponse::text(StatusCode::FORBIDDEN, "Forbidden\n")),
        }
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Verdict, Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let status = self
            .client
            .create(&review)
            .await?
            .status
            .unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Verdict::Unknown);
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status = self
            .client
            .create(&review)
            .await?
            .status
            .unwrap_or_default();
        Ok(match status.allowed {
            true => Verdict::Allowed,
            false => Verdict::Forbidden,
        })
    }

    fn remembered(&self, asked: &(String, String)) -> Option<Verdict> {
        let known = self.known.lock();
        let (verdict, until) = known.get(asked)?;
        (self.clock.now() < *until).then_some(*verdict)
    }

    fn remember(&self, asked: (String, String), verdict: Verdict) -> Verdict {
        let mut known = self.known.lock();
        let now = self.clock.now();
        known.retain(|_, (_, until)| now < *until);
        if known.len() < TOKENS {
            known.insert(asked, (verdict, now + REMEMBERED));
        }
        verdict
    }
}

/// Tokens are secret.
impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, CacheOptions};
    use crate::transport::fake_api::FakeApi;
    use http::Method;
    use sendo_world::World;
    use serde_json::json;

    fn guard() -> (Guard, FakeApi, World) {
        let (kube, api) = FakeApi::new();
        let world = World::seeded(1);
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let client = Client::new(kube, cache, world.clone(), Default::default());
        (Guard::new(client, world.clock().clone()), api, world)
    }

    async fn code(guard: &Guard, authorization: &str) -> u16 {
        let refusal = guard.refusal(authorization, "/metrics").await;
        refusal.map_or(200, |answer| answer.status.as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_decides_and_is_asked_once_a_minute() {
        let (guard, mut api, world) = guard();
        assert_eq!(code(&guard, "").await, 401);
        assert_eq!(code(&guard, "Basic x").await, 401);
        for (allowed, expected) in [(true, 200), (false, 403)] {
            let answers = async {
                let path = "/apis/authentication.k8s.io/v1/tokenreviews";
                let call = api.expect(Method::POST, path).await;
                assert_eq!(call.json()["spec"]["token"], "t");
                let user = json!({"username": "prometheus", "groups": ["monitoring"]});
                call.answer(
                    201,
                    json!({"spec": {}, "status": {"authenticated": true, "user": user}}),
                );
                let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
                let call = api.expect(Method::POST, path).await;
                let spec = &call.json()["spec"];
                assert_eq!(
                    (&spec["user"], &spec["groups"][0]),
                    (&json!("prometheus"), &json!("monitoring"))
                );
                assert_eq!(
                    spec["nonResourceAttributes"],
                    json!({"path": "/metrics", "verb": "get"})
                );
                call.answer(201, json!({"spec": {}, "status": {"allowed": allowed}}));
            };
            let (first, ()) = futures::future::join(code(&guard, "Bearer t"), answers).await;
            assert_eq!(first, expected);
            assert_eq!(code(&guard, "Bearer t").await, expected, "it is remembered");
            world.clock().sleep(REMEMBERED).await;
        }
        let answers = async {
            let call = api
                .expect(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews")
                .await;
            call.answer(201, json!({"spec": {}, "status": {"authenticated": false}}));
        };
        let (unknown, ()) = futures::future::join(code(&guard, "Bearer wrong"), answers).await;
        assert_eq!(unknown, 401);
    }
}
