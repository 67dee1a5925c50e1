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
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
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
    let modified = both(client.modify::<ConfigMap>(&key, change), answers).await;
    assert_eq!(modified.unwrap().version(), 16);
    // It is so already: nothing is written.
    let again = client.modify::<ConfigMap>(&key, change).await.unwrap();
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
    let error = both(client.modify::<ConfigMap>(&key, change), answers).await;
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
    assert!(!same.await.unwrap());
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
    });
    assert!(both(change, answer).await.unwrap());
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
