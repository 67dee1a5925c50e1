//! Tokens of service accounts: given on request, good for as long as they should be.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

impl Fixture {
    async fn account(&self, name: &str) -> String {
        let account = json!({"metadata": {"name": name}});
        let made = self.json(&format!("POST {ACCOUNTS}"), account).await;
        made.body["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    async fn request(&self, account: &str, spec: Value) -> Answer {
        let line = format!("POST {ACCOUNTS}/{account}/token");
        self.json(&line, json!({"spec": spec})).await
    }

    async fn token(&self, account: &str, spec: Value) -> String {
        let answer = self.request(account, spec).await;
        assert_eq!(answer.code, 201, "{:?}", answer.body);
        answer.body["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let path = "POST /apis/authentication.k8s.io/v1/tokenreviews";
        self.json(path, review).await.body["status"].take()
    }

    /// How a request with that token and no other credentials is answered.
    async fn with_token(&self, token: &str, uri: &str) -> u16 {
        use tower::ServiceExt;
        let request = http::Request::get(uri)
            .header("authorization", format!("Bearer {token}"))
            .body(http_body_util::Full::<bytes::Bytes>::default())
            .unwrap();
        match self.server.clone().oneshot(request).await {
            Ok(response) => response.status().as_u16(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_requested_token_is_its_accounts() {
    let f = Fixture::start().await;
    let uid = f.account("robot").await;
    let answer = f.request("robot", json!({})).await;
    assert_eq!(answer.body["spec"]["expirationSeconds"], 3600);
    assert_eq!(answer.body["metadata"]["uid"], uid.as_str());
    let token = answer.body["status"]["token"].as_str().unwrap();
    let status = f.review(token, &[]).await;
    assert_eq!(status["authenticated"], true);
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    assert_eq!(status["user"]["uid"], uid.as_str());
    assert_eq!(
        status["user"]["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    assert_eq!(f.with_token(token, "/apis").await, 200);
    assert_eq!(f.with_token(token, "/api/v1/nodes").await, 403);
    assert_eq!(f.with_token("nonsense", "/apis").await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_its_audiences_alone() {
    let f = Fixture::start().await;
    f.account("robot").await;
    let token = f.token("robot", json!({"audiences": ["vault"]})).await;
    let status = f.review(&token, &["vault", "other"]).await;
    assert_eq!(status["audiences"], json!(["vault"]));
    let status = f.review(&token, &["other"]).await;
    assert_eq!(
        status,
        json!({"user": {}, "error":
            "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"other\"]]"})
    );
    assert_eq!(f.with_token(&token, "/apis").await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_time_and_with_its_account() {
    let f = Fixture::start().await;
    f.account("robot").await;
    let token = f.token("robot", json!({"expirationSeconds": 600})).await;
    f.world.clock().sleep(Duration::from_secs(600)).await;
    // A minute's grace, for clocks that differ.
    assert_eq!(f.with_token(&token, "/apis").await, 200);
    f.world.clock().sleep(Duration::from_secs(61)).await;
    let status = f.review(&token, &[]).await;
    assert_eq!(
        status["error"],
        "[invalid bearer token, service account token has expired]"
    );
    let token = f.token("robot", json!({})).await;
    f.delete(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(f.with_token(&token, "/apis").await, 401);
    let uid = f.account("robot").await;
    let status = f.review(&token, &[]).await;
    let error = status["error"].as_str().unwrap();
    assert!(
        error.contains(&format!("service account UID ({uid}) does not match")),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_token_ends_with_its_object() {
    let f = Fixture::start().await;
    f.account("robot").await;
    let secret = json!({"metadata": {"name": "s"}});
    f.json("POST /api/v1/namespaces/default/secrets", secret)
        .await;
    let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}});
    let token = f.token("robot", bound.clone()).await;
    assert_eq!(f.with_token(&token, "/apis").await, 200);
    f.delete("/api/v1/namespaces/default/secrets/s").await;
    assert_eq!(
        f.review(&token, &[]).await["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
    assert_eq!(f.request("robot", bound).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pods_token_tells_its_pod_and_node() {
    let f = Fixture::start().await;
    f.account("robot").await;
    f.account("other").await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    });
    f.json("POST /api/v1/namespaces/default/pods", pod).await;
    let bound = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}});
    let token = f.token("robot", bound.clone()).await;
    let extra = f.review(&token, &[]).await["user"]["extra"].take();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(
        extra["authentication.kubernetes.io/node-name"],
        json!(["n"])
    );
    let refused = f.request("other", bound).await;
    assert_eq!(
        refused.body["message"],
        "cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name."
    );
}

#[tokio::test(start_paused = true)]
async fn requests_out_of_bounds_are_refused() {
    let f = Fixture::start().await;
    f.account("robot").await;
    for (spec, code) in [
        (json!({"expirationSeconds": 599}), 422),
        (json!({"expirationSeconds": 1_i64 << 33}), 422),
        (
            json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}),
            400,
        ),
        (
            json!({"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "x"}}),
            404,
        ),
    ] {
        let answer = f.request("robot", spec.clone()).await;
        assert_eq!(answer.code, code, "{spec}");
    }
    assert_eq!(f.request("nobody", json!({})).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn others_find_the_issuer_and_its_keys() {
    let f = Fixture::start().await;
    let issuer = f.get("/.well-known/openid-configuration").await;
    assert_eq!(
        issuer.body["issuer"],
        "https://kubernetes.default.svc.cluster.local"
    );
    let keys = f.get("/openid/v1/jwks").await;
    assert_eq!(keys.content_type, "application/jwk-set+json");
    assert_eq!(keys.body["keys"][0]["alg"], "ES256");
    let accept = [("accept", "application/json")];
    let refused = f.call("GET /openid/v1/jwks", &accept, "").await;
    assert_eq!(refused.code, 406);
}
