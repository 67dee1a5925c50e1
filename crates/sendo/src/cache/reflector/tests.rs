//! A watch through all that can happen to it, with the API server's part
//! spoken by the test and time passing only when nobody has anything to do.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::core::PartialObjectMeta;
use sendo_world::World;
use serde_json::{Value, json};

use crate::cache::{
    Cache, CacheOptions, Delivery, Informer, Namespaces, Selection, Subscription, WatchError,
};
use crate::client::fake_api::{FakeApi, Stream};
use crate::object::{Kind, ObjectExt, Typed};
use crate::{Event, ObjectKey};

const PATH: &str = "/api/v1/configmaps";
const SECOND: Duration = Duration::from_secs(1);

fn map(name: &str, version: u64) -> Value {
    map_of(name, version, name)
}

fn map_of(name: &str, version: u64, uid: &str) -> Value {
    json!({"metadata": {"namespace": "a", "name": name, "uid": uid,
                        "resourceVersion": version.to_string()}})
}

/// Lists come in pages, which a test can answer one by one.
fn options() -> CacheOptions {
    CacheOptions {
        streaming: false,
        ..CacheOptions::default()
    }
}

fn start(selection: Selection) -> (Informer<ConfigMap>, Cache, FakeApi, World) {
    let (client, api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), options());
    let informer = cache.informer(ConfigMap::kind(), selection);
    (informer, cache, api, world)
}

struct Watching {
    informer: Informer<ConfigMap>,
    events: Subscription<ConfigMap>,
    api: FakeApi,
    watch: Stream,
    world: World,
    /// Its watches end with it.
    cache: Cache,
}

/// An informer that has listed `a/one` at version 10 and watches.
async fn watching() -> Watching {
    let (informer, cache, mut api, world) = start(Selection::default());
    let mut events = informer.subscribe();
    api.expect_list(PATH).await.list(10, &[map("one", 10)]);
    let call = api.expect_watch(PATH).await;
    assert!(call.has("resourceVersion=10") && call.has("allowWatchBookmarks=true"));
    let watch = call.open(200);
    assert_eq!(next(&mut events).await, "initial one@10");
    assert_eq!(next(&mut events).await, "synced");
    Watching {
        informer,
        events,
        api,
        watch,
        world,
        cache,
    }
}

/// The next delivery in words.
async fn next<K: crate::Object>(events: &mut Subscription<K>) -> String {
    let show = |object: &K| format!("{}@{}", object.name(), object.version());
    match events.next().await {
        None => "the end".to_owned(),
        Some(Delivery::Synced) => "synced".to_owned(),
        Some(Delivery::Event(event)) => match &event {
            Event::Created { object, initial } => {
                let how = if *initial { "initial" } else { "created" };
                format!("{how} {}", show(object))
            }
            Event::Updated { old, new } => format!("updated {} to {}", show(old), show(new)),
            Event::Deleted {
                object,
                final_state,
            } => {
                let how = if *final_state {
                    "deleted"
                } else {
                    "found deleted"
                };
                format!("{how} {}", show(object))
            }
        },
    }
}

fn versions(informer: &Informer<ConfigMap>) -> Vec<(String, u64)> {
    let all = informer.snapshot().list();
    all.iter()
        .map(|o| (o.name().to_owned(), o.version()))
        .collect()
}

