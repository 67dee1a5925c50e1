//! What the aliases of a YAML body expand to counts as if it had been sent, wherever one is read.

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

/// A body of 50 KB that aliases make 12 MB of, four times what a body may have.
fn bomb(kind: &str) -> String {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    let text = "x".repeat(30_000);
    let mut bomb = format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n");
    bomb += &format!("x:\n - &a \"{text}\"\n");
    bomb += &" - *a\n".repeat(400);
    bomb
}

#[track_caller]
fn refused(answer: &Answer, what: &str) {
    let (code, message) = answer.refusal();
    assert_eq!(
        (code, &answer.body["reason"]),
        (400, &json!("BadRequest")),
        "{what}: {message}"
    );
    let expected = "yaml: document contains excessive aliasing";
    assert!(message.contains(expected), "{what}: {message}");
    assert!(message.len() < 1000, "{what}: {} bytes", message.len());
}

#[tokio::test(start_paused = true)]
async fn who_may_do_nothing_cannot_make_the_server_build_more_than_a_body_may_have() {
    let f = Fixture::start().await;
    let headers = [
        ("impersonate-user", "ann"),
        ("content-type", "application/yaml"),
    ];
    for review in ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] {
        let line = format!("POST /apis/authorization.k8s.io/v1/{review}");
        let bomb = bomb("authorization.k8s.io/v1/SelfSubjectAccessReview");
        refused(&f.call(&line, &headers, bomb).await, &line);
    }
}

/// A server with an object of each kind that the requests below are about.
async fn furnished() -> Fixture {
    let f = Fixture::start().await;
    let container = json!({"name": "c", "image": "i"});
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let objects: [(&str, Value); 6] = [
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({
                "metadata": {"name": "widgets.example.dev"},
                "spec": {"group": "example.dev", "scope": "Namespaced",
                    "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object",
                            "x-kubernetes-preserve-unknown-fields": true}},
                        "subresources": {"status": {}, "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas"}}}]},
            }),
        ),
        (
            "/apis/example.dev/v1/namespaces/default/widgets",
            json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 1}}),
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "a"}}),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            json!({"metadata": {"name": "default"}}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": labels}, "template": template}}),
        ),
    ];
    for (path, object) in objects {
        let made = f.json(&format!("POST {path}"), object).await;
        assert_eq!(made.code, 201, "{path}: {}", made.body);
    }
    f
}

#[tokio::test(start_paused = true)]
async fn every_request_that_is_read_as_yaml_is_bounded() {
    let f = furnished().await;
    let core = "/api/v1/namespaces/default";
    let widgets = "/apis/example.dev/v1/namespaces/default/widgets";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let yaml = "application/yaml";
    let apply = "application/apply-patch+yaml";
    let cases = [
        (format!("POST {core}/configmaps"), yaml, "v1/ConfigMap"),
        (format!("PUT {core}/configmaps/a"), yaml, "v1/ConfigMap"),
        (
            format!("PATCH {core}/configmaps/a?fieldManager=m"),
            apply,
            "v1/ConfigMap",
        ),
        (
            format!("PATCH {core}/configmaps/b?fieldManager=m"),
            apply,
            "v1/ConfigMap",
        ),
        (
            format!("DELETE {core}/configmaps/a"),
            yaml,
            "v1/DeleteOptions",
        ),
        (
            format!("DELETE {core}/configmaps"),
            yaml,
            "v1/DeleteOptions",
        ),
        (format!("POST {widgets}"), yaml, "example.dev/v1/Widget"),
        (format!("PUT {widgets}/a"), yaml, "example.dev/v1/Widget"),
        (
            format!("PUT {widgets}/a/status"),
            yaml,
            "example.dev/v1/Widget",
        ),
        (
            format!("PUT {widgets}/a/scale"),
            yaml,
            "autoscaling/v1/Scale",
        ),
        (
            format!("PATCH {widgets}/a?fieldManager=m"),
            apply,
            "example.dev/v1/Widget",
        ),
        (
            format!("PATCH {widgets}/a/scale?fieldManager=m"),
            apply,
            "autoscaling/v1/Scale",
        ),
        (format!("DELETE {widgets}/a"), yaml, "v1/DeleteOptions"),
        (format!("DELETE {widgets}"), yaml, "v1/DeleteOptions"),
        (
            format!("PUT {deployments}/a/status"),
            yaml,
            "apps/v1/Deployment",
        ),
        (
            format!("PUT {deployments}/a/scale"),
            yaml,
            "autoscaling/v1/Scale",
        ),
        (
            format!("PATCH {deployments}/a/scale?fieldManager=m"),
            apply,
            "autoscaling/v1/Scale",
        ),
        (format!("POST {core}/bindings"), yaml, "v1/Binding"),
        (format!("POST {core}/pods/a/binding"), yaml, "v1/Binding"),
        (
            format!("POST {core}/pods/a/eviction"),
            yaml,
            "policy/v1/Eviction",
        ),
        (
            format!("POST {core}/serviceaccounts/default/token"),
            yaml,
            "authentication.k8s.io/v1/TokenRequest",
        ),
        (
            "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            yaml,
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
        ),
        (
            "POST /apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            yaml,
            "authentication.k8s.io/v1/TokenReview",
        ),
    ];
    for (line, media_type, kind) in cases {
        let answer = f
            .call(&line, &[("content-type", media_type)], bomb(kind))
            .await;
        refused(&answer, &line);
    }
    for kept in ["/configmaps/a", "/pods/a"] {
        assert_eq!(f.get(&format!("{core}{kept}")).await.code, 200, "{kept}");
    }
    assert_eq!(f.get(&format!("{widgets}/a")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_there_a_million_times_give_no_more_warnings_than_headers_hold() {
    let f = Fixture::start().await;
    let headers = [("content-type", "application/yaml")];
    let mut body = "metadata: {name: a}\nx:\n".to_owned();
    body += &" a:\n".repeat(700_000);
    let line = "POST /api/v1/namespaces/default/configmaps";
    let answer = f.call(line, &headers, body).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let size: usize = answer.warnings.iter().map(String::len).sum();
    assert!((1000..16_384).contains(&size), "{size} bytes");
}
