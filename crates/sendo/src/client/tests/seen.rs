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
        call.fail(409, "Conflict", "something has changed");
        let call = api.expect(Method::GET, ONE).await;
        call.fail(404, "NotFound", "configmaps \"one\" not found");
    };
    let outcome = both(client.delete(&one).into_future(), answer).await;
    assert_eq!(outcome.unwrap(), Deletion::NotThere);

    // The words of a real server, which say it without another look.
    for words in [
        "Precondition failed: UID in precondition: u1, UID in object meta: u2",
        "the UID in the precondition (u1) does not match the UID in record (u2)",
    ] {
        let answer = async {
            let call = api.expect(Method::DELETE, ONE).await;
            call.fail(409, "Conflict", words);
        };
        let outcome = both(client.delete(&one).into_future(), answer).await;
        assert_eq!(outcome.unwrap(), Deletion::NotThere);
    }

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

/// The answer to a write of metadata alone.
fn described(version: u64, labels: Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {
        "namespace": "a", "name": "one", "uid": "u1", "labels": labels,
        "resourceVersion": version.to_string()}})
}

/// Labels `a/one`, by its metadata, which the API server answers with.
async fn label(client: &Client, api: &mut FakeApi, version: u64, labels: Value) {
    let kind = client.of_kind::<AnyMeta>(Kind::of::<ConfigMap>());
    let (key, patch) = (
        ObjectKey::from("a/one"),
        Patch::Merge(json!({"metadata": {"labels": labels}})),
    );
    let written = both(kind.patch(&key, patch), async {
        let call = api.expect(Method::PATCH, ONE).await;
        call.answer(200, described(version, labels.clone()));
    });
    assert_eq!(written.await.unwrap().version(), version);
}

/// A ConfigMap as JSON, whatever type it is read as.
fn shown<K: crate::object::Object>(informer: &Informer<K>) -> Value {
    let one = informer.snapshot().get(&"a/one".into());
    json!(*one.expect("it is shown"))
}

async fn metadata_writes_leave_the_rest<K: crate::object::Object>(options: KindOptions<K>) {
    let kind = Kind::of::<ConfigMap>();
    let (client, mut api) = client_with(CacheOptions {
        streaming: false,
        ..CacheOptions::default().kind_named(kind.clone(), options)
    });
    let informer: Informer<K> = client.cache().informer(kind, Selection::default());
    let call = api.expect_list("/api/v1/configmaps").await;
    call.list(10, &[json_map(10, json!({"k": "old"}))]);
    let watch = api.expect_watch("/api/v1/configmaps").await.open(200);
    informer.synced().await;

    label(&client, &mut api, 12, json!({"l": "1"})).await;
    let one = shown(&informer);
    assert_eq!(one["data"], json!({"k": "old"}), "the rest stays");
    assert_eq!(
        one["metadata"]["labels"],
        json!({"l": "1"}),
        "and it is seen"
    );
    // Somebody may have changed the rest between: to write it back is a conflict.
    assert_eq!(one["metadata"]["resourceVersion"], "10");
    label(&client, &mut api, 13, json!({"l": "2"})).await;
    assert_eq!(shown(&informer)["metadata"]["labels"], json!({"l": "2"}));

    watch.event("MODIFIED", json_map(11, json!({"k": "theirs"})));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let one = shown(&informer);
    assert_eq!(one["data"], json!({"k": "theirs"}), "what the watch shows");
    assert_eq!(one["metadata"]["labels"], json!({"l": "2"}), "never behind");
    assert_eq!(one["metadata"]["resourceVersion"], "11");

    let mut last = json_map(14, json!({"k": "newer"}));
    last["metadata"]["labels"] = json!({"l": "3"});
    watch.event("MODIFIED", last);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let one = shown(&informer);
    assert_eq!(one["data"], json!({"k": "newer"}));
    assert_eq!(one["metadata"]["labels"], json!({"l": "3"}));
}

