//! Changes: what is read for them, and what is sent.

use k8s_openapi::api::core::v1::PodStatus;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_reads_the_cache_first_and_the_api_after_a_conflict() {
    let (client, mut api, informer, _watch) = with_cache().await;
    let change = |map: &mut ConfigMap| {
        let data = map.data.get_or_insert_default();
        data.insert("mine".to_owned(), "1".to_owned());
    };
    let key = ObjectKey::from("a/one");
    let answers = async {
        let call = api.expect(Method::PUT, ONE).await;
        assert_eq!(call.json()["metadata"]["resourceVersion"], "10");
        call.fail(409, "Conflict", "the object has been modified");
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(15, json!({"theirs": "2"})));
        let call = api.expect(Method::PUT, ONE).await;
        assert_eq!(call.json()["data"], json!({"mine": "1", "theirs": "2"}));
        call.answer(200, json_map(16, json!({"mine": "1", "theirs": "2"})));
    };
    let modified = both(client.modify::<ConfigMap, _>(&key, change), answers).await;
    assert_eq!(modified.unwrap().version(), 16);
    // It is so already: nothing is written.
    let again = client.modify::<ConfigMap, _>(&key, change).await.unwrap();
    assert_eq!(again.version(), 16);
    assert_eq!(informer.snapshot().version(), 10);
    api.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_gives_up_after_five_conflicts() {
    let (client, mut api, _informer, _watch) = with_cache().await;
    let mut count = 0;
    let change = |map: &mut ConfigMap| {
        count += 1;
        map.data = Some([("count".to_owned(), count.to_string())].into());
    };
    let answers = async {
        for attempt in 1..=5 {
            if attempt > 1 {
                let call = api.expect(Method::GET, ONE).await;
                call.answer(200, json_map(10 + attempt, json!({})));
            }
            api.expect(Method::PUT, ONE)
                .await
                .fail(409, "Conflict", "modified");
        }
    };
    let key = ObjectKey::from("a/one");
    let error = both(client.modify::<ConfigMap, _>(&key, change), answers).await;
    assert!(error.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn create_or_update_does_what_is_needed_and_no_more() {
    let (client, mut api, _informer, _watch) = with_cache().await;
    let mut template = map(0, Value::Null);
    template.metadata.uid = None;
    template.metadata.resource_version = None;
    let set = |map: &mut ConfigMap| map.data = Some([("k".to_owned(), "old".to_owned())].into());
    let outcome = client
        .create_or_update(template.clone(), set)
        .await
        .unwrap();
    assert!(matches!(outcome, OperationResult::Unchanged(_)));

    template.metadata.name = Some("two".to_owned());
    let answers = async {
        let call = api.expect(Method::GET, &format!("{PATH}/two")).await;
        call.fail(404, "NotFound", "configmaps \"two\" not found");
        let call = api.expect(Method::POST, PATH).await;
        assert_eq!(call.json()["data"], json!({"k": "old"}));
        call.answer(201, json_map(11, json!({"k": "old"})));
    };
    let outcome = both(client.create_or_update(template, set), answers).await;
    assert!(matches!(outcome, Ok(OperationResult::Created(_))));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_if_it_changes_and_only_what_changes() {
    let (client, mut api) = client();
    let pod = json!({"metadata": {"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "1"},
                     "status": {"phase": "Pending", "hostIP": "10.0.0.1"}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let same = client.status(&pod, |status| status.phase = Some("Pending".to_owned()));
    assert_eq!(same.await.unwrap(), None);
    let answer = async {
        let path = "/api/v1/namespaces/a/pods/p/status";
        let call = api.expect(Method::PATCH, path).await;
        let expected =
            json!({"metadata": {"uid": "u"}, "status": {"phase": "Running", "hostIP": null}});
        assert_eq!(call.json(), expected);
        call.answer(
            200,
            json!({"metadata": {"namespace": "a", "name": "p", "resourceVersion": "2"}}),
        );
    };
    let change = client.status(&pod, |status| {
        status.phase = Some("Running".to_owned());
        status.host_ip = None;
        "turned"
    });
    assert_eq!(both(change, answer).await.unwrap(), Some("turned"));
}

#[tokio::test(start_paused = true)]
async fn apply_says_its_kind_and_takes_over_fields() {
    let (client, mut api) = client();
    let object = map(7, json!({"k": "v"}));
    let answer = async {
        let call = api.expect(Method::PATCH, ONE).await;
        assert_eq!(call.headers["content-type"], "application/apply-patch+yaml");
        assert!(call.has("force=true") && call.has("fieldManager=web"));
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                              "metadata": {"namespace": "a", "name": "one"}});
        assert_eq!(call.json(), expected);
        call.answer(200, json_map(8, json!({"k": "v"})));
    };
    let client = client.with_field_manager("web");
    both(client.apply(&object), answer).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_subresource_is_written_under_its_object() {
    let (client, mut api) = client();
    let key = ObjectKey::from("a/p");
    let answer = async {
        let path = "/api/v1/namespaces/a/pods/p/binding";
        let call = api.expect(Method::POST, path).await;
        call.answer(201, json!({"kind": "Status", "status": "Success"}));
    };
    let binding = client.subresource::<Pod>(&key, "binding").unwrap();
    let target = json!({"target": {"kind": "Node", "name": "n"}});
    let status: Value = both(binding.create(&target), answer).await.unwrap();
    assert_eq!(status["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_its_namespace_is_refused_with_the_fix() {
    let (client, _api) = client();
    let mut pod = Pod::default();
    pod.metadata.name = Some("p".to_owned());
    let refused = client.create(&pod).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "pods/v1 live in namespaces: set `metadata.namespace`"
    );
    let refused = client.live().get::<Node>("a/n").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nodes/v1 live in no namespace, but `a/n` names one"
    );
    let refused = client.update(&ConfigMap::default()).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)));
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_patched_and_never_written_whole() {
    let (client, mut api) = client();
    type Meta = PartialObjectMeta<ConfigMap>;
    let meta: Meta = serde_json::from_value(json_map(1, Value::Null)).unwrap();
    let refused = client.update(&meta).await.unwrap_err();
    assert!(
        refused.to_string().contains("change it with a patch"),
        "{refused}"
    );
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let answer = async {
        let call = api.expect(Method::PATCH, ONE).await;
        let accept = call.headers["accept"].to_str().unwrap();
        assert!(accept.contains("as=PartialObjectMetadata;"));
        call.answer(200, json_map(3, Value::Null));
    };
    let key = ObjectKey::from("a/one");
    both(client.patch::<Meta>(&key, patch), answer)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_patch_says_what_changed_or_creates() {
    let (client, mut api, _informer, _watch) = with_cache().await;
    let set = |map: &mut ConfigMap| {
        map.data
            .get_or_insert_default()
            .insert("k".into(), "new".into());
    };
    let patched = both(client.create_or_patch(map(0, json!({})), set), async {
        let call = api.expect(Method::PATCH, ONE).await;
        assert_eq!(call.headers["content-type"], "application/merge-patch+json");
        assert_eq!(call.json()["data"], json!({"k": "new"}));
        call.answer(200, json_map(12, json!({"k": "new"})));
    });
    assert!(matches!(
        patched.await.unwrap(),
        OperationResult::Updated(_)
    ));
    let unchanged = client.create_or_patch(map(0, json!({})), set).await;
    assert!(matches!(unchanged.unwrap(), OperationResult::Unchanged(_)));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_refuses_writes_nothing() {
    let (client, mut api, _informer, _watch) = with_cache().await;
    let refuse = |_: &mut ConfigMap| -> crate::Result<()> { Err(crate::Error::message("theirs")) };
    let template = map(0, json!({}));
    for refused in [
        client
            .create_or_update(template.clone(), refuse)
            .await
            .map(drop),
        client
            .create_or_patch(template.clone(), refuse)
            .await
            .map(drop),
        client.modify(&template, refuse).await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), "theirs");
    }
    api.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_tried_again_whatever_is_done() {
    let (client, _api) = client();
    let conflict = || {
        let status = kube::core::Status::failure("changed", "Conflict").with_code(409);
        Error::Api(Box::new(status))
    };
    let mut tries = 0;
    let done = client.retry_on_conflict(async || {
        tries += 1;
        if tries < 3 {
            Err(conflict())
        } else {
            Ok(tries)
        }
    });
    assert_eq!(done.await.unwrap(), 3);
    let never = client.retry_on_conflict(async || Err::<(), _>(conflict()));
    assert!(never.await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_comes_before_what_it_guards_and_goes_after_the_clean_up() {
    const NAME: &str = "example.dev/clean";
    let (client, mut api, _informer, _watch) = with_cache().await;
    let cleaned = || async { Ok::<(), Error>(()) };
    let object = map(10, json!({"k": "old"}));
    let placed = both(client.finalizer(&object, NAME, cleaned), async {
        let call = api.expect(Method::PATCH, ONE).await;
        let meta = &call.json()["metadata"];
        assert_eq!(meta["finalizers"], json!([NAME]));
        assert_eq!(meta["resourceVersion"], "10");
        let mut answer = json_map(12, json!({"k": "old"}));
        answer["metadata"]["finalizers"] = json!([NAME]);
        call.answer(200, answer);
    });
    assert_eq!(placed.await.unwrap(), Finalizer::InPlace);
    // The cache knows it: nothing more is sent, though this object is older.
    let again = client.finalizer(&object, NAME, cleaned).await;
    assert_eq!(again.unwrap(), Finalizer::InPlace);

    let mut going = json_map(13, json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let bare: ConfigMap = serde_json::from_value(going.clone()).unwrap();
    let refused = || async { Err::<(), _>(Error::Refused("not now".to_owned())) };
    let gone = Finalizer::Going(Action::done());
    let nothing = client.finalizer(&bare, NAME, refused).await;
    assert_eq!(nothing.unwrap(), gone, "it is not ours to clean");
    going["metadata"]["finalizers"] = json!(["other", NAME]);
    let going: ConfigMap = serde_json::from_value(going).unwrap();
    let failed = client.finalizer(&going, NAME, refused).await;
    assert_eq!(failed.unwrap_err().to_string(), "not now");
    // What is not done yet leaves it in place, and says when to come again.
    let minute = Duration::from_secs(60);
    for (state, action) in [
        (CleanUp::Waiting, Action::done()),
        (CleanUp::Again(minute), Action::after(minute)),
    ] {
        let not_yet = || async move { Ok::<_, Error>(state) };
        let waits = client.finalizer(&going, NAME, not_yet).await;
        assert_eq!(waits.unwrap(), Finalizer::Going(action));
    }
    let done = both(client.finalizer(&going, NAME, cleaned), async {
        let call = api.expect(Method::PATCH, ONE).await;
        assert_eq!(call.json()["metadata"]["finalizers"], json!(["other"]));
        call.answer(200, json_map(14, json!({})));
    });
    assert_eq!(done.await.unwrap(), gone);
}

const STATUS: &str = "/api/v1/namespaces/a/pods/p/status";
const POD: &str = "/api/v1/namespaces/a/pods/p";

fn pod(uid: &str, version: u64, status: Value) -> Value {
    let version = version.to_string();
    json!({"metadata": {"namespace": "a", "name": "p", "uid": uid, "resourceVersion": version},
           "status": status})
}

fn fail(status: &mut PodStatus) {
    status.phase = Some("Failed".to_owned());
}

#[tokio::test(start_paused = true)]
async fn the_status_of_what_is_gone_is_not_written_and_no_error() {
    let (client, mut api) = client();
    let object: Pod = serde_json::from_value(pod("u", 3, json!({}))).unwrap();
    let written = both(client.status(&object, fail), async {
        let call = api.expect(Method::PATCH, STATUS).await;
        call.fail(404, "NotFound", "pods \"p\" not found");
    });
    assert_eq!(written.await.unwrap(), None);
    // A conflict says nothing of that: the API server is asked.
    for other in [None, Some("another")] {
        let written = both(client.status(&object, fail), async {
            let call = api.expect(Method::PATCH, STATUS).await;
            call.fail(409, "Conflict", "the object has been modified");
            let call = api.expect(Method::GET, POD).await;
            match other {
                None => call.fail(404, "NotFound", "pods \"p\" not found"),
                Some(uid) => call.answer(200, pod(uid, 9, json!({}))),
            }
        });
        assert_eq!(written.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_over_the_status_of_what_is_there_is_tried_again() {
    let (client, mut api) = client();
    let object: Pod = serde_json::from_value(pod("u", 3, json!({}))).unwrap();
    let written = both(client.status(&object, fail), async {
        for version in 4..8 {
            let call = api.expect(Method::PATCH, STATUS).await;
            assert_eq!(call.json()["status"], json!({"phase": "Failed"}));
            call.fail(409, "Conflict", "the object has been modified");
            let call = api.expect(Method::GET, POD).await;
            call.answer(200, pod("u", version, json!({"hostIP": "10.0.0.1"})));
        }
        let call = api.expect(Method::PATCH, STATUS).await;
        call.answer(200, pod("u", 9, json!({"phase": "Failed"})));
    });
    assert_eq!(written.await.unwrap(), Some(()));
    // After five it is given back; without a right to look, at once.
    let written = both(client.status(&object, fail), async {
        let call = api.expect(Method::PATCH, STATUS).await;
        call.fail(409, "Conflict", "the object has been modified");
        let call = api.expect(Method::GET, POD).await;
        call.fail(403, "Forbidden", "cannot get pods");
    });
    assert!(written.await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn conditions_of_others_are_kept_when_ones_own_are_written() {
    let (client, mut api) = client();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let before = json!({"conditions": [condition("Mine", "False"), condition("Theirs", "False")]});
    let object: Pod = serde_json::from_value(pod("u", 3, before)).unwrap();
    let turn = |status: &mut PodStatus| {
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|known| known.type_ != "Mine");
        conditions.push(serde_json::from_value(condition("Mine", "True")).unwrap());
        "turned"
    };
    let written = both(client.status(&object, turn), async {
        let call = api.expect(Method::PATCH, STATUS).await;
        assert_eq!(call.json()["metadata"]["resourceVersion"], "3", "guarded");
        call.fail(409, "Conflict", "the object has been modified");
        let call = api.expect(Method::GET, POD).await;
        let theirs = json!({"conditions": [condition("Mine", "False"), condition("Theirs", "True"),
                                           condition("New", "True")]});
        call.answer(200, pod("u", 5, theirs));
        let call = api.expect(Method::PATCH, STATUS).await;
        assert_eq!(
            call.json()["metadata"],
            json!({"uid": "u", "resourceVersion": "5"})
        );
        let all = [
            condition("Mine", "True"),
            condition("Theirs", "True"),
            condition("New", "True"),
        ];
        assert_eq!(call.json()["status"], json!({ "conditions": all }));
        call.answer(200, pod("u", 6, json!({ "conditions": all })));
    });
    assert_eq!(written.await.unwrap(), Some("turned"));
}

#[tokio::test(start_paused = true)]
async fn lists_that_two_have_changed_are_a_conflict() {
    let (client, mut api) = client();
    let ip = |ip: &str| json!({"podIPs": [{ "ip": ip }]});
    let object: Pod = serde_json::from_value(pod("u", 3, ip("10.0.0.1"))).unwrap();
    let change = |status: &mut PodStatus| {
        status.pod_ips = serde_json::from_value(ip("10.0.0.2")["podIPs"].clone()).unwrap();
    };
    let written = both(client.status(&object, change), async {
        let call = api.expect(Method::PATCH, STATUS).await;
        call.fail(409, "Conflict", "the object has been modified");
        let call = api.expect(Method::GET, POD).await;
        call.answer(200, pod("u", 5, ip("10.0.0.3")));
    });
    assert!(written.await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_for_an_owner_is_controlled_by_it_or_refused() {
    let (client, mut api, _informer, _watch) = with_cache().await;
    let owner = |uid: &str| -> Pod {
        let meta = json!({"namespace": "a", "name": "o", "uid": uid});
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    };
    let mut object = map(0, json!({"k": "v"}));
    object.metadata.uid = None;
    let first = owner("o1");
    let applied = both(client.apply_owned(&first, object.clone()), async {
        let call = api.expect(Method::PATCH, ONE).await;
        assert!(call.has("force=true") && call.has("fieldManager=bar-controller"));
        assert_eq!(call.headers["content-type"], "application/apply-patch+yaml");
        let owners = call.json()["metadata"]["ownerReferences"].clone();
        assert_eq!(
            (&owners[0]["uid"], &owners[0]["controller"]),
            (&json!("o1"), &json!(true))
        );
        let mut answer = json_map(12, json!({"k": "v"}));
        answer["metadata"]["ownerReferences"] = owners;
        call.answer(200, answer);
    });
    applied.await.unwrap();
    let refused = client.apply_owned(&owner("o2"), object).await.unwrap_err();
    assert_eq!(refused.to_string(), "a/one is controlled by Pod o already");
}
