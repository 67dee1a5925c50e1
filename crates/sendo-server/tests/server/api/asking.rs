//! How a request may be written: slashes too many, namespaces left empty, forms of an answer.

use serde_json::json;

use super::support::{Answer, Fixture};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn accept(f: &Fixture, line: &str, form: &str, body: &str) -> Answer {
    let headers = [("accept", form), ("content-type", "application/json")];
    f.call(line, &headers, body.to_owned()).await
}

#[tokio::test(start_paused = true)]
async fn slashes_at_the_end_of_a_path_say_nothing() {
    let f = Fixture::start().await;
    f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": "a"}}))
        .await;
    for path in [&format!("{MAPS}/a"), "/api/v1", "/apis/apps", "/version"] {
        let plain = f.get(path).await;
        assert_eq!(plain.code, 200, "{path}");
        for end in ["/", "//"] {
            assert_eq!(
                f.get(&format!("{path}{end}")).await.body,
                plain.body,
                "{path}{end}"
            );
        }
    }
    assert_eq!(f.get("/apis//").await.body, "404 page not found\n");
    assert_eq!(f.get("/openapi/v2/").await.code, 404);
    let below = f.get("/version/x").await;
    assert_eq!(below.body["reason"], "NotFound");
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_in_a_path_means_all_of_them() {
    let f = Fixture::start().await;
    f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": "a"}}))
        .await;
    let everywhere = "/api/v1/namespaces//configmaps";
    let all = f.get(everywhere).await;
    assert_eq!(
        all.body["items"],
        f.get("/api/v1/configmaps").await.body["items"]
    );
    let one = f.get(&format!("{everywhere}/a")).await;
    assert_eq!(
        one.refusal(),
        (400, "Namespace parameter required.".to_owned())
    );
    let created = f
        .json(
            &format!("POST {everywhere}"),
            json!({"metadata": {"name": "b"}}),
        )
        .await;
    let why = "ConfigMap \"b\" is invalid: metadata.namespace: Required value";
    assert_eq!(created.refusal(), (422, why.to_owned()));
    let unnamed = f.get("/api/v1/namespaces/default/pods//status").await;
    assert_eq!(unnamed.refusal(), (400, "name must be provided".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_comes_without_an_annotation_that_is_a_field_elsewhere() {
    let f = Fixture::start().await;
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    for (name, annotations) in [("a", json!({})), ("b", json!({"own": "1"}))] {
        let set = json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }});
        let created = f.json(&format!("POST {sets}"), set).await;
        let generation = "deprecated.daemonset.template.generation";
        assert_eq!(created.body["metadata"]["annotations"][generation], "1");
    }
    let path = format!("GET {sets}");
    let list = accept(&f, &path, METADATA_LIST, "").await;
    let annotations = |i: usize| list.body["items"][i]["metadata"].get("annotations");
    assert_eq!(annotations(0), None);
    assert_eq!(annotations(1), Some(&json!({"own": "1"})));
    let table = accept(&f, &path, TABLE, "").await;
    let shown = &table.body["rows"][0]["object"]["metadata"];
    assert_eq!(
        (&shown["name"], shown.get("annotations")),
        (&json!("a"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_nowhere_has_metadata_but_no_rows() {
    let f = Fixture::start().await;
    let reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = r#"{"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}}"#;
    assert_eq!(accept(&f, reviews, TABLE, review).await.code, 406);
    let metadata = accept(&f, reviews, METADATA, review).await;
    assert_eq!(metadata.body["kind"], "PartialObjectMetadata");
    assert_eq!(metadata.body.get("status"), None);
    let list = accept(&f, reviews, METADATA_LIST, review).await;
    let why = "you requested PartialObjectMetadataList, but the requested object is not a list \
               (*authorization.SelfSubjectAccessReview)";
    assert_eq!(list.refusal(), (406, why.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn parameters_of_a_media_type_that_ask_for_nothing_known_are_refused() {
    let f = Fixture::start().await;
    for path in [MAPS, "/api/v1", "/apis/apps"] {
        let line = format!("GET {path}");
        let found = accept(&f, &line, "application/json;v=v1;g=meta.k8s.io", "").await;
        assert_eq!(found.code, 406, "{path}");
    }
    let either = format!("{TABLE},application/json");
    let document = accept(&f, "GET /apis/apps", &either, "").await;
    assert_eq!(document.body["kind"], "APIGroup");
    let line = "GET /api";
    let yaml = accept(&f, line, "application/json;q=0.1,application/yaml", "").await;
    assert_eq!(yaml.content_type, "application/yaml");
    let any = accept(&f, line, "application/*", "").await;
    assert!(
        any.refusal().1.starts_with("406: Not Acceptable"),
        "{any:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_watch_comes_in_yaml() {
    let f = Fixture::start().await;
    let line = format!("GET {MAPS}?watch=1&timeoutSeconds=1");
    let refused = accept(&f, &line, "application/yaml", "").await;
    assert_eq!(refused.code, 406);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_nobody_can_read_is_refused_before_all_else() {
    let f = Fixture::start().await;
    let refused = f.get(&format!("{MAPS}?timeout=soon&limit=x")).await;
    let why = r#"invalid timeout specified in the request URL - time: invalid duration "soon""#;
    assert_eq!(refused.refusal(), (400, why.to_owned()));
    assert_eq!(f.get(&format!("{MAPS}?timeout=5s")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_a_body_says_in_its_query_which_one_it_means() {
    let f = Fixture::start().await;
    let map = json!({"metadata": {"name": "a"}});
    let created = f.json(&format!("POST {MAPS}"), map).await;
    let version = created.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap();
    for wrong in ["uid=x", "resourceVersion=1"] {
        assert_eq!(
            f.delete(&format!("{MAPS}/a?{wrong}")).await.code,
            409,
            "{wrong}"
        );
    }
    assert_eq!(f.delete(&format!("{MAPS}?uid=x")).await.code, 409);
    let right = f
        .delete(&format!("{MAPS}/a?resourceVersion={version}"))
        .await;
    assert_eq!(right.code, 200);
}

#[tokio::test(start_paused = true)]
async fn any_version_will_do_means_all_at_once() {
    let f = Fixture::start().await;
    for name in ["a", "b", "c"] {
        f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": name}}))
            .await;
    }
    let first = f.get(&format!("{MAPS}?limit=1")).await;
    let token = first.body["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    let rest = f
        .get(&format!(
            "{MAPS}?limit=1&continue={token}&resourceVersion=0"
        ))
        .await;
    assert_eq!(rest.body["items"].as_array().unwrap().len(), 2);
    assert_eq!(rest.body["metadata"].get("continue"), None);
}
