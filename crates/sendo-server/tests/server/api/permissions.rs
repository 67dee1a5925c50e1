//! Which permission a request needs, and what that permission does not reach.

use serde_json::{Value, json};

use super::rights::rule;
use super::support::Fixture;

#[tokio::test(start_paused = true)]
async fn a_verb_at_a_path_of_no_resource_is_its_method() {
    let f = Fixture::start().await;
    let methods = ["get", "head", "post", "put", "patch", "delete", "options"];
    for verb in methods {
        let rule = json!({"verbs": [verb], "nonResourceURLs": ["*"]});
        f.let_everywhere(&format!("may-{verb}"), json!([rule]))
            .await;
    }
    let paths = [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/healthz",
        "/version",
        "/nothing",
        "/metrics",
    ];
    // Whoever is known may read these.
    let open = [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/healthz",
        "/version",
    ];
    for path in paths {
        for method in methods {
            let line = format!("{} {path}", method.to_uppercase());
            for verb in methods {
                let code = f.as_(&format!("may-{verb}"), &line, Value::Null).await.code;
                let may = verb == method || method == "get" && open.contains(&path);
                assert_eq!(code != 403, may, "{line} with {verb}: {code}");
            }
        }
    }
}

/// A GET can become a stream of commands as well as a POST can.
#[tokio::test(start_paused = true)]
async fn whoever_enters_a_pod_needs_the_permission_to_create() {
    let f = Fixture::start().await;
    let account = json!({"metadata": {"name": "default"}});
    f.json("POST /api/v1/namespaces/default/serviceaccounts", account)
        .await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(f.json(&format!("POST {pods}"), pod).await.code, 201);
    for (user, verbs) in [
        ("get", &["get"][..]),
        ("create", &["create"]),
        ("both", &["get", "create"]),
    ] {
        f.let_everywhere(user, json!([rule(verbs, "", "*")])).await;
    }
    for name in ["exec", "attach", "portforward"] {
        let get = format!("GET {pods}/p/{name}");
        let post = format!("POST {pods}/p/{name}");
        let refused = f.as_("get", &get, Value::Null).await;
        assert_eq!(
            refused.refusal(),
            (403, "pods \"p\" is forbidden: ".to_owned()),
            "{name}"
        );
        assert_eq!(f.as_("create", &get, Value::Null).await.code, 403, "{name}");
        assert_eq!(f.as_("get", &post, Value::Null).await.code, 403, "{name}");
        for line in [(&"both", &get), (&"create", &post), (&"both", &post)] {
            // It got as far as the pod, which is on no node.
            assert_eq!(f.as_(line.0, line.1, Value::Null).await.code, 400, "{name}");
        }
    }
}

/// Whoever may read one object of a collection may not read the others by a selector that only
/// looks as if it named one.
#[tokio::test(start_paused = true)]
async fn a_selector_names_an_object_only_if_it_chooses_no_other() {
    let f = Fixture::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        let made = f
            .json(&format!("POST {maps}"), json!({"metadata": {"name": name}}))
            .await;
        assert_eq!(made.code, 201);
    }
    let mut named = rule(&["list", "watch", "deletecollection"], "", "configmaps");
    named["resourceNames"] = json!(["a"]);
    f.let_everywhere("ann", json!([named])).await;
    for selector in [
        "metadata.name=a",
        "metadata.name==a",
        "metadata.namespace!=x,metadata.name=a",
    ] {
        let line = format!("GET {maps}?timeoutSeconds=1&fieldSelector={selector}");
        let found = f.as_("ann", &line, Value::Null).await;
        assert_eq!(found.code, 200, "{selector}: {}", found.body);
        let items = found.body["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{selector}");
        assert_eq!(items[0]["metadata"]["name"], "a", "{selector}");
    }
    // A comma behind a backslash belongs to the value.
    for selector in [
        "metadata.namespace!=x%5C,metadata.name=a",
        "metadata.name!=x%5C,metadata.name=a",
        "metadata.name!=a",
        "",
    ] {
        for query in ["", "&watch=1"] {
            let line = format!("GET {maps}?timeoutSeconds=1{query}&fieldSelector={selector}");
            let refused = f.as_("ann", &line, Value::Null).await;
            assert_eq!(refused.code, 403, "{selector}: {}", refused.body);
        }
    }
    // What a deletion chooses names nothing, as in Kubernetes.
    let line = format!("DELETE {maps}?fieldSelector=metadata.name=a");
    assert_eq!(f.as_("ann", &line, Value::Null).await.code, 403);
}
