//! What readers see of what this program writes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_write_names_the_program_and_is_seen_by_cached_reads_at_once() {
    let (client, mut api, informer, watch) = with_cache().await;
    let object = map(10, json!({"k": "new"}));
    let written = both(client.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        assert!(call.has("fieldManager=bar-controller"));
        assert_eq!(call.headers["user-agent"], "bar-controller");
        assert_eq!(call.json(), json_map(10, json!({"k": "new"})));
        call.answer(200, json_map(12, json!({"k": "new"})));
    });
    assert_eq!(written.await.unwrap().version(), 12);
    assert_eq!(cached(&informer), Some(json!({"k": "new"})));
    // An older state on the watch does not bring back what was overwritten.
    watch.event("MODIFIED", json_map(11, json!({"k": "other"})));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cached(&informer), Some(json!({"k": "new"})));
    watch.event("MODIFIED", json_map(13, json!({"k": "newer"})));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cached(&informer), Some(json!({"k": "newer"})));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_asked_for_and_not_seen() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let client = client.dry_run();
    let object = map(10, json!({"k": "new"}));
    let answer = async {
        let call = api.expect(Method::PUT, ONE).await;
        assert!(call.has("dryRun=All"));
        call.answer(200, json_map(12, json!({"k": "new"})));
    };
    both(client.update(&object), answer).await.unwrap();
    assert_eq!(cached(&informer), Some(json!({"k": "old"})));
}

#[tokio::test(start_paused = true)]
async fn what_is_written_as_json_is_seen_by_readers_of_the_type() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let object = DynamicObject::new("two", &resource).within("a");
    let kind = client.of_kind::<DynamicObject>(Kind::from(&resource));
    let answer = async {
        let call = api.expect(Method::POST, PATH).await;
        assert_eq!(call.json()["kind"], "ConfigMap");
        let meta = json!({"namespace": "a", "name": "two", "uid": "u2", "resourceVersion": "11"});
        call.answer(201, json!({"metadata": meta, "data": {"k": "v"}}));
    };
    both(kind.create(&object), answer).await.unwrap();
    let two = informer.snapshot().get(&"a/two".into()).unwrap();
    assert_eq!(two.data.as_ref().unwrap()["k"], "v");
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_gone_for_readers_until_its_name_is_used_again() {
    let (client, mut api, informer, watch) = with_cache().await;
    let one = informer.snapshot().get(&"a/one".into()).unwrap();
    let answer = async {
        let call = api.expect(Method::DELETE, ONE).await;
        assert_eq!(call.json()["preconditions"], json!({"uid": "u1"}));
        assert_eq!(call.json()["propagationPolicy"], "Orphan");
        let details = json!({"name": "one", "kind": "configmaps", "uid": "u1"});
        call.answer(
            200,
            json!({"kind": "Status", "status": "Success", "details": details}),
        );
    };
    let delete = client.delete(&one).propagation(Propagation::Orphan);
    assert_eq!(
        both(delete.into_future(), answer).await.unwrap(),
        Deletion::Done
    );
    assert_eq!(cached(&informer), None);
    // The watch is still behind.
    watch.event("MODIFIED", json_map(11, json!({"k": "x"})));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cached(&informer), None);
    watch.event("DELETED", json_map(12, json!({})));
    let mut again = json_map(13, json!({"k": "again"}));
    again["metadata"]["uid"] = json!("u2");
    watch.event("ADDED", again);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cached(&informer), Some(json!({"k": "again"})));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_has_only_begun_shows_the_object_as_marked() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let mut marked = json_map(11, json!({"k": "old"}));
    marked["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    marked["metadata"]["finalizers"] = json!(["example.dev/wait"]);
    let key = ObjectKey::from("a/one");
    let answer = async {
        let call = api.expect(Method::DELETE, ONE).await;
        assert_eq!(call.json().get("preconditions"), None);
        call.answer(200, marked.clone());
    };
    let delete = client.delete::<ConfigMap>(&key).into_future();
    assert_eq!(both(delete, answer).await.unwrap(), Deletion::Begun);
    let one = informer.snapshot().get(&key).unwrap();
    assert!(one.is_being_deleted());

    // The last finalizer goes: the answer is the object as it was.
    marked["metadata"]["finalizers"] = Value::Null;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let answer = async {
        let call = api.expect(Method::PATCH, ONE).await;
        assert_eq!(call.headers["content-type"], "application/merge-patch+json");
        assert_eq!(call.json()["metadata"]["uid"], "u1");
        call.answer(200, marked.clone());
    };
    both(client.patch(&one, patch), answer).await.unwrap();
    assert_eq!(cached(&informer), None);
}

#[tokio::test(start_paused = true)]
async fn deleting_what_is_not_there_is_no_error() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let one = informer.snapshot().get(&"a/one".into()).unwrap();
    let answer = async {
        let call = api.expect(Method::DELETE, ONE).await;
        call.fail(404, "NotFound", "configmaps \"one\" not found");
    };
    let outcome = both(client.delete(&one).into_future(), answer).await;
    assert_eq!(outcome.unwrap(), Deletion::NotThere);
    assert_eq!(cached(&informer), None);

    let answer = async {
        let call = api.expect(Method::DELETE, ONE).await;
        call.fail(
            409,
            "Conflict",
            "the UID in the precondition does not match",
        );
    };
    let outcome = both(client.delete(&one).into_future(), answer).await;
    assert_eq!(outcome.unwrap(), Deletion::NotThere);

    let versioned = client.delete(&one).if_unchanged_since(10).into_future();
    let answer = async {
        let call = api.expect(Method::DELETE, ONE).await;
        assert_eq!(call.json()["preconditions"]["resourceVersion"], "10");
        call.fail(409, "Conflict", "the object has been modified");
    };
    assert!(both(versioned, answer).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn live_reads_ask_the_api_page_by_page() {
    let (client, mut api) = client();
    let selection = Selection::in_namespace("a");
    let answers = async {
        let call = api.expect(Method::GET, PATH).await;
        call.page(9, "next", &[json_map(1, json!({}))]);
        let call = api.expect(Method::GET, PATH).await;
        assert!(call.has("continue=next") && call.has("limit=500"));
        call.page(9, "", &[json_map(2, json!({}))]);
    };
    let live = client.live();
    let all = both(live.list::<ConfigMap>(&selection), answers)
        .await
        .unwrap();
    assert_eq!(all.len(), 2);

    let answer = async {
        let call = api.expect(Method::GET, ONE).await;
        call.fail(404, "NotFound", "configmaps \"one\" not found");
    };
    let none = both(live.get::<ConfigMap>("a/one"), answer).await.unwrap();
    assert!(none.is_none());

    let answer = async {
        let call = api.expect(Method::GET, ONE).await;
        call.answer(404, "404 page not found");
    };
    let error = both(live.get::<ConfigMap>("a/one"), answer)
        .await
        .unwrap_err();
    assert!(error.is_not_served());
}
