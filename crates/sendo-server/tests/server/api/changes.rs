//! Patches and subresources.

use serde_json::json;

use super::support::Fixture;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

const JSON: [(&str, &str); 1] = [("content-type", "application/json-patch+json")];
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];
const STRATEGIC: [(&str, &str); 1] = [("content-type", "application/strategic-merge-patch+json")];

async fn with_pod(spec: serde_json::Value) -> Fixture {
    let f = Fixture::start().await;
    let mut pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {
        "containers": [{"name": "c", "image": "i:1"}],
    }});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let created = f.json(&format!("POST {PODS}"), pod).await;
    assert_eq!(created.code, 201, "{}", created.body);
    f
}

async fn with_set() -> Fixture {
    let f = Fixture::start().await;
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    }});
    let created = f.json(&format!("POST {SETS}"), set).await;
    assert_eq!(created.code, 201, "{}", created.body);
    f
}

#[tokio::test(start_paused = true)]
async fn each_patch_goes_by_its_own_rules() {
    let f = Fixture::start().await;
    f.json(
        &format!("POST {MAPS}"),
        json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}}),
    )
    .await;
    let path = format!("PATCH {MAPS}/a");
    let patched = f
        .call(
            &path,
            &JSON,
            r#"[{"op":"replace","path":"/data/k","value":"2"}]"#,
        )
        .await;
    assert_eq!(patched.body["data"], json!({"k": "2", "l": "1"}));
    let patched = f
        .call(&path, &MERGE, r#"{"data":{"l":null,"m":"3"}}"#)
        .await;
    assert_eq!(patched.body["data"], json!({"k": "2", "m": "3"}));
    let refused = f
        .call(
            &path,
            &JSON,
            r#"[{"op":"test","path":"/data/k","value":"9"}]"#,
        )
        .await;
    assert_eq!(refused.code, 422);
    let foreign = f.call(&path, &[("content-type", "text/plain")], "x").await;
    assert_eq!(
        (foreign.code, &foreign.body["message"]),
        (415, &json!("415: Unsupported Media Type"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_number_with_a_fraction_counts_by_the_way_a_patch_is_read() {
    let f = with_set().await;
    let path = format!("PATCH {SETS}/s");
    let whole = r#"{"spec":{"replicas":3.0}}"#;
    let merged = f.call(&path, &MERGE, whole).await;
    assert_eq!(merged.code, 422);
    let refused = merged.body["message"].as_str().unwrap_or_default();
    assert!(refused.ends_with("cannot unmarshal number 3.0 into Go struct field ReplicaSetSpec.spec.replicas of type int32"), "{refused}");
    let replaced = r#"[{"op":"replace","path":"/spec/replicas","value":3.0}]"#;
    assert_eq!(f.call(&path, &JSON, replaced).await.code, 422);
    let strategic = f.call(&path, &STRATEGIC, whole).await;
    assert_eq!(strategic.body["spec"]["replicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_refused_strategic_patch_is_shown_without_what_it_has_done() {
    let f = with_set().await;
    let patch = r#"{"spec":{"$retainKeys":["replicas","selector","template"],"replicas":"x"}}"#;
    let refused = f.call(&format!("PATCH {SETS}/s"), &STRATEGIC, patch).await;
    assert_eq!(
        refused.refusal(),
        (
            422,
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:x]]\": unrecognized type: int32".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_patch_leaves_an_object_of_its_kind() {
    let f = Fixture::start().await;
    let map = json!({"metadata": {"name": "a"}});
    f.json(&format!("POST {MAPS}"), map).await;
    let unreadable = "couldn't get version/kind; json parse error: json: cannot unmarshal number \
                      into Go struct field .kind of type string";
    let cases = [
        (r#"{"apiVersion":null}"#, 400, "name must be provided"),
        (r#"{"apiVersion":""}"#, 400, "name must be provided"),
        (r#"{"kind":null}"#, 200, ""),
        (r#"{"kind":5}"#, 422, unreadable),
        (
            r#"{"kind":"Odd"}"#,
            422,
            "no kind \"Odd\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            r#"{"kind":"Odd","apiVersion":null}"#,
            422,
            "no kind \"Odd\" is registered for the internal version of group \"\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (patch, code, end) in cases {
        let answer = f.call(&format!("PATCH {MAPS}/a"), &MERGE, patch).await;
        let (found, message) = answer.refusal();
        assert_eq!(found, code, "{patch}: {message}");
        assert!(message.ends_with(end), "{patch}: {message}");
    }
    let patch = r#"{"kind":5}"#;
    let refused = f.call(&format!("PATCH {MAPS}/a"), &STRATEGIC, patch).await;
    assert!(
        refused
            .refusal()
            .1
            .ends_with("\"map[kind:5]\": cannot convert int64 to string")
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_version_no_field_of_a_patched_object_is_known() {
    let f = with_set().await;
    let patch = |validation: &str| format!("PATCH {SETS}/s?fieldValidation={validation}");
    let unversioned = r#"{"apiVersion": null, "spec": {"replicas": 7}}"#;
    let unknown = ["metadata", "spec", "status"].map(|name| format!("unknown field {name:?}"));

    let strict = f.call(&patch("Strict"), &MERGE, unversioned).await;
    assert_eq!(strict.code, 422);
    let message = strict.body["message"].as_str().unwrap();
    let told = format!("strict decoding error: {}", unknown.join(", "));
    assert!(message.ends_with(&told), "{message}");

    let warned = f.call(&patch("Warn"), &MERGE, unversioned).await;
    assert_eq!((warned.code, warned.warnings.len()), (400, unknown.len()));
    let ignored = f.call(&patch("Ignore"), &MERGE, unversioned).await;
    assert_eq!((ignored.code, ignored.warnings.len()), (400, 0));
    assert_eq!(
        f.get(&format!("{SETS}/s")).await.body["spec"]["replicas"],
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_merges_containers_by_name() {
    let f = with_set().await;
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j:1"}]}}}}"#;
    let patched = f.call(&format!("PATCH {SETS}/s"), &STRATEGIC, patch).await;
    let containers = patched.body["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 2);
    assert_eq!(patched.body["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_a_version_that_is_gone_is_a_conflict() {
    let f = Fixture::start().await;
    f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": "a"}}))
        .await;
    let patch = r#"{"metadata":{"resourceVersion":"1"},"data":{"k":"1"}}"#;
    let refused = f.call(&format!("PATCH {MAPS}/a"), &MERGE, patch).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (409, &json!("Conflict"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_write_moves_no_generation_and_no_spec() {
    let f = with_set().await;
    let patch = r#"{"spec":{"replicas":9},"status":{"replicas":1}}"#;
    let patched = f
        .call(&format!("PATCH {SETS}/s/status"), &MERGE, patch)
        .await;
    assert_eq!(patched.body["status"]["replicas"], 1);
    assert_eq!(
        (
            &patched.body["spec"]["replicas"],
            &patched.body["metadata"]["generation"]
        ),
        (&json!(2), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_scale_shows_replicas_and_selector() {
    let f = with_set().await;
    let scale = f.get(&format!("{SETS}/s/scale")).await;
    assert_eq!(
        (&scale.body["spec"], &scale.body["status"]),
        (
            &json!({"replicas": 2}),
            &json!({"replicas": 0, "selector": "app=x"})
        )
    );
    let scaled = f
        .call(
            &format!("PATCH {SETS}/s/scale"),
            &MERGE,
            r#"{"spec":{"replicas":5}}"#,
        )
        .await;
    assert_eq!(scaled.body["spec"]["replicas"], 5);
    let set = f.get(&format!("{SETS}/s")).await;
    assert_eq!(
        (
            &set.body["spec"]["replicas"],
            &set.body["metadata"]["generation"]
        ),
        (&json!(5), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let f = with_pod(json!({})).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(
        f.json(&format!("POST {PODS}/p/binding"), binding.clone())
            .await
            .code,
        201
    );
    let pod = f.get(&format!("{PODS}/p")).await;
    assert_eq!(pod.body["spec"]["nodeName"], "n");
    assert_eq!(pod.body["status"]["conditions"][0]["type"], "PodScheduled");
    let again = f.json(&format!("POST {PODS}/p/binding"), binding).await;
    let expected = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
    assert_eq!(
        (again.code, again.body["message"].as_str()),
        (409, Some(expected))
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_goes_gracefully_and_an_unbound_one_at_once() {
    let f = with_pod(json!({"nodeName": "n"})).await;
    let deleted = f.delete(&format!("{PODS}/p")).await;
    assert_eq!(
        deleted.body["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    assert_eq!(deleted.body["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(f.get(&format!("{PODS}/p")).await.code, 200);
    f.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await;
    assert_eq!(f.get(&format!("{PODS}/p")).await.code, 404);

    let f = with_pod(json!({})).await;
    let mut watch = f.watch(&format!("{PODS}?watch=1")).await;
    f.delete(&format!("{PODS}/p")).await;
    assert_eq!(watch.names(3).await, ["ADDED p", "MODIFIED p", "DELETED p"]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_asks_the_budget() {
    let f = with_pod(json!({})).await;
    let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    f.call(&format!("PATCH {PODS}/p/status"), &STRATEGIC, ready)
        .await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    f.json(&format!("POST {budgets}"), budget).await;
    let status = r#"{"status":{"observedGeneration":1,"currentHealthy":1,"desiredHealthy":1}}"#;
    f.call(&format!("PATCH {budgets}/b/status"), &MERGE, status)
        .await;
    let eviction = json!({"metadata": {"name": "p"}});
    let refused = f
        .json(&format!("POST {PODS}/p/eviction"), eviction.clone())
        .await;
    assert_eq!(
        (
            refused.code,
            &refused.body["details"]["causes"][0]["reason"]
        ),
        (429, &json!("DisruptionBudget"))
    );
    f.delete(&format!("{budgets}/b")).await;
    assert_eq!(
        f.json(&format!("POST {PODS}/p/eviction"), eviction)
            .await
            .code,
        201
    );
    assert_eq!(f.get(&format!("{PODS}/p")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_tells_why_it_goes() {
    let f = with_pod(json!({"nodeName": "n"})).await;
    let version = f.get(&format!("{PODS}/p")).await.body["metadata"]["resourceVersion"].clone();
    // Clients of the version before the present one go on.
    let eviction = |version: &serde_json::Value| json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"resourceVersion": version}}});
    let path = format!("POST {PODS}/p/eviction");
    assert_eq!(f.json(&path, eviction(&json!("1"))).await.code, 409);
    let tried = f
        .json(&format!("{path}?dryRun=All"), eviction(&version))
        .await;
    assert_eq!(tried.code, 201);
    let pod = f.get(&format!("{PODS}/p")).await;
    assert!(pod.body["status"]["conditions"].is_null());
    assert_eq!(f.json(&path, eviction(&version)).await.code, 201);
    let pod = f.get(&format!("{PODS}/p")).await;
    assert_eq!(pod.body["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        pod.body["status"]["conditions"],
        json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_meant_for_another_incarnation_is_refused() {
    let f = with_pod(json!({})).await;
    let uid = f.get(&format!("{PODS}/p")).await.body["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    let binding =
        json!({"metadata": {"name": "p", "uid": "other"}, "target": {"kind": "Node", "name": "n"}});
    for (query, root) in [("", "/registry"), ("?dryRun=All", "")] {
        let refused = f
            .json(&format!("POST {PODS}/p/binding{query}"), binding.clone())
            .await;
        let expected = format!(
            "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: {root}/pods/default/p, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        );
        assert_eq!(
            (refused.code, refused.body["message"].as_str()),
            (409, Some(expected.as_str()))
        );
    }
    // A collection takes no uid, but needs a name.
    let path = "POST /api/v1/namespaces/default/bindings";
    assert_eq!(f.json(path, binding).await.code, 201);
    let nameless = f.json(path, json!({"target": {"name": "n"}})).await;
    assert_eq!(nameless.body["message"], "Name parameter required.");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_resized_as_far_as_its_node_goes() {
    let f = with_pod(json!({"nodeName": "n"})).await;
    let path = format!("PATCH {PODS}/p/resize");
    let patch = |cpu: &str| {
        format!(
            r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
        )
    };
    let refused = f.call(&path, &STRATEGIC, patch("1")).await;
    assert_eq!(refused.code, 422, "{}", refused.body);

    let f = with_pod(json!({"nodeName": "n", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
    ]}))
    .await;
    let refused = f.call(&path, &STRATEGIC, patch("2")).await;
    assert_eq!(
        (refused.code, refused.body["message"].as_str()),
        (403, Some("pods \"p\" is forbidden: node \"n\" not found"))
    );
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2"}}});
    f.json("POST /api/v1/nodes", node).await;
    let resized = f.call(&path, &STRATEGIC, patch("2")).await;
    assert_eq!(resized.code, 200, "{}", resized.body);
    let refused = f.call(&path, &STRATEGIC, patch("2100m")).await;
    assert_eq!(
        (
            refused.body["message"].as_str(),
            refused.body["details"]["causes"][0]["reason"].as_str()
        ),
        (
            Some(
                "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2100, allocatable: 2000"
            ),
            Some("NodeCapacity")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_its_finalizers() {
    let f = Fixture::start().await;
    f.json(
        "POST /api/v1/namespaces",
        json!({"metadata": {"name": "n"}}),
    )
    .await;
    let deleted = f.delete("/api/v1/namespaces/n").await;
    assert_eq!(deleted.body["status"]["phase"], "Terminating");
    let refused = f
        .json(
            "POST /api/v1/namespaces/n/configmaps",
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(
        (
            refused.code,
            &refused.body["details"]["causes"][0]["reason"]
        ),
        (403, &json!("NamespaceTerminating"))
    );
    let free = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    assert_eq!(
        f.json("PUT /api/v1/namespaces/n/finalize", free).await.code,
        200
    );
    f.delete("/api/v1/namespaces/n").await;
    assert_eq!(f.get("/api/v1/namespaces/n").await.code, 404);
    assert_eq!(f.delete("/api/v1/namespaces/default").await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_is_given_priority_account_and_tolerations() {
    let f = with_pod(json!({})).await;
    let pod = f.get(&format!("{PODS}/p")).await;
    assert_eq!(
        (
            &pod.body["spec"]["priority"],
            &pod.body["spec"]["serviceAccountName"]
        ),
        (&json!(0), &json!("default"))
    );
    assert_eq!(pod.body["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_of_a_wrong_type_is_shown_itself() {
    let f = Fixture::start().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}});
    f.json(&format!("POST {secrets}"), secret).await;
    let patch = json!({"type": 5}).to_string();
    let answer = f
        .call(&format!("PATCH {secrets}/s"), &STRATEGIC, patch)
        .await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    let why = "patch: Invalid value: \"map[type:5]\": cannot convert int64 to v1.SecretType";
    let said = answer.body["message"].as_str().unwrap_or_default();
    assert!(said.ends_with(why), "{said}");
}
