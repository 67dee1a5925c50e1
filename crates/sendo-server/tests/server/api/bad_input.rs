//! What makes no sense is refused with a reason that helps, and leaves nothing.

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Sends a body to be created; the answer, once it is sure that nothing was.
async fn create(media_type: &str, body: impl Into<bytes::Bytes>) -> Answer {
    let f = Fixture::start().await;
    let headers = [("content-type", media_type)];
    let answer = f.call(&format!("POST {MAPS}"), &headers, body).await;
    let left = f.get(MAPS).await;
    assert_eq!(left.body["items"], json!([]), "nothing is kept");
    answer
}

/// Demands a refusal: its code, its reason, and a part of its message.
#[track_caller]
fn refused(answer: &Answer, code: u16, reason: &str, message: &str) {
    let body = &answer.body;
    assert_eq!(
        (answer.code, &body["reason"]),
        (code, &json!(reason)),
        "{body}"
    );
    assert_eq!(body["kind"], "Status");
    let said = body["message"].as_str().unwrap();
    assert!(said.contains(message), "{said}");
}

#[tokio::test(start_paused = true)]
async fn malformed_json() {
    for (body, message) in [
        ("{", "unexpected end of JSON input"),
        (
            "{]",
            "invalid character ']' looking for beginning of object key string",
        ),
        (
            r#"{"kind": "ConfigMap"} x"#,
            "invalid character 'x' after top-level value",
        ),
        (
            r#"["ConfigMap"]"#,
            "cannot unmarshal array into Go value of type",
        ),
        (
            r#"{"metadata": {"name": 7}}"#,
            "cannot unmarshal number into Go struct field",
        ),
    ] {
        refused(&create(JSON, body).await, 400, "BadRequest", message);
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_yaml() {
    let answer = create(YAML, "metadata: [\n").await;
    refused(&answer, 400, "BadRequest", "yaml");
}

#[tokio::test(start_paused = true)]
async fn a_bomb_of_aliases() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{},", level - 1).repeat(9);
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    refused(&create(YAML, bomb).await, 400, "BadRequest", "");
}

#[tokio::test(start_paused = true)]
async fn deep_nesting() {
    for depth in [200, 20_000, 1_000_000] {
        let deep = format!(
            r#"{{"metadata":{{"name":"a","labels":{}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        refused(&create(JSON, deep.clone()).await, 400, "BadRequest", "");
        refused(&create(YAML, deep).await, 400, "BadRequest", "");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_utf_8() {
    let body = b"metadata: {name: a}\ndata: {k: \xff\xfe}\n";
    refused(&create(YAML, &body[..]).await, 400, "BadRequest", "");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_protobuf() {
    let media_type = "application/vnd.kubernetes.protobuf";
    let answer = create(media_type, "{}").await;
    let message = "does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})";
    refused(&answer, 400, "BadRequest", message);
    let answer = create(media_type, &b"k8s\0\x0a\xff\xff\xff\xff\x0f"[..]).await;
    refused(&answer, 400, "BadRequest", "(6b3873000affffffff0f)");
}

#[tokio::test(start_paused = true)]
async fn wrong_content_types() {
    let message = "the body of the request was in an unknown format";
    for media_type in [
        "text/plain",
        "application/xml",
        "application/json;;=",
        "nonsense",
    ] {
        let answer = create(media_type, r#"{"metadata": {"name": "a"}}"#).await;
        refused(&answer, 415, "UnsupportedMediaType", message);
    }
    let f = Fixture::start().await;
    let headers = [("content-type", "application/json")];
    let answer = f.call(&format!("PATCH {MAPS}/a"), &headers, "{}").await;
    assert_eq!(answer.code, 415);
}

#[tokio::test(start_paused = true)]
async fn oversized_bodies() {
    let mut object = json!({"metadata": {"name": "a"}, "data": {"k": ""}});
    object["data"]["k"] = "x".repeat(3 << 20).into();
    let message = "limit is 3145728";
    refused(
        &create(JSON, object.to_string()).await,
        413,
        "RequestEntityTooLarge",
        message,
    );
}

#[tokio::test(start_paused = true)]
async fn absurd_limits_tokens_and_selectors() {
    let f = Fixture::start().await;
    let refusals = [
        ("limit=99999999999999999999", "strconv.ParseInt"),
        ("limit=many", "strconv.ParseInt"),
        ("timeoutSeconds=1e9", "strconv.ParseInt"),
        ("resourceVersion=-1", "invalid"),
        ("continue=!", "continue key is not valid"),
        ("continue=bm9uc2Vuc2U", "continue key is not valid"),
        ("labelSelector=a%20in", "unable to parse requirement"),
        (
            "labelSelector=%3D%3D",
            "found '==', expected: !, identifier",
        ),
        ("fieldSelector=metadata.name", "invalid selector"),
        ("fieldSelector=data.k%3Dv", "not a known field selector"),
        // A selector that cannot be read is refused before an option that is not allowed.
        (
            "labelSelector=%3D%3D&sendInitialEvents=1",
            "found '==', expected: !, identifier",
        ),
        (
            "fieldSelector=data.k%3Dv&sendInitialEvents=1",
            "sendInitialEvents is forbidden for list",
        ),
    ];
    for (query, message) in refusals {
        let answer = f.get(&format!("{MAPS}?{query}")).await;
        assert!((400..500).contains(&answer.code), "{query}: {answer:?}");
        let said = answer.body["message"].as_str().unwrap_or_default();
        assert!(said.contains(message), "{query}: {said}");
    }
    for query in ["limit=-1", "limit=9223372036854775807", "watch=&limit=0"] {
        assert_eq!(f.get(&format!("{MAPS}?{query}")).await.code, 200, "{query}");
    }
    let query = "fieldSelector=data.k%3Dv";
    let headers = [("content-type", JSON)];
    let unread = f
        .call(&format!("DELETE {MAPS}?{query}"), &headers, "{")
        .await;
    refused(&unread, 400, "BadRequest", "not a known field selector");
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_are_steps_of_a_path() {
    let f = Fixture::start().await;
    let map = json!({"metadata": {"name": "a"}});
    for (line, message) in [
        (
            "GET /api/v1/namespaces/../configmaps",
            r#"invalid key: "/configmaps/..""#,
        ),
        (
            "GET /api/v1/namespaces/%2e/pods",
            r#"invalid key: "/pods/.""#,
        ),
        (
            "GET /api/v1/watch/namespaces/%2e%2e/pods",
            r#"invalid key: "/pods/..""#,
        ),
        (
            "GET /apis/apps/v1/namespaces/%2e%2e/deployments/x/scale",
            r#"invalid key: "/deployments/../x""#,
        ),
        (
            "DELETE /api/v1/namespaces/%2e%2e/configmaps",
            r#"invalid key: "/configmaps/..""#,
        ),
        (
            "PUT /api/v1/namespaces/%2e%2e/configmaps/a",
            r#"invalid key: "/configmaps/../a""#,
        ),
        (
            "POST /api/v1/namespaces/%2e%2e/configmaps",
            "Internal error occurred: invalid resource name \"..\": [may not be '..']",
        ),
    ] {
        let answer = match line.starts_with('P') {
            true => f.json(line, map.clone()).await,
            false => f.call(line, &[], "").await,
        };
        assert_eq!(answer.refusal(), (500, message.to_owned()), "{line}");
    }
}

/// Whichever way a path is written, it is authorised as what it is served as.
#[tokio::test(start_paused = true)]
async fn paths_that_lead_elsewhere() {
    let f = Fixture::start().await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}});
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(f.json(&format!("POST {secrets}"), secret).await.code, 201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": group}],
    });
    let bindings = format!("/apis/{group}/v1/namespaces/default/rolebindings");
    assert_eq!(f.json(&format!("POST {bindings}"), binding).await.code, 201);
    let ann = [("impersonate-user", "ann")];
    assert_eq!(f.call(&format!("GET {MAPS}"), &ann, "").await.code, 200);
    for path in [
        "/api/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/default/configmaps/../../kube-system/secrets/s",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fkube-system%2fsecrets%2fs",
        "/api/v1/namespaces/default/configmaps/%2e%2e/%2e%2e/kube-system/secrets/s",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets/s",
        "/api/v1/namespaces/..%2fkube-system/secrets/s",
        "/api/v1/namespaces/kube-system%2fsecrets/s",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/%zz",
        "//api//v1//namespaces//kube-system//secrets//s",
    ] {
        let answer = f.call(&format!("GET {path}"), &ann, "").await;
        assert!((300..500).contains(&answer.code), "{path}: {answer:?}");
        let said = answer.body.to_string();
        assert!(!said.contains("aGlkZGVu"), "{path}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_of_nonsense() {
    let f = Fixture::start().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let created = f.json(&format!("POST {MAPS}"), object).await;
    let bodies: [(&str, &str); 6] = [
        ("application/json-patch+json", "{}"),
        (
            "application/json-patch+json",
            r#"[{"op":"add","path":"nowhere","value":1}]"#,
        ),
        (
            "application/json-patch+json",
            r#"[{"op":"remove","path":"/data/absent"}]"#,
        ),
        ("application/merge-patch+json", "[1]"),
        ("application/strategic-merge-patch+json", "[]"),
        ("application/apply-patch+yaml", "- 1"),
    ];
    for (media_type, body) in bodies {
        let line = format!("PATCH {MAPS}/a?fieldManager=me");
        let answer = f.call(&line, &[("content-type", media_type)], body).await;
        assert!((400..500).contains(&answer.code), "{body}: {answer:?}");
    }
    let after = f.get(&format!("{MAPS}/a")).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&after.body), version(&created.body));
}

#[tokio::test(start_paused = true)]
async fn a_scaling_rule_whose_list_of_policies_is_empty() {
    let f = Fixture::start().await;
    let target = json!({"kind": "Deployment", "name": "d"});
    let behavior = json!({"scaleUp": {"policies": []}});
    let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, "behavior": behavior}});
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let answer = f.json(&format!("POST {scalers}"), scaler).await;
    let why = "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy";
    refused(&answer, 422, "Invalid", why);
}

#[tokio::test(start_paused = true)]
async fn escapes_that_stand_for_nothing() {
    let f = Fixture::start().await;
    for path in ["/api/v1/namespaces/%zz", "/%", "/healthz%2", "/apis/%e"] {
        let answer = f.get(path).await;
        assert_eq!(
            (answer.code, &answer.body),
            (400, &json!("400 Bad Request")),
            "{path}"
        );
    }
}