fn only(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_delivered_after_the_snapshot_shows_them() {
    let mut it = watching().await;
    it.watch.event("ADDED", map("two", 11));
    assert_eq!(next(&mut it.events).await, "created two@11");
    assert_eq!(versions(&it.informer), only(&[("one", 10), ("two", 11)]));
    it.watch.event("MODIFIED", map("one", 12));
    assert_eq!(next(&mut it.events).await, "updated one@10 to one@12");
    assert_eq!(it.informer.snapshot().version(), 12);
    it.watch.event("DELETED", map("one", 13));
    assert_eq!(next(&mut it.events).await, "deleted one@13");
    assert_eq!(versions(&it.informer), only(&[("two", 11)]));
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages_and_is_seen_whole() {
    let (informer, cache, mut api, _world) = start(Selection::default());
    let call = api.expect_list(PATH).await;
    assert!(call.has("limit=500"));
    call.page(10, "more/", &[map("one", 3)]);
    let call = api.expect_list(PATH).await;
    assert!(call.has("continue=more%2F"));
    assert_eq!(informer.snapshot().len(), 0);
    assert!(!cache.states()[0].synced);
    call.page(10, "", &[map("two", 4)]);
    cache.synced().await;
    assert_eq!(versions(&informer), only(&[("one", 3), ("two", 4)]));
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_expire_is_asked_for_in_one_piece() {
    let (informer, _cache, mut api, _world) = start(Selection::default());
    api.expect_list(PATH)
        .await
        .page(10, "more", &[map("one", 3)]);
    let call = api.expect_list(PATH).await;
    call.fail(410, "Expired", "The provided continue parameter is too old");
    let call = api.expect_list(PATH).await;
    assert!(!call.query.contains("limit") && !call.query.contains("continue"));
    call.list(12, &[map("two", 4)]);
    informer.synced().await;
    assert_eq!(versions(&informer), only(&[("two", 4)]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_where_it_was() {
    let mut it = watching().await;
    it.watch.event("BOOKMARK", map("", 20));
    tokio::time::sleep(SECOND * 400).await;
    drop(it.watch);
    let before = tokio::time::Instant::now();
    let call = it.api.expect_watch(PATH).await;
    assert!(call.has("resourceVersion=20"), "{}", call.query);
    assert_eq!(before.elapsed(), Duration::ZERO);
    call.open(200).event("ADDED", map("two", 21));
    assert_eq!(next(&mut it.events).await, "created two@21");
}

#[tokio::test(start_paused = true)]
async fn a_watch_lives_five_to_ten_minutes_and_is_given_up_if_it_does_not_end_then() {
    let mut it = watching().await;
    let before = tokio::time::Instant::now();
    let call = it.api.expect_watch(PATH).await;
    let lived = before.elapsed();
    assert!(lived > SECOND * 330 && lived < SECOND * 635, "{lived:?}");
    let timeout = call.query.split("timeoutSeconds=").nth(1).unwrap();
    assert!((300..600).contains(&timeout.parse::<u64>().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_what_is_gone_is_found_out_by_listing() {
    let mut it = watching().await;
    it.watch.event("ADDED", map("two", 11));
    assert_eq!(next(&mut it.events).await, "created two@11");
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"});
    it.watch.event("ERROR", gone);
    let list = it.api.expect_list(PATH).await;
    list.list(30, &[map("three", 25), map_of("two", 26, "another")]);
    assert_eq!(next(&mut it.events).await, "created three@25");
    assert_eq!(next(&mut it.events).await, "found deleted two@11");
    assert_eq!(next(&mut it.events).await, "created two@26");
    assert_eq!(next(&mut it.events).await, "found deleted one@10");
    assert_eq!(versions(&it.informer), only(&[("three", 25), ("two", 26)]));
    assert!(it.api.expect_watch(PATH).await.has("resourceVersion=30"));
}

#[tokio::test(start_paused = true)]
async fn a_list_again_says_nothing_of_what_has_not_changed() {
    let mut it = watching().await;
    let known = it.informer.snapshot().get(&"a/one".into()).unwrap();
    drop(it.watch);
    // Right after it began: taken for a failure.
    let call = it.api.expect_watch(PATH).await;
    call.fail(410, "Expired", "too old resource version");
    it.api.expect_list(PATH).await.list(30, &[map("one", 10)]);
    it.watch = it.api.expect_watch(PATH).await.open(200);
    it.watch.event("MODIFIED", map("one", 31));
    assert_eq!(next(&mut it.events).await, "updated one@10 to one@31");
    assert_eq!(known.version(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_stream_cut_in_the_middle_of_a_line_loses_nothing() {
    let mut it = watching().await;
    it.watch.event("ADDED", map("two", 11));
    it.watch.raw(r#"{"type":"ADDED","object":{"metadata":{"na"#);
    assert_eq!(next(&mut it.events).await, "created two@11");
    it.watch.cut();
    let call = it.api.expect_watch(PATH).await;
    assert!(call.has("resourceVersion=11"));
    call.open(200).event("ADDED", map("three", 12));
    assert_eq!(next(&mut it.events).await, "created three@12");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_asked_ever_less_often() {
    let mut it = watching().await;
    drop(it.watch);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let before = tokio::time::Instant::now();
        drop(it.api.expect_watch(PATH).await.open(200));
        waits.push(before.elapsed());
    }
    assert!(waits[0] >= SECOND * 4 / 10 && waits[0] <= SECOND);
    assert!(
        waits[6] >= SECOND * 15 && waits[7] <= SECOND * 30,
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_told_at_once_and_recovered_from() {
    let (informer, cache, mut api, _world) = start(Selection::default());
    let words = "configmaps is forbidden: User \"u\" cannot list resource \"configmaps\"";
    api.expect_list(PATH).await.fail(403, "Forbidden", words);
    api.expect_list(PATH).await.fail(403, "Forbidden", words);
    let call = api.expect_list(PATH).await;
    let state = &cache.states()[0];
    assert_eq!(state.failures[0].attempts, 2);
    assert_eq!(
        state.to_string(),
        format!("cannot list configmaps/v1: {words} (since 2026-01-01T00:00:00Z, 2 attempts)"),
    );
    call.list(10, &[map("one", 10)]);
    informer.synced().await;
    let watch = api.expect_watch(PATH).await.open(200);
    watch.event("BOOKMARK", map("", 11));
    tokio::task::yield_now().await;
    tokio::time::sleep(SECOND).await;
    assert!(cache.states()[0].is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_told_at_once_and_listed_anew_when_it_appears() {
    let mut it = watching().await;
    tokio::time::sleep(SECOND * 60).await;
    drop(it.watch);
    it.api
        .expect_watch(PATH)
        .await
        .answer(404, "404 page not found\n");
    let call = it.api.expect_list(PATH).await;
    assert_eq!(it.informer.state().failures[0].cause, WatchError::NotServed);
    call.list(40, &[]);
    it.api.expect_watch(PATH).await;
    assert_eq!(versions(&it.informer), only(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_failing_watch_does_not_delay_another() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), options());
    let maps = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    api.expect_list(PATH).await.list(1, &[]);
    let watch = api.expect_watch(PATH).await.open(200);
    let mut events = maps.subscribe();
    assert_eq!(next(&mut events).await, "synced");
    cache.informer::<Secret>(Secret::kind(), Selection::default());
    for round in 2..10 {
        api.expect_list("/api/v1/secrets").await.reset();
        watch.event("ADDED", map("one", round));
        let before = tokio::time::Instant::now();
        next(&mut events).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_reported_and_skipped() {
    let mut it = watching().await;
    let mut broken = map("one", 11);
    broken["data"] = json!({"password": ["hunter2"]});
    it.watch.event("MODIFIED", broken.clone());
    it.watch.event("ADDED", map("two", 12));
    assert_eq!(next(&mut it.events).await, "created two@12");
    let state = it.informer.state();
    assert_eq!(state.unreadable.len(), 1);
    assert_eq!(state.unreadable[0].key, ObjectKey::from("a/one"));
    assert!(!format!("{state:?}").contains("hunter2"));
    // The last state that could be read stays, and the watch goes on from the newest version.
    assert_eq!(versions(&it.informer), only(&[("one", 10), ("two", 12)]));

    tokio::time::sleep(SECOND * 60).await;
    drop(it.watch);
    let call = it.api.expect_watch(PATH).await;
    assert!(call.has("resourceVersion=12"));
    call.fail(410, "Expired", "too old");
    it.api
        .expect_list(PATH)
        .await
        .list(20, &[broken, map("two", 12)]);
    it.watch = it.api.expect_watch(PATH).await.open(200);
    assert_eq!(versions(&it.informer), only(&[("one", 10), ("two", 12)]));
    it.watch.event("MODIFIED", map("one", 21));
    assert_eq!(next(&mut it.events).await, "updated one@10 to one@21");
    assert!(it.informer.state().unreadable.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_list_times_out_and_is_tried_again() {
    let (informer, _cache, mut api, _world) = start(Selection::default());
    let before = tokio::time::Instant::now();
    let _unanswered = api.expect_list(PATH).await;
    let call = api.expect_list(PATH).await;
    assert!(before.elapsed() >= SECOND * 30);
    let failure = informer.state().failures[0].to_string();
    assert!(failure.contains("no answer within 30s"), "{failure}");
    call.list(1, &[]);
    informer.synced().await;
}

#[tokio::test(start_paused = true)]
async fn late_subscribers_get_what_is_there_then_what_changes() {
    let it = watching().await;
    it.watch.event("ADDED", map("two", 11));
    tokio::time::sleep(SECOND).await;
    let mut late = it.informer.subscribe();
    it.watch.event("MODIFIED", map("two", 12));
    it.watch.event("ADDED", map("three", 13));
    tokio::time::sleep(SECOND).await;
    assert_eq!(next(&mut late).await, "initial one@10");
    assert_eq!(next(&mut late).await, "initial two@12");
    assert_eq!(next(&mut late).await, "synced");
    assert_eq!(next(&mut late).await, "created three@13");
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_sent_and_each_namespace_watched_on_its_own() {
    let selection = Selection {
        labels: "app in (a,b)".parse().unwrap(),
        namespaces: Namespaces::Only(["a".to_owned(), "b".to_owned()].into()),
        ..Selection::default()
    };
    let (informer, cache, mut api, _world) = start(selection);
    let call = api.expect_list("/api/v1/namespaces/a/configmaps").await;
    assert!(call.has("labelSelector=app%20in%20%28a%2Cb%29"));
    call.list(10, &[map("one", 5)]);
    let call = api.expect_list("/api/v1/namespaces/b/configmaps").await;
    call.fail(403, "Forbidden", "no");
    let call = api.expect_watch("/api/v1/namespaces/a/configmaps").await;
    let _watch = call.open(200);
    let state = &cache.states()[0];
    assert!(!state.synced);
    assert_eq!(state.failures[0].namespace.as_deref(), Some("b"));
    api.expect_list("/api/v1/namespaces/b/configmaps")
        .await
        .list(12, &[]);
    informer.synced().await;
    // The snapshot is as new as the slower of the two.
    assert_eq!(informer.snapshot().version(), 10);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_asked_for_where_that_is_all_that_is_wanted() {
    type Meta = PartialObjectMeta<ConfigMap>;
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let options = CacheOptions {
        name: "bar-controller".to_owned(),
        ..options()
    };
    let cache = Cache::new(client, world, options);
    let informer = cache.informer::<Meta>(Kind::of::<ConfigMap>(), Selection::default());
    let call = api.expect_list(PATH).await;
    let accept = call.headers["accept"].to_str().unwrap();
    assert!(accept.contains("as=PartialObjectMetadataList;"), "{accept}");
    assert_eq!(call.headers["user-agent"], "bar-controller");
    let mut item = map("one", 3);
    item["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    call.list(3, &[item]);
    informer.synced().await;
    let one = informer.snapshot().get(&"a/one".into()).unwrap();
    assert_eq!(one.metadata.managed_fields, None);
}

#[tokio::test(start_paused = true)]
async fn equal_selections_share_one_informer() {
    let (_informer, cache, mut api, _world) = start(Selection::default());
    assert!(cache.typed::<Secret>().is_none());
    cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    assert!(cache.typed::<ConfigMap>().is_some());
    api.expect_list(PATH).await.list(1, &[]);
    api.expect_watch(PATH).await;
    assert_eq!(cache.states().len(), 1);
    // Namespaces mean nothing where there are none.
    cache.informer::<Node>(Node::kind(), Selection::in_namespace("a"));
    api.expect_list("/api/v1/nodes").await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_watches_and_subscriptions_and_leaves_no_task() {
    let mut it = watching().await;
    it.watch.event("ADDED", map("two", 11));
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        it.world.tasks().running(),
        ["world/cache/configmaps/v1/watch"]
    );
    it.world.tasks().stop().await;
    assert!(it.world.tasks().running().is_empty());
    assert_eq!(next(&mut it.events).await, "created two@11");
    assert_eq!(next(&mut it.events).await, "the end");
    assert_eq!(it.informer.snapshot().len(), 2);
    assert_eq!(next(&mut it.informer.subscribe()).await, "initial one@10");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_kind_is_watched_no_more() {
    let mut it = watching().await;
    it.cache
        .forget::<ConfigMap>(it.informer.kind(), &Selection::default());
    assert_eq!(next(&mut it.events).await, "the end");
    assert!(it.world.tasks().running().is_empty() && it.cache.states().is_empty());
    it.api.expect_silence(SECOND * 3600).await;
    it.cache
        .informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    it.api.expect_list(PATH).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_requests_at_the_same_times() {
    async fn record() -> Vec<String> {
        let (_informer, _cache, mut api, _world) = start(Selection::default());
        let start = tokio::time::Instant::now();
        let mut record = Vec::new();
        for round in 0..20 {
            let call = api.expect(http::Method::GET, PATH).await;
            record.push(format!("{:?} {}", start.elapsed(), call.query));
            match round % 4 {
                0 => call.list(round, &[]),
                1 => call.open(200).cut(),
                2 => call.fail(410, "Expired", "old"),
                _ => call.fail(500, "InternalError", "no"),
            }
        }
        record
    }
    assert_eq!(record().await, record().await);
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_as_a_stream_and_the_watch_goes_on_behind_it() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), CacheOptions::default());
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let mut events = informer.subscribe();
    let call = api.expect_watch(PATH).await;
    assert!(call.has("sendInitialEvents=true") && call.has("resourceVersionMatch=NotOlderThan"));
    assert!(!call.query.contains("resourceVersion="));
    let watch = call.open(200);
    watch.event("ADDED", map("one", 10));
    watch.event("ADDED", map("two", 7));
    tokio::time::sleep(SECOND).await;
    assert_eq!(versions(&informer), only(&[]), "half a list shows nothing");
    let end = json!({"metadata": {"resourceVersion": "12",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    watch.event("BOOKMARK", end.clone());
    assert_eq!(next(&mut events).await, "initial one@10");
    assert_eq!(next(&mut events).await, "initial two@7");
    assert_eq!(next(&mut events).await, "synced");
    watch.event("MODIFIED", map("two", 13));
    assert_eq!(next(&mut events).await, "updated two@7 to two@13");

    // After a gap everything is streamed again, and only news is told.
    let gone = json!({"code": 410, "message": "too old"});
    watch.event("ERROR", gone);
    let call = api.expect_watch(PATH).await;
    assert!(call.has("sendInitialEvents=true"));
    let watch = call.open(200);
    watch.event("ADDED", map("two", 13));
    watch.event("BOOKMARK", end);
    assert_eq!(next(&mut events).await, "found deleted one@10");
    assert_eq!(versions(&informer), only(&[("two", 13)]));
    world.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_lists_cannot_be_streamed_they_come_in_pages() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), CacheOptions::default());
    let refused = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let call = api.expect_watch(PATH).await;
    call.fail(422, "Invalid", "sendInitialEvents: Forbidden");
    api.expect_list(PATH).await.list(10, &[map("one", 10)]);
    let _watch = api.expect_watch(PATH).await.open(200);
    refused.synced().await;
    assert!(refused.state().failures.is_empty());

    // One that is so old that it overlooks the parameter never says that the list is whole.
    let silent = cache.informer::<Node>(Node::kind(), Selection::default());
    let _stream = api.expect_watch("/api/v1/nodes").await.open(200);
    api.expect_list("/api/v1/nodes").await.list(10, &[]);
    silent.synced().await;
    world.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_left_alone_as_long_as_it_asks() {
    let (informer, _cache, mut api, world) = start(Selection::default());
    let before = world.clock().now();
    let call = api.expect_list(PATH).await;
    call.fail_for(429, "TooManyRequests", "later", 20);
    api.expect_list(PATH).await.list(10, &[]);
    assert!(world.clock().now() - before >= 20 * SECOND);
    informer.synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_delivers_everything_again_and_asks_nobody() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let hour = 3600 * SECOND;
    let often = crate::cache::KindOptions::<ConfigMap>::new().resync(hour);
    let cache = Cache::new(client, world.clone(), options().kind(often));
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let mut events = informer.subscribe();
    api.expect_list(PATH).await.list(10, &[map("one", 10)]);
    let mut watch = api.expect_watch(PATH).await.open(200);
    assert_eq!(next(&mut events).await, "initial one@10");
    assert_eq!(next(&mut events).await, "synced");
    let before = world.clock().now();
    let told = async {
        assert_eq!(next(&mut events).await, "updated one@10 to one@10");
        world.clock().now() - before
    };
    let watches = async {
        loop {
            let call = api.expect_watch(PATH).await;
            watch = call.open(200);
        }
    };
    let took = tokio::select! {
        biased;
        took = told => took,
        () = watches => unreachable!("watches go on"),
    };
    assert!(
        took >= hour.mul_f64(0.9) && took <= hour.mul_f64(1.1),
        "{took:?}"
    );
    world.tasks().stop().await;
    assert!(world.tasks().running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_transform_cuts_down_what_is_kept_and_its_panic_costs_one_object() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cut = crate::cache::KindOptions::<ConfigMap>::new().transform(|map| {
        assert_ne!(map.metadata.name.as_deref(), Some("bad"), "on purpose");
        map.data = None;
    });
    let cache = Cache::new(client.clone(), world.clone(), options().kind(cut));
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let mut one = map("one", 10);
    one["data"] = json!({"large": "text"});
    api.expect_list(PATH)
        .await
        .list(10, &[one.clone(), map("bad", 3)]);
    let _watch = api.expect_watch(PATH).await.open(200);
    informer.synced().await;
    let state = informer.state();
    assert_eq!(
        state.unreadable[0].to_string(),
        "a/bad: the transform panicked: assertion `left != right` failed: on purpose\n  left: Some(\"bad\")\n right: Some(\"bad\")"
    );
    let kept = informer.snapshot().get(&"a/one".into()).unwrap();
    assert_eq!(kept.data, None);

    // What was cut is never written back from the cache.
    let client = crate::Client::new(client, cache, world, Default::default());
    let change = client.modify::<ConfigMap, _>(&kept, |map| {
        map.data
            .get_or_insert_default()
            .insert("k".into(), "v".into());
    });
    let path = "/api/v1/namespaces/a/configmaps/one";
    let answers = async {
        api.expect(http::Method::GET, path).await.answer(200, &one);
        let call = api.expect(http::Method::PUT, path).await;
        assert_eq!(call.json()["data"], json!({"large": "text", "k": "v"}));
        let mut written = call.json();
        written["metadata"]["resourceVersion"] = json!("11");
        call.answer(200, written);
    };
    let (written, ()) = futures::future::join(change, answers).await;
    assert_eq!(written.unwrap().data.unwrap().len(), 2);
    let kept = informer.snapshot().get(&"a/one".into()).unwrap();
    assert_eq!((kept.version(), &kept.data), (11, &None));
}

#[tokio::test(start_paused = true)]
async fn a_selection_for_a_kind_holds_for_all_who_say_nothing_else() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let part = crate::cache::KindOptions::<ConfigMap>::new()
        .selecting(Selection::labels("app=web".parse().unwrap()));
    let cache = Cache::new(client, world.clone(), options().kind(part));
    let kind = ConfigMap::kind();
    let informer = cache.informer::<ConfigMap>(kind.clone(), Selection::default());
    let call = api.expect_list(PATH).await;
    assert!(call.has("labelSelector=app%3Dweb"), "{}", call.query);
    call.list(10, &[]);
    let _watch = api.expect_watch(PATH).await.open(200);
    informer.synced().await;
    assert!(
        cache
            .find::<ConfigMap>(&kind, &Selection::default())
            .is_some()
    );
}
