//! A watch through all that can happen to it, with the API server's part
//! spoken by the test and time passing only when nobody has anything to do.

mod choices;
mod followers;
mod lists;
mod trouble;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::core::PartialObjectMeta;
use sendo_world::World;
use serde_json::{Value, json};

use crate::cache::{
    Cache, CacheOptions, Delivery, Informer, Namespaces, Selection, Subscription, WatchError,
};
use crate::object::{Kind, ObjectExt, Typed};
use crate::transport::fake_api::{FakeApi, Stream};
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
async fn a_watch_that_ends_goes_on_from_where_it_was() {
    let mut it = watching().await;
    it.watch.event("BOOKMARK", map("", 20));
    tokio::time::sleep(SECOND * 100).await;
    drop(it.watch);
    let before = tokio::time::Instant::now();
    let call = it.api.expect_watch(PATH).await;
    assert!(call.has("resourceVersion=20"), "{}", call.query);
    assert_eq!(before.elapsed(), Duration::ZERO);
    call.open(200).event("ADDED", map("two", 21));
    assert_eq!(next(&mut it.events).await, "created two@21");
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
