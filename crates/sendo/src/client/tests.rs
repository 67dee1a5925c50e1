//! Writes: what is sent, what comes of the answers, and what cached reads then show.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use sendo_world::World;
use serde_json::{Value, json};

use super::fake_api::{FakeApi, Stream};
use super::*;
use crate::cache::{CacheOptions, Informer};
use crate::controller::Action;
use crate::object::{ObjectExt, ObjectKey};

const PATH: &str = "/api/v1/namespaces/a/configmaps";
const ONE: &str = "/api/v1/namespaces/a/configmaps/one";

fn json_map(version: u64, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {
        "namespace": "a", "name": "one", "uid": "u1", "resourceVersion": version.to_string()}})
}

fn map(version: u64, data: Value) -> ConfigMap {
    serde_json::from_value(json_map(version, data)).unwrap()
}

fn client() -> (Client, FakeApi) {
    let (kube, api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(
        kube.clone(),
        world.clone(),
        CacheOptions {
            streaming: false,
            ..CacheOptions::default()
        },
    );
    let options = ClientOptions {
        name: "bar-controller".to_owned(),
        ..ClientOptions::default()
    };
    (Client::new(kube, cache, world, options), api)
}

/// A client with a cache of ConfigMaps that has seen `a/one` at version 10.
async fn with_cache() -> (Client, FakeApi, Informer<ConfigMap>, Stream) {
    let (client, mut api) = client();
    let kind = Kind::of::<ConfigMap>();
    let informer = client.cache().informer(kind, Selection::default());
    let call = api.expect_list("/api/v1/configmaps").await;
    call.list(10, &[json_map(10, json!({"k": "old"}))]);
    let watch = api.expect_watch("/api/v1/configmaps").await.open(200);
    informer.synced().await;
    (client, api, informer, watch)
}

/// The data of `a/one` as the cache shows it.
fn cached(informer: &Informer<ConfigMap>) -> Option<Value> {
    let one = informer.snapshot().get(&"a/one".into())?;
    Some(json!(one.data))
}

/// Runs a request and its answer at once.
async fn both<T>(request: impl Future<Output = T>, answers: impl Future<Output = ()>) -> T {
    futures::future::join(request, answers).await.0
}

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
    assert!(matches!(outcome, Outcome::Unchanged(_)));

    template.metadata.name = Some("two".to_owned());
    let answers = async {
        let call = api.expect(Method::GET, &format!("{PATH}/two")).await;
        call.fail(404, "NotFound", "configmaps \"two\" not found");
        let call = api.expect(Method::POST, PATH).await;
        assert_eq!(call.json()["data"], json!({"k": "old"}));
        call.answer(201, json_map(11, json!({"k": "old"})));
    };
    let outcome = both(client.create_or_update(template, set), answers).await;
    assert!(matches!(outcome, Ok(Outcome::Created(_))));
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

struct Lease(Mutex<Option<Duration>>);

impl Gate for Lease {
    fn open_for(&self) -> Option<Duration> {
        *self.0.lock().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_cuts_writes_off_and_lets_reads_pass() {
    let (client, mut api) = client();
    let lease = Arc::new(Lease(Mutex::new(Some(Duration::from_secs(4)))));
    let client = client.with_gate(lease.clone());
    let object = map(1, json!({}));
    let before = tokio::time::Instant::now();
    let late = both(client.update(&object), async {
        let _unanswered = api.expect(Method::PUT, ONE).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    });
    let error = late.await.unwrap_err();
    assert!(error.to_string().contains("no answer within 4s"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(11));

    *lease.0.lock().unwrap() = None;
    let refused = client.update(&object).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)));
    let answer = async {
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(1, json!({})));
    };
    let live = client.live();
    assert!(
        both(live.get::<ConfigMap>("a/one"), answer)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_is_sent_again_and_a_write_is_not() {
    let (client, mut api) = client();
    let live = client.live();
    let read = both(live.get::<ConfigMap>("a/one"), async {
        api.expect(Method::GET, ONE).await.reset();
        api.expect(Method::GET, ONE)
            .await
            .fail(503, "ServiceUnavailable", "starting");
        let call = api.expect(Method::GET, ONE).await;
        call.answer(200, json_map(10, json!({})));
    });
    assert_eq!(read.await.unwrap().unwrap().version(), 10);
    let read = both(live.get::<ConfigMap>("a/one"), async {
        for _ in 0..4 {
            api.expect(Method::GET, ONE).await.reset();
        }
    });
    assert!(matches!(read.await.unwrap_err(), Error::Transport { .. }));

    let object = map(10, json!({}));
    let write = both(client.update(&object), async {
        api.expect(Method::PUT, ONE).await.reset();
    });
    assert!(matches!(write.await.unwrap_err(), Error::Transport { .. }));
    api.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn any_request_is_sent_again_when_the_server_says_when() {
    let (client, mut api) = client();
    let object = map(10, json!({}));
    let clock = client.world().clock().clone();
    let before = clock.now();
    let written = both(client.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        call.fail_for(429, "TooManyRequests", "too many", 3);
        let call = api.expect(Method::PUT, ONE).await;
        assert_eq!(clock.now() - before, Duration::from_secs(3));
        call.answer(200, json_map(11, json!({})));
    });
    assert_eq!(written.await.unwrap().version(), 11);
    // What could not come in time is not waited for.
    let refused = both(client.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        call.fail_for(429, "TooManyRequests", "too many", 60);
    });
    let error = refused.await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (429, "too many")
    );
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn() {
    let (kube, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let rate = Rate {
        per_second: 2.0,
        burst: 2,
    };
    let options = ClientOptions {
        rate: Some(Arc::new(RateLimit::new(rate))),
        ..ClientOptions::default()
    };
    let client = Client::new(kube, cache, world.clone(), options);
    let before = world.clock().now();
    let reads = async {
        for _ in 0..4 {
            client.live().get::<ConfigMap>("a/one").await.unwrap();
        }
    };
    both(reads, async {
        for after in [0, 0, 500, 1000] {
            let call = api.expect(Method::GET, ONE).await;
            let passed = (world.clock().now() - before).as_millis();
            assert!(passed.abs_diff(after) <= 1, "{passed} rather than {after}");
            call.answer(200, json_map(10, json!({})));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_interceptor_sees_every_request_and_can_refuse_it() {
    struct NoDeletes(Mutex<Vec<String>>);
    impl Interceptor for NoDeletes {
        fn before(&self, call: &Call<'_>) -> Result<(), Error> {
            match *call.method {
                Method::DELETE => Err(Error::Refused(format!("not here: {call:?}"))),
                _ => Ok(()),
            }
        }
        fn after(&self, call: &Call<'_>, outcome: Result<&[u8], &Error>) {
            let line = format!("{call:?} {}", outcome.is_ok());
            self.0.lock().unwrap().push(line);
        }
    }
    let (client, mut api) = client();
    let seen = Arc::new(NoDeletes(Mutex::default()));
    let client = client.with_interceptor(seen.clone());
    let refused = client.delete::<ConfigMap>(&ObjectKey::from("a/one")).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("not here: DELETE {ONE}")
    );
    let object = map(10, json!({}));
    let strict = client.strict();
    let failed = both(strict.update(&object), async {
        let call = api.expect(Method::PUT, ONE).await;
        assert!(call.has("fieldValidation=Strict"));
        call.fail(409, "Conflict", "changed");
    });
    failed.await.unwrap_err();
    assert_eq!(*seen.0.lock().unwrap(), [format!("PUT {ONE} false")]);
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
    assert!(matches!(patched.await.unwrap(), Outcome::Updated(_)));
    let unchanged = client.create_or_patch(map(0, json!({})), set).await;
    assert!(matches!(unchanged.unwrap(), Outcome::Unchanged(_)));
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

#[tokio::test(start_paused = true)]
async fn the_status_of_what_is_gone_is_not_written_and_no_error() {
    let (client, mut api) = client();
    let pod: Pod = serde_json::from_value(json!({"metadata":
        {"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "3"}}))
    .unwrap();
    let path = "/api/v1/namespaces/a/pods/p/status";
    for (code, reason) in [(404, "NotFound"), (409, "Conflict")] {
        let change = client.status(&pod, |status| status.phase = Some("Failed".to_owned()));
        let written = both(change, async {
            api.expect(Method::PATCH, path)
                .await
                .fail(code, reason, "gone");
        });
        assert_eq!(written.await.unwrap(), None);
    }
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
