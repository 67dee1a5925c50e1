//! Custom resources: from a definition to its objects, and the way back.

use serde_json::{Value, json};

use super::support::Fixture;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";

fn definition(spec_schema: Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec_schema,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.replicas"},
                ],
            }],
        },
    })
}

fn sized() -> Value {
    json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": 1, "maximum": 5},
        "color": {"type": "string"},
    }})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn defined() -> Fixture {
    let f = Fixture::start().await;
    let created = f
        .json(&format!("POST {DEFINITIONS}"), definition(sized()))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    f
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_as_soon_as_it_is_created() {
    let f = defined().await;
    let stored = f.get(&format!("{DEFINITIONS}/widgets.example.dev")).await;
    let reasons: Vec<&str> = stored.body["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["NoConflicts", "InitialNamesAccepted"]);

    let list = f.get(WIDGETS).await;
    assert_eq!((list.code, &list.body["kind"]), (200, &json!("WidgetList")));
    let resources = f.get("/apis/example.dev/v1").await;
    assert_eq!(resources.body["resources"][0]["shortNames"], json!(["wd"]));
    let document = f.get("/openapi/v3/apis/example.dev/v1").await;
    assert!(
        document.body["components"]["schemas"]
            .get("dev.example.v1.Widget")
            .is_some()
    );
    let document = f.get("/openapi/v2").await;
    let widget = &document.body["definitions"]["dev.example.v1.Widget"];
    assert_eq!(
        widget["properties"]["spec"]["properties"]["replicas"]["type"],
        "integer"
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_pruned_defaulted_and_validated() {
    let f = defined().await;
    let created = f
        .json(
            &format!("POST {WIDGETS}"),
            widget("a", json!({"color": "red", "odd": 1})),
        )
        .await;
    assert_eq!(created.body["spec"], json!({"color": "red", "replicas": 1}));
    assert_eq!(
        created.warnings,
        ["299 - \"unknown field \\\"spec.odd\\\"\""]
    );
    assert_eq!(created.body["metadata"]["generation"], 1);
    let refused = f
        .json(
            &format!("POST {WIDGETS}"),
            widget("b", json!({"replicas": 9})),
        )
        .await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["field"]),
        (422, &json!("spec.replicas"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_has_a_door_of_its_own() {
    let f = defined().await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({})))
        .await;
    let merge = [("content-type", "application/merge-patch+json")];
    let main = f
        .call(
            &format!("PATCH {WIDGETS}/a"),
            &merge,
            r#"{"status":{"x":1}}"#,
        )
        .await;
    assert_eq!(main.body.get("status"), None);
    let patch = r#"{"status":{"x":1},"spec":{"color":"red"}}"#;
    let status = f
        .call(&format!("PATCH {WIDGETS}/a/status"), &merge, patch)
        .await;
    assert_eq!(status.body["status"], json!({"x": 1}));
    assert_eq!(status.body["spec"], json!({"replicas": 1}));
    assert_eq!(status.body["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn scale_reads_and_writes_at_the_paths_of_the_definition() {
    let f = defined().await;
    f.json(
        &format!("POST {WIDGETS}"),
        widget("a", json!({"replicas": 2})),
    )
    .await;
    let merge = [("content-type", "application/merge-patch+json")];
    let scaled = f
        .call(
            &format!("PATCH {WIDGETS}/a/scale"),
            &merge,
            r#"{"spec":{"replicas":4}}"#,
        )
        .await;
    assert_eq!(
        (&scaled.body["kind"], &scaled.body["spec"]),
        (&json!("Scale"), &json!({"replicas": 4}))
    );
    assert_eq!(
        f.get(&format!("{WIDGETS}/a")).await.body["spec"]["replicas"],
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_table_has_the_columns_of_the_definition() {
    let f = defined().await;
    f.json(
        &format!("POST {WIDGETS}"),
        widget("a", json!({"replicas": 3})),
    )
    .await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = f.call(&format!("GET {WIDGETS}"), &accept, "").await;
    assert_eq!(table.body["rows"][0]["cells"], json!(["a", 3]));
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_is_not_structural_is_refused() {
    let f = Fixture::start().await;
    let bad = definition(json!({"properties": {"a": {}}}));
    let refused = f.json(&format!("POST {DEFINITIONS}"), bad).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (422, &json!("Invalid"))
    );
    assert_eq!(f.get(WIDGETS).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_changed_schema_shows_in_what_was_stored_before() {
    let f = defined().await;
    f.json(
        &format!("POST {WIDGETS}"),
        widget("a", json!({"color": "red"})),
    )
    .await;
    let mut changed = definition(json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "shape": {"type": "string", "default": "round"},
    }}));
    let path = format!("{DEFINITIONS}/widgets.example.dev");
    let version = f.get(&path).await.body["metadata"]["resourceVersion"].clone();
    changed["metadata"]["resourceVersion"] = version;
    assert_eq!(f.json(&format!("PUT {path}"), changed).await.code, 200);
    let read = f.get(&format!("{WIDGETS}/a")).await;
    assert_eq!(read.body["spec"], json!({"replicas": 1, "shape": "round"}));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along_and_ends_watches() {
    let f = defined().await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({})))
        .await;
    let mut watch = f.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
    let deleted = f
        .delete(&format!("{DEFINITIONS}/widgets.example.dev"))
        .await;
    assert_eq!(
        deleted.body["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert_eq!(watch.names(1).await, ["DELETED a"]);
    assert_eq!(watch.next().await, None);
    assert_eq!(
        f.get(&format!("{DEFINITIONS}/widgets.example.dev"))
            .await
            .code,
        404
    );
    assert_eq!(f.get("/apis/example.dev").await.code, 404);
    assert_eq!(f.get("/openapi/v3/apis/example.dev/v1").await.code, 404);
    let document = f.get("/openapi/v2").await;
    let left = document.body["definitions"].get("dev.example.v1.Widget");
    assert_eq!(left, None);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_held_holds_its_definition() {
    let f = defined().await;
    let mut held = widget("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    f.json(&format!("POST {WIDGETS}"), held).await;
    let path = format!("{DEFINITIONS}/widgets.example.dev");
    f.delete(&path).await;
    let waiting = f.get(&path).await;
    assert_eq!(
        waiting.body["status"]["conditions"][2]["reason"],
        "InstanceDeletionInProgress"
    );
    let refused = f
        .json(&format!("POST {WIDGETS}"), widget("b", json!({})))
        .await;
    assert_eq!(refused.code, 403);
    let merge = [("content-type", "application/merge-patch+json")];
    f.call(
        &format!("PATCH {WIDGETS}/a"),
        &merge,
        r#"{"metadata":{"finalizers":null}}"#,
    )
    .await;
    assert_eq!(f.get(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn definitions_are_found_again_after_a_start_on_the_same_store() {
    use std::sync::Arc;
    let world = sendo_world::World::seeded(1);
    let store = Arc::new(sendo_store::Memory::new(
        world.clock().clone(),
        Default::default(),
    ));
    let start =
        || sendo_server::ApiServer::start(sendo_server::Options::new(store.clone(), world.clone()));
    let f = Fixture {
        server: start().await.unwrap(),
        world: world.clone(),
    };
    f.json(&format!("POST {DEFINITIONS}"), definition(sized()))
        .await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({})))
        .await;
    let again = Fixture {
        server: start().await.unwrap(),
        world: world.clone(),
    };
    assert_eq!(again.get(&format!("{WIDGETS}/a")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlives_a_change_of_its_definition() {
    let f = defined().await;
    let mut watch = f.watch(&format!("{WIDGETS}?watch=1")).await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({})))
        .await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
    let shape = json!({"type": "string", "default": "round"});
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape";
    let patch = json!([{"op": "add", "path": path, "value": shape}]);
    let changed = f
        .call(
            &format!("PATCH {DEFINITIONS}/widgets.example.dev"),
            &[("content-type", "application/json-patch+json")],
            patch.to_string(),
        )
        .await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    f.json(&format!("POST {WIDGETS}"), widget("b", json!({})))
        .await;
    let event = watch.next().await.expect("the watch goes on");
    assert_eq!(
        event["object"]["spec"],
        json!({"replicas": 1, "shape": "round"})
    );
}

#[tokio::test(start_paused = true)]
async fn nonsense_costs_no_more_than_a_refusal() {
    let f = Fixture::start().await;
    let wide: serde_json::Map<String, Value> = (0..2_000)
        .map(|i| (format!("f{i}"), json!({"type": "array"})))
        .collect();
    let cases = [
        json!({"type": "string", "pattern": format!("{}b{}", "(a*)*".repeat(500), "{1000}".repeat(3))}),
        json!({"type": "object", "properties": wide}),
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "(".repeat(90_000)}]}),
        json!({"type": "string", "x-kubernetes-validations": [{"rule": vec!["self"; 20_000].join("+")}]}),
    ];
    // Too deep for a value: this one is only ever text.
    let open = r#"{"type":"object","properties":{"a":"#.repeat(2_000);
    let deep = format!(r#"{open}{{"type":"string"}}{}"#, "}}".repeat(2_000));
    let deep = definition(json!("deep"))
        .to_string()
        .replace(r#""deep""#, &deep);
    let bodies = cases.map(|spec| definition(spec).to_string());
    for body in bodies.into_iter().chain([deep]) {
        let headers = [("content-type", "application/json")];
        let refused = f.call(&format!("POST {DEFINITIONS}"), &headers, body).await;
        assert!((400..=422).contains(&refused.code), "{}", refused.code);
    }
}

#[tokio::test(start_paused = true)]
async fn an_applied_null_is_judged_and_then_left_out() {
    let f = Fixture::start().await;
    let schema = json!({"type": "object", "properties": {
        "color": {"type": "string"},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    f.json(&format!("POST {DEFINITIONS}"), definition(schema))
        .await;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let line = format!("PATCH {WIDGETS}/a?fieldManager=me");
    let apply = async |spec| f.call(&line, &headers, widget("a", spec).to_string()).await;
    assert_eq!(apply(json!({"color": null})).await.code, 422);
    let applied = apply(json!({"color": "red", "any": null})).await;
    assert_eq!(applied.code, 201, "{}", applied.body);
    assert_eq!(applied.body["spec"], json!({"color": "red"}));
}

#[tokio::test(start_paused = true)]
async fn a_head_is_a_get_and_an_empty_namespace_all_of_them() {
    let f = defined().await;
    f.json(&format!("POST {WIDGETS}"), widget("a", json!({})))
        .await;
    assert_eq!(
        f.call(&format!("HEAD {WIDGETS}/a"), &[], "").await.code,
        200
    );
    let all = f.get("/apis/example.dev/v1/namespaces//widgets").await;
    assert_eq!(all.body["items"][0]["metadata"]["name"], "a");
    assert_eq!(f.get(&format!("{WIDGETS}//status")).await.code, 405);
}
