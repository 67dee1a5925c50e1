//! Who owns which field, and applies.

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn apply(f: &Fixture, uri: &str, config: Value) -> Answer {
    let headers = [("content-type", "application/apply-patch+yaml")];
    f.call(&format!("PATCH {uri}"), &headers, config.to_string())
        .await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

/// The managers of an object: name, operation, subresource, fields.
fn managers(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = |entry: &Value| {
        let text = |member: &str| entry[member].as_str().unwrap_or("-").to_owned();
        let id = format!(
            "{} {} {}",
            text("manager"),
            text("operation"),
            text("subresource")
        );
        (id, entry["fieldsV1"].clone())
    };
    entries.iter().map(entry).collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_and_owns_what_it_says() {
    let f = Fixture::start().await;
    let uri = format!("{MAPS}/a?fieldManager=me");
    let created = apply(&f, &uri, map(json!({"k": "1"}))).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    let owned = vec![("me Apply -".to_owned(), json!({"f:data": {"f:k": {}}}))];
    assert_eq!(managers(&created.body), owned);

    let again = apply(&f, &uri, map(json!({"k": "1"}))).await;
    assert_eq!((again.code, again.body), (200, created.body));
    let less = apply(&f, &uri, map(json!({"l": "2"}))).await;
    assert_eq!(less.body["data"], json!({"l": "2"}));
}

#[tokio::test(start_paused = true)]
async fn who_changes_anothers_field_is_told_whose_it_is() {
    let f = Fixture::start().await;
    apply(
        &f,
        &format!("{MAPS}/a?fieldManager=one"),
        map(json!({"k": "1"})),
    )
    .await;
    let uri = format!("{MAPS}/a?fieldManager=two");
    let refused = apply(&f, &uri, map(json!({"k": "2"}))).await;
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.body["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .data.k"
    );
    assert_eq!(
        refused.body["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    let forced = apply(&f, &format!("{uri}&force=true"), map(json!({"k": "2"}))).await;
    let owned = vec![("two Apply -".to_owned(), json!({"f:data": {"f:k": {}}}))];
    assert_eq!(managers(&forced.body), owned);
}

#[tokio::test(start_paused = true)]
async fn every_write_is_booked_under_its_manager() {
    let f = Fixture::start().await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "tool/1.2"),
    ];
    let body = map(json!({"k": "1"})).to_string();
    let created = f.call(&format!("POST {MAPS}"), &headers, body).await;
    let fields = json!({"f:data": {".": {}, "f:k": {}}});
    assert_eq!(
        managers(&created.body),
        [("tool Update -".to_owned(), fields)]
    );
    let patched = f
        .merge(
            &format!("{MAPS}/a?fieldManager=other"),
            json!({"data": {"l": "1"}}),
        )
        .await;
    assert_eq!(managers(&patched.body).len(), 2);

    let cleared = f
        .merge(
            &format!("{MAPS}/a"),
            json!({"metadata": {"managedFields": [{}]}}),
        )
        .await;
    assert_eq!(cleared.body["metadata"]["managedFields"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_keeps_version_and_time() {
    let f = Fixture::start().await;
    let created = f
        .json(&format!("POST {MAPS}"), map(json!({"k": "1"})))
        .await;
    f.world
        .clock()
        .sleep(std::time::Duration::from_secs(5))
        .await;
    let same = f
        .merge(&format!("{MAPS}/a"), json!({"data": {"k": "1"}}))
        .await;
    assert_eq!(same.body, created.body);
}

#[tokio::test(start_paused = true)]
async fn each_door_owns_what_it_lets_pass() {
    let f = Fixture::start().await;
    let mut sent = deployment(1);
    sent["status"] = json!({"replicas": 7});
    f.json(&format!("POST {DEPLOYMENTS}?fieldManager=main"), sent)
        .await;
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 3}});
    let written = f
        .merge(&format!("{DEPLOYMENTS}/d/status?fieldManager=st"), status)
        .await;
    let found = managers(&written.body);
    assert_eq!(found.len(), 2);
    assert!(found[0].1.get("f:status").is_none(), "{found:?}");
    assert_eq!(
        found[1],
        (
            "st Update status".to_owned(),
            json!({"f:status": {"f:replicas": {}}})
        )
    );

    let scale = json!({"spec": {"replicas": 4}});
    f.merge(&format!("{DEPLOYMENTS}/d/scale?fieldManager=sc"), scale)
        .await;
    let scaled = f.get(&format!("{DEPLOYMENTS}/d")).await;
    let found = managers(&scaled.body);
    let taken = (
        "sc Update scale".to_owned(),
        json!({"f:spec": {"f:replicas": {}}}),
    );
    assert!(found.contains(&taken), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_applied_is_refused() {
    let f = Fixture::start().await;
    let unnamed = apply(&f, &format!("{MAPS}/a"), map(json!({}))).await;
    assert_eq!(unnamed.code, 422);
    let uri = format!("{MAPS}/a?fieldManager=me");
    let unknown = apply(
        &f,
        &uri,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "x": 1}),
    )
    .await;
    assert_eq!(unknown.code, 500);
    assert_eq!(
        unknown.body["message"],
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .x: field not declared in schema"
    );
    let headers = [("content-type", "application/apply-patch+cbor")];
    let cbor = f.call(&format!("PATCH {uri}"), &headers, "x").await;
    assert_eq!(cbor.code, 415);
    let status = apply(
        &f,
        &format!("{DEPLOYMENTS}/d/status?fieldManager=me"),
        deployment(1),
    )
    .await;
    assert_eq!(status.code, 404);
    let many = apply(
        &f,
        &format!("{DEPLOYMENTS}/d?fieldManager=me"),
        deployment(u32::MAX),
    )
    .await;
    assert_eq!(many.code, 400);
    assert_eq!(
        many.body["message"],
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number 4294967295 \
         into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn what_was_meant_for_something_that_is_gone_is_not_created() {
    let f = Fixture::start().await;
    let uri = format!("{MAPS}/a?fieldManager=me");
    let meant =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    // Even without a name of its own: whose it is comes first.
    let gone = apply(&f, &uri, meant(json!({"uid": "x"}))).await;
    assert_eq!((gone.code, &gone.body["reason"]), (409, &json!("Conflict")));
    let version = apply(
        &f,
        &uri,
        meant(json!({"name": "a", "resourceVersion": "x"})),
    )
    .await;
    let why = "strconv.ParseUint: parsing \"x\": invalid syntax";
    assert_eq!(version.refusal(), (500, why.to_owned()));
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_dry_apply_leaves_nothing() {
    let f = Fixture::start().await;
    let uri = format!("{MAPS}/a?fieldManager=me&dryRun=All");
    assert_eq!(apply(&f, &uri, map(json!({"k": "1"}))).await.code, 201);
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_leaves_the_order_of_another_version() {
    let f = Fixture::start().await;
    let scalers = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    let metric = |name: &str| json!({"type": "Resource", "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": 60}}});
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let metrics = json!([metric("cpu"), metric("memory")]);
    let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, "metrics": metrics}});
    let created = f.json(&format!("POST {}", scalers("v2")), scaler).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": {"maxReplicas": 3}});
    // The first version knows the processor by a field of its own, apart from other metrics.
    let uri = format!("{}/h?fieldManager=me", scalers("v1"));
    assert_eq!(apply(&f, &uri, config).await.code, 200);
    let found = f.get(&format!("{}/h", scalers("v2"))).await.body;
    assert_eq!(found["spec"]["metrics"], metrics);
    assert_eq!(managers(&found).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_an_apply_changes_is_read_as_its_type_and_the_rest_stays() {
    let f = Fixture::start().await;
    let uri = format!("{DEPLOYMENTS}/d?fieldManager=me");
    let asking = |cpu: &str| {
        let mut config = deployment(2);
        let container = &mut config["spec"]["template"]["spec"]["containers"][0];
        container["resources"] = json!({"requests": {"cpu": cpu}});
        config
    };
    let refused = apply(&f, &uri, asking("much")).await;
    assert_eq!(refused.code, 500);
    let why = refused.body["message"].as_str().unwrap();
    assert!(why.contains("quantities must match"), "{why}");

    let created = apply(&f, &uri, asking("1000m")).await.body;
    let container = &created["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1"}));
    // The same is said of something that is there.
    assert_eq!(apply(&f, &uri, asking("much")).await.body, refused.body);
    let changed = apply(&f, &uri, asking("0.5")).await.body;
    let mut expected = created.clone();
    let container = &mut expected["spec"]["template"]["spec"]["containers"][0];
    container["resources"]["requests"]["cpu"] = "500m".into();
    for member in ["generation", "resourceVersion", "managedFields"] {
        expected["metadata"][member] = changed["metadata"][member].clone();
    }
    assert_eq!(changed, expected);
    assert_eq!(changed["metadata"]["generation"], 2);

    let mut labelled = asking("0.5");
    labelled["metadata"]["labels"] = json!({"l": "1"});
    let labelled = apply(&f, &uri, labelled).await.body;
    assert_eq!(labelled["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(labelled["spec"], changed["spec"]);
    assert_eq!(labelled["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_applied_to_what_has_items_that_nobody_can_name() {
    let f = Fixture::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "s"}, "secrets": [{"kind": "Secret"}]});
    let created = f.json(&format!("POST {accounts}"), account).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    let config = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "s", "labels": {"l": "1"}}});
    let refused = apply(&f, &format!("{accounts}/s?fieldManager=me"), config).await;
    let why = refused.body["message"].as_str().unwrap_or_default();
    assert!(
        why.starts_with("failed to create typed live object"),
        "{why}"
    );
}
