//! Who may do what, what is not served, and the messages about both.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use sendo_server::User;
use serde_json::{Value, json};

use super::support::Fixture;

async fn as_user(f: &Fixture, user: User, uri: &str) -> (u16, Value) {
    let request = http::Request::get(uri)
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = f.send(user, request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn strangers_read_health_and_nothing_else() {
    let f = Fixture::start().await;
    assert_eq!(as_user(&f, User::anonymous(), "/healthz").await.0, 200);
    assert_eq!(as_user(&f, User::anonymous(), "/apis").await.0, 403);
    let ann = || User::new("ann", [""; 0]);
    assert_eq!(as_user(&f, ann(), "/apis").await.0, 200);
    let (code, body) = as_user(&f, ann(), "/api/v1/nodes").await;
    assert_eq!(code, 403);
    let expected = "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(body["message"], expected);
}

#[tokio::test(start_paused = true)]
async fn permission_is_judged_before_the_body_and_the_path() {
    let f = Fixture::start().await;
    let ann = User::new("ann", [""; 0]);
    assert_eq!(
        as_user(&f, ann, "/apis/nope.example.dev/v1/things").await.0,
        403
    );
    let page = f.get("/apis/nope.example.dev/v1/things").await;
    assert_eq!(
        (page.code, &page.body),
        (404, &json!("404 page not found\n"))
    );
    let known = f.get("/apis/apps/v1/things").await;
    assert_eq!((known.code, &known.body["details"]), (404, &json!({})));
}

#[tokio::test(start_paused = true)]
async fn a_method_that_a_path_does_not_take_is_told() {
    let f = Fixture::start().await;
    for line in [
        "PUT /api/v1/nodes",
        "POST /api/v1/nodes/a",
        "DELETE /api/v1/configmaps",
        "OPTIONS /api/v1/nodes",
    ] {
        assert_eq!(f.call(line, &[], "").await.code, 405, "{line}");
    }
    assert_eq!(
        f.call("GET /apis/authentication.k8s.io/v1/tokenreviews/x", &[], "")
            .await
            .code,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn one_may_ask_who_one_is_and_what_one_may_do() {
    let f = Fixture::start().await;
    let headers = [
        ("impersonate-user", "ann"),
        ("content-type", "application/json"),
    ];
    let who = f
        .call(
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
            &headers,
            "{}",
        )
        .await;
    assert_eq!(
        who.body["status"]["userInfo"],
        json!({"username": "ann", "groups": ["system:authenticated"]})
    );
    let question =
        json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "nodes"}}}).to_string();
    let may = f
        .call(
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &headers,
            question,
        )
        .await;
    assert_eq!(may.body["status"]["allowed"], false);
}

#[tokio::test(start_paused = true)]
async fn discovery_comes_in_one_document_for_those_who_ask() {
    let f = Fixture::start().await;
    let accept = [(
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    )];
    let all = f.call("GET /apis", &accept, "").await;
    assert_eq!(
        all.content_type,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(all.body["kind"], "APIGroupDiscoveryList");
    assert_eq!(f.get("/apis").await.body["kind"], "APIGroupList");
    assert_eq!(f.get("/version").await.body["minor"], "36");
}

#[tokio::test(start_paused = true)]
async fn discovery_comes_in_protobuf_too() {
    let f = Fixture::start().await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    let aggregated = format!("{protobuf};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    for (path, accept, kind) in [
        ("/api", protobuf, "APIVersions"),
        ("/apis", protobuf, "APIGroupList"),
        ("/apis/apps", protobuf, "APIGroup"),
        ("/apis/apps/v1", protobuf, "APIResourceList"),
        ("/apis", &aggregated, "APIGroupDiscoveryList"),
    ] {
        let answer = f
            .call(&format!("GET {path}"), &[("accept", accept)], "")
            .await;
        assert_eq!(
            (answer.code, &*answer.content_type),
            (200, accept),
            "{path}"
        );
        let text = answer.body.as_str().unwrap();
        assert!(text.starts_with("k8s\0") && text.contains(kind), "{path}");
    }
    let old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = f.call("GET /openapi/v2", &[("accept", old)], "").await;
    assert_eq!(answer.content_type, old.replace('@', "."));
    let text = answer.body.as_str().unwrap();
    assert!(text.contains("io.k8s.api.apps.v1.Deployment"));
}

#[tokio::test(start_paused = true)]
async fn answers_come_as_yaml_or_as_metadata_alone() {
    let f = Fixture::start().await;
    let yaml = f
        .call(
            "GET /api/v1/namespaces/default",
            &[("accept", "application/yaml")],
            "",
        )
        .await;
    assert!(
        yaml.body
            .as_str()
            .unwrap()
            .starts_with("apiVersion: v1\nkind: Namespace\n")
    );
    let accept = [(
        "accept",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )];
    let list = f.call("GET /api/v1/namespaces", &accept, "").await;
    assert_eq!(list.body["kind"], "PartialObjectMetadataList");
    assert_eq!(list.body["items"][0].get("spec"), None);
    let refused = f
        .call("GET /api/v1/namespaces", &[("accept", "text/html")], "")
        .await;
    assert_eq!(refused.code, 406);
}

#[tokio::test(start_paused = true)]
async fn bodies_come_as_yaml_too() {
    let f = Fixture::start().await;
    let yaml = [("content-type", "application/yaml")];
    let body = "metadata: {name: a}\ndata:\n  k: \"1\"\n";
    let created = f
        .call("POST /api/v1/namespaces/default/configmaps", &yaml, body)
        .await;
    assert_eq!(
        (created.code, &created.body["data"]),
        (201, &json!({"k": "1"}))
    );
}
