//! Creating, reading, listing, changing and deleting objects, in this process.

use super::support::Fixture;
use http_body_util::BodyExt as _;
use sendo_server::User;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn an_object_lives_from_creation_to_deletion() {
    let f = Fixture::start().await;
    let created = f
        .json(
            &format!("POST {MAPS}"),
            json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
        )
        .await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body["kind"], "ConfigMap");
    assert_eq!(
        created.body["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(created.body["metadata"]["namespace"], "default");

    let read = f.get(&format!("{MAPS}/a")).await;
    assert_eq!((read.code, &read.body), (200, &created.body));

    let list = f.get(MAPS).await;
    assert_eq!(list.body["kind"], "ConfigMapList");
    assert_eq!(list.body["items"][0]["data"], json!({"k": "v"}));
    assert_eq!(list.body["items"][0].get("kind"), None);

    let mut changed = created.body.clone();
    changed["data"]["k"] = "w".into();
    let updated = f.json(&format!("PUT {MAPS}/a"), changed.clone()).await;
    assert_eq!(updated.code, 200);
    assert_ne!(
        updated.body["metadata"]["resourceVersion"],
        created.body["metadata"]["resourceVersion"]
    );

    let stale = f.json(&format!("PUT {MAPS}/a"), changed).await;
    assert_eq!(
        (stale.code, &stale.body["reason"]),
        (409, &json!("Conflict"))
    );

    let deleted = f.delete(&format!("{MAPS}/a")).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(
        deleted.body["details"]["uid"],
        created.body["metadata"]["uid"]
    );
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_once() {
    let f = Fixture::start().await;
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(
        f.json(&format!("POST {MAPS}"), object.clone()).await.code,
        201
    );
    let again = f.json(&format!("POST {MAPS}"), object).await;
    assert_eq!(again.code, 409);
    assert_eq!(again.body["message"], "configmaps \"a\" already exists");
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_has_five_characters_more() {
    let f = Fixture::start().await;
    let created = f
        .json(
            &format!("POST {MAPS}"),
            json!({"metadata": {"generateName": "x-"}}),
        )
        .await;
    let name = created.body["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..2]), (7, "x-"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let f = Fixture::start().await;
    let created = f
        .json(
            &format!("POST {MAPS}"),
            json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
        )
        .await;
    let same = f
        .json(
            &format!("PUT {MAPS}/a"),
            json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
        )
        .await;
    assert_eq!(same.body, created.body);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_keeps_nothing() {
    let f = Fixture::start().await;
    let created = f
        .json(
            &format!("POST {MAPS}?dryRun=All"),
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body["metadata"].get("resourceVersion"), None);
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_absent_namespace_takes_no_objects_and_lists_as_empty() {
    let f = Fixture::start().await;
    let created = f
        .json(
            "POST /api/v1/namespaces/nope/configmaps",
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(created.code, 404);
    assert_eq!(created.body["message"], "namespaces \"nope\" not found");
    let list = f.get("/api/v1/namespaces/nope/configmaps").await;
    assert_eq!((list.code, &list.body["items"]), (200, &json!([])));
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_an_object_until_the_last_is_gone() {
    let f = Fixture::start().await;
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.dev/x"]}});
    f.json(&format!("POST {MAPS}"), object).await;
    let deleted = f.delete(&format!("{MAPS}/a")).await;
    assert_eq!(
        deleted.body["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(deleted.body["metadata"]["deletionGracePeriodSeconds"], 0);

    let again = f
        .json(&format!("POST {MAPS}"), json!({"metadata": {"name": "a"}}))
        .await;
    assert_eq!(
        again.body["message"],
        "object is being deleted: configmaps \"a\" already exists"
    );

    let mut free = deleted.body.clone();
    free["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    let last = f.json(&format!("PUT {MAPS}/a"), free).await;
    assert_eq!(last.code, 200);
    assert_eq!(
        last.body["metadata"]["resourceVersion"],
        deleted.body["metadata"]["resourceVersion"]
    );
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_name_the_kind_when_they_do_not_hold() {
    let f = Fixture::start().await;
    f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": "a"}}))
        .await;
    let refused = f
        .json(
            &format!("DELETE {MAPS}/a"),
            json!({"preconditions": {"uid": "other"}}),
        )
        .await;
    assert_eq!(
        (refused.code, &refused.body["details"]["kind"]),
        (409, &json!("ConfigMap"))
    );
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_sent_in_pieces_is_one_document() {
    let f = Fixture::start().await;
    let large = "x".repeat(100_000);
    for number in 0..9 {
        let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"k": large}});
        f.json(&format!("POST {MAPS}"), map).await;
    }
    let request = http::Request::get(MAPS).body(Default::default()).unwrap();
    let mut body = f.send(User::admin(), request).await.into_body();
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        pieces.push(frame.unwrap().into_data().unwrap());
    }
    assert!(pieces.len() > 1, "it came in one piece");
    let list: Value = serde_json::from_slice(&pieces.concat()).unwrap();
    let names = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].clone()).collect()
    };
    let expected: Vec<Value> = (0..9).map(|number| format!("m-{number}").into()).collect();
    assert_eq!(names(&list), expected);
    let lines = f.get(&format!("{MAPS}?pretty=true")).await;
    assert_eq!(lines.body, list);
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_state_and_count_what_remains() {
    let f = Fixture::start().await;
    for name in ["a", "b", "c"] {
        f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": name}}))
            .await;
    }
    let first = f.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(first.body["metadata"]["remainingItemCount"], 1);
    f.delete(&format!("{MAPS}/c")).await;
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let rest = f.get(&format!("{MAPS}?continue={token}")).await;
    assert_eq!(rest.body["items"][0]["metadata"]["name"], "c");
    assert_eq!(
        rest.body["metadata"]["resourceVersion"],
        first.body["metadata"]["resourceVersion"]
    );
    assert_eq!(rest.body["metadata"].get("continue"), None);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_and_unknown_fields_are_refused() {
    let f = Fixture::start().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        f.json(
            &format!("POST {MAPS}"),
            json!({"metadata": {"name": name, "labels": {"app": app}}}),
        )
        .await;
    }
    let names = |body: &serde_json::Value| -> Vec<String> {
        let items = body["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let chosen = f
        .get(&format!("{MAPS}?labelSelector=app%3Dx&limit=1"))
        .await;
    assert_eq!(names(&chosen.body), ["a"]);
    assert_eq!(chosen.body["metadata"].get("remainingItemCount"), None);
    let one = f
        .get(&format!("{MAPS}?fieldSelector=metadata.name%3Db"))
        .await;
    assert_eq!(names(&one.body), ["b"]);
    assert_eq!(
        f.get(&format!("{MAPS}?fieldSelector=data%3Db")).await.code,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_and_shown_as_it_was() {
    let f = Fixture::start().await;
    for name in ["a", "b"] {
        f.json(&format!("POST {MAPS}"), json!({"metadata": {"name": name}}))
            .await;
    }
    let deleted = f.delete(MAPS).await;
    assert_eq!(deleted.body["items"].as_array().unwrap().len(), 2);
    assert_eq!(f.get(MAPS).await.body["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_never_comes_times_out() {
    let f = Fixture::start().await;
    let before = f.world.clock().now();
    let answer = f.get(&format!("{MAPS}?resourceVersion=999999")).await;
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (504, &json!("Timeout"))
    );
    assert_eq!((f.world.clock().now() - before).as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_kube_needs_no_socket() {
    use kube::api::{Api, DynamicObject, PostParams};
    let f = Fixture::start().await;
    let client = kube::Client::new(f.server.client_service(), "default");
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let maps: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let object = DynamicObject::new("a", &resource).data(json!({"data": {"k": "v"}}));
    maps.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data["data"]["k"], "v");
    let missing = maps.get("b").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
}

/// Clients send what they have read again, and try it out first: what only the storage refuses
/// passes, as in Kubernetes.
#[tokio::test(start_paused = true)]
async fn a_creation_that_is_only_tried_may_have_a_resource_version() {
    let f = Fixture::start().await;
    let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let tried = f
        .json(&format!("POST {MAPS}?dryRun=All"), object.clone())
        .await;
    assert_eq!(
        (tried.code, &tried.body["metadata"]["resourceVersion"]),
        (201, &json!("7"))
    );
    let refused = f.json(&format!("POST {MAPS}"), object).await;
    let message = "resourceVersion should not be set on objects to be created";
    assert_eq!(refused.refusal(), (500, message.to_owned()));
    assert_eq!(f.get(&format!("{MAPS}/a")).await.code, 404);
}
