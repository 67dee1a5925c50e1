//! APIServices: groups of definitions, and groups of other servers.

use serde_json::{Value, json};

use super::support::Fixture;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, kind: &str, versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({
        "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {"group": "example.dev", "scope": "Cluster",
            "names": {"plural": plural, "kind": kind}, "versions": versions},
    })
}

#[tokio::test(start_paused = true)]
async fn a_group_of_definitions_is_announced_while_one_is_left() {
    let f = Fixture::start().await;
    for (plural, kind, versions) in [
        ("widgets", "Widget", &["v1", "v2"][..]),
        ("gadgets", "Gadget", &["v1"]),
    ] {
        let made = f
            .json(
                &format!("POST {DEFINITIONS}"),
                definition(plural, kind, versions),
            )
            .await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
    let service = f.get(&format!("{SERVICES}/v2.example.dev")).await;
    assert_eq!(service.body["status"]["conditions"][0]["reason"], "Local");
    assert_eq!(
        service.body["metadata"]["managedFields"][0]["manager"],
        "kube-apiserver"
    );
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = f
        .call(&format!("GET {SERVICES}/v2.example.dev"), &accept, "")
        .await;
    let cells = table.body["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..3],
        [json!("v2.example.dev"), json!("Local"), json!("True")]
    );

    f.delete(&format!("{SERVICES}/v1.example.dev")).await;
    assert_eq!(f.get(&format!("{SERVICES}/v1.example.dev")).await.code, 200);
    f.delete(&format!("{DEFINITIONS}/widgets.example.dev"))
        .await;
    assert_eq!(f.get(&format!("{SERVICES}/v1.example.dev")).await.code, 200);
    assert_eq!(f.get(&format!("{SERVICES}/v2.example.dev")).await.code, 404);
    f.delete(&format!("{DEFINITIONS}/gadgets.example.dev"))
        .await;
    assert_eq!(f.get(&format!("{SERVICES}/v1.example.dev")).await.code, 404);
    assert_eq!(f.get(&format!("{SERVICES}/v1.apps")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_served_elsewhere_is_listed_and_unavailable() {
    let f = Fixture::start().await;
    let service = json!({
        "metadata": {"name": "v1.remote.dev"},
        "spec": {"group": "remote.dev", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "absent"}},
    });
    assert_eq!(f.json(&format!("POST {SERVICES}"), service).await.code, 201);
    let path = format!("{SERVICES}/v1.remote.dev");
    for below in ["", "/namespaces/default/things", "/things/a"] {
        let away = f.get(&format!("/apis/remote.dev/v1{below}")).await;
        assert_eq!(
            (away.code, away.body),
            (503, json!("service unavailable\n"))
        );
    }
    let group = f.get("/apis/remote.dev").await;
    assert_eq!(
        group.body["preferredVersion"]["groupVersion"],
        "remote.dev/v1"
    );
    let groups = f.get("/apis").await.body["groups"].clone();
    let is_listed = |groups: &Value| {
        let mut groups = groups.as_array().unwrap().iter();
        groups.any(|group| group["name"] == "remote.dev")
    };
    assert!(is_listed(&groups));
    f.delete(&path).await;
    assert_eq!(f.get("/apis/remote.dev/v1").await.code, 404);
    assert!(!is_listed(&f.get("/apis").await.body["groups"]));
}
