//! Authenticates and authorizes scrapes: the API server decides whether the user of a token may
//! `get /metrics`.

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

/// How long a decision of the API server is cached.
const CACHE_DURATION: Duration = Duration::from_secs(60);

/// The maximum number of cached decisions. There is one scraper, or a few.
const MAX_CACHED: usize = 64;

/// Allows requests with a token that the API server authenticates, of a user who may `get` the
/// path. Clones share the cached decisions.
#[derive(Clone)]
pub(super) struct Guard {
    client: Client,
    clock: Clock,
    cached: Arc<Mutex<Decisions>>,
}

/// The decision for a token and a path, and until when it is valid.
type Decisions = BTreeMap<(String, String), (Decision, Moment)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allowed,
    Unauthenticated,
    Forbidden,
}

impl Guard {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Guard {
            client,
            clock,
            cached: Arc::default(),
        }
    }

    /// The response to a request that may not see `path`; `None` if it may.
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
        let key = (token.to_owned(), path.to_owned());
        let decision = match self.cached_decision(&key) {
            Some(decision) => decision,
            None => match self.review(token, path).await {
                Ok(decision) => self.cache_decision(key, decision),
                Err(error) => {
                    tracing::warn!(%error, "cannot review the token of a metrics request");
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    return Some(PageResponse::text(status, "Authentication failed\n"));
                }
            },
        };
        match decision {
            Decision::Allowed => None,
            Decision::Unauthenticated => Some(PageResponse::text(
                StatusCode::UNAUTHORIZED,
                "Unauthorized\n",
            )),
            Decision::Forbidden => Some(PageResponse::text(StatusCode::FORBIDDEN, "Forbidden\n")),
        }
    }

    async fn review(&self, token: &str, path: &str) -> Result<Decision, Error> {
        // The token is optional in the types of older releases.
        #[allow(clippy::useless_conversion)]
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned().into(),
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
            return Ok(Decision::Unauthenticated);
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
            true => Decision::Allowed,
            false => Decision::Forbidden,
        })
    }

    fn cached_decision(&self, key: &(String, String)) -> Option<Decision> {
        let cached = self.cached.lock();
        let (decision, until) = cached.get(key)?;
        (self.clock.now() < *until).then_some(*decision)
    }

    fn cache_decision(&self, key: (String, String), decision: Decision) -> Decision {
        let mut cached = self.cached.lock();
        let now = self.clock.now();
        cached.retain(|_, (_, until)| now < *until);
        if cached.len() < MAX_CACHED {
            cached.insert(key, (decision, now + CACHE_DURATION));
        }
        decision
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
            assert_eq!(code(&guard, "Bearer t").await, expected, "it is cached");
            world.clock().sleep(CACHE_DURATION).await;
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
