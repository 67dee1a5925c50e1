//! How much at once.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use sendo_server::{InFlightLimits, User};
use serde_json::json;
use tower::ServiceExt;

use super::support::Fixture;

fn list() -> http::Request<Full<Bytes>> {
    let uri = "/api/v1/namespaces/default/configmaps";
    http::Request::get(uri).body(Full::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_when_all_places_are_taken_is_told_when_to_come_again() {
    let limits = InFlightLimits {
        reads: 0,
        writes: 0,
    };
    let f = Fixture::start_with(|options| options.in_flight = limits).await;
    let ann = User::new("ann", ["system:authenticated"]);
    let response = f.send(ann, list()).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"Too many requests, please try again later.\n");
    // Whoever has to put things right always gets through.
    assert_eq!(f.send(User::admin(), list()).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_when_its_request_is_answered_or_given_up() {
    let limits = InFlightLimits {
        reads: 1,
        writes: 1,
    };
    let f = Fixture::start_with(|options| options.in_flight = limits).await;
    let allow = json!({
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(f.json(&format!("POST {bindings}"), allow).await.code, 201);
    let ann = || User::new("ann", ["system:authenticated"]);
    for _ in 0..3 {
        assert_eq!(f.send(ann(), list()).await.status(), 200);
    }
    // This one waits for a version that is still to come.
    let uri = "/api/v1/namespaces/default/configmaps?resourceVersion=1000000";
    let waits = http::Request::get(uri).body(Full::default()).unwrap();
    let mut waiting = Box::pin(f.send(ann(), waits));
    assert!(futures::poll!(&mut waiting).is_pending());
    assert_eq!(f.send(ann(), list()).await.status(), 429);
    drop(waiting);
    assert_eq!(f.send(ann(), list()).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_a_place_with_a_body_that_never_comes() {
    let limits = InFlightLimits {
        reads: 1,
        writes: 1,
    };
    let f = Fixture::start_with(|options| options.in_flight = limits).await;
    let began = f.world.clock().now();
    for uri in ["/healthz", "/version"] {
        let never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let request = http::Request::get(uri).body(never).unwrap();
        let answer = f.server.as_user(User::anonymous()).oneshot(request).await;
        assert_eq!(answer.unwrap().status(), 200, "{uri}");
    }
    assert_eq!(f.world.clock().now(), began, "nobody waited");
}