mod loose {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::Value;

    /// A ConfigMap of which everything may be missing, its kind included.
    #[derive(Clone, Debug, serde::Deserialize, serde::Serialize, kube::Resource)]
    #[resource(inherit = ConfigMap)]
    pub(super) struct Loose {
        metadata: ObjectMeta,
        data: Option<Value>,
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_metadata_leaves_the_rest_of_cached_objects_as_it_is() {
    metadata_writes_leave_the_rest(KindOptions::<loose::Loose>::new()).await;
    metadata_writes_leave_the_rest(KindOptions::<ConfigMap>::new()).await;
    metadata_writes_leave_the_rest(KindOptions::<ConfigMap>::new().compact()).await;
    metadata_writes_leave_the_rest(KindOptions::<DynamicObject>::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_of_metadata_to_what_a_transform_keeps_is_left_to_the_watch() {
    let options = KindOptions::<ConfigMap>::new().transform(|map| map.metadata.labels = None);
    let (client, mut api) = client_with(CacheOptions {
        streaming: false,
        ..CacheOptions::default().kind(options)
    });
    let kind = Kind::of::<ConfigMap>();
    let informer: Informer<ConfigMap> = client.cache().informer(kind, Selection::default());
    let call = api.expect_list("/api/v1/configmaps").await;
    call.list(10, &[json_map(10, json!({"k": "old"}))]);
    let _watch = api.expect_watch("/api/v1/configmaps").await.open(200);
    informer.synced().await;
    label(&client, &mut api, 12, json!({"l": "1"})).await;
    assert_eq!(shown(&informer), json_map(10, json!({"k": "old"})));
}

#[tokio::test(start_paused = true)]
async fn metadata_that_take_an_object_out_of_the_selection_hide_it() {
    let (client, mut api) = client();
    let kind = Kind::of::<ConfigMap>();
    let selection = Selection {
        labels: "l=1".parse().unwrap(),
        ..Selection::default()
    };
    let informer: Informer<ConfigMap> = client.cache().informer(kind, selection);
    let call = api.expect_list("/api/v1/configmaps").await;
    let mut one = json_map(10, json!({"k": "old"}));
    one["metadata"]["labels"] = json!({"l": "1"});
    call.list(10, &[one]);
    let _watch = api.expect_watch("/api/v1/configmaps").await.open(200);
    informer.synced().await;
    label(&client, &mut api, 12, json!({"l": "2"})).await;
    assert_eq!(cached(&informer), None);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_answers_a_deletion_is_never_shown_as_an_object() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let meta = client.of_kind::<AnyMeta>(Kind::of::<ConfigMap>());
    let key = ObjectKey::from("a/one");
    let delete = meta.delete(&key).into_future();
    let deleted = both(delete, async {
        let call = api.expect(Method::DELETE, ONE).await;
        let details = json!({"name": "one", "kind": "configmaps", "uid": "u1"});
        call.answer(
            200,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details}),
        );
    });
    assert_eq!(deleted.await.unwrap(), Deletion::Done);
    assert_eq!(cached(&informer), None);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_over_a_deletion_does_not_mean_that_the_object_is_gone() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let one = informer.snapshot().get(&"a/one".into()).unwrap();
    // As of a namespace that is on its way out, for one.
    for readable in [true, false] {
        let outcome = both(client.delete(&one).into_future(), async {
            let call = api.expect(Method::DELETE, ONE).await;
            call.fail(409, "Conflict", "content is being removed");
            let call = api.expect(Method::GET, ONE).await;
            match readable {
                true => call.answer(200, json_map(10, json!({"k": "old"}))),
                false => call.fail(403, "Forbidden", "cannot get configmaps"),
            }
        });
        assert!(outcome.await.unwrap_err().is_conflict());
        assert_eq!(cached(&informer), Some(json!({"k": "old"})));
    }
}
