//! Metadata of objects that are watched whole: one watch for both.

use super::*;
use crate::cache::{KindOptions, WatchState};
use crate::source::AnyMeta;

fn described(cache: &Cache) -> Informer<AnyMeta> {
    cache.informer(ConfigMap::kind(), Selection::default())
}

/// What an informer of metadata delivers, from behind its first list of `a/one` on.
async fn reported(described: &Informer<AnyMeta>) -> Subscription<AnyMeta> {
    let mut reported = described.subscribe();
    assert_eq!(next(&mut reported).await, "initial one@10");
    assert_eq!(next(&mut reported).await, "synced");
    reported
}

#[tokio::test(start_paused = true)]
async fn metadata_come_with_the_objects_that_are_watched_already() {
    let mut it = watching().await;
    let described = described(&it.cache);
    let mut reported = reported(&described).await;
    let mut two = map("two", 11);
    two["metadata"]["labels"] = json!({"app": "x"});
    it.watch.event("ADDED", two);
    assert_eq!(next(&mut reported).await, "created two@11");
    let two = described.snapshot().get(&"a/two".into()).unwrap();
    assert_eq!(two.label("app"), Some("x"));
    let types = two.types.as_ref().unwrap();
    assert_eq!(types.kind, "PartialObjectMetadata");
    it.watch.event("MODIFIED", map("one", 12));
    assert_eq!(next(&mut reported).await, "updated one@10 to one@12");
    it.watch.event("DELETED", map("two", 13));
    assert_eq!(next(&mut reported).await, "deleted two@13");
    assert_eq!(described.snapshot().version(), 13);
    it.api.expect_silence(SECOND).await;

    it.world.tasks().stop().await;
    assert_eq!(next(&mut reported).await, "the end");
    assert!(it.world.tasks().running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_follows_before_the_first_list_gets_that_too() {
    let (_informer, cache, mut api, _world) = start(Selection::default());
    let mut reported = described(&cache).subscribe();
    let call = api.expect_list(PATH).await;
    assert!(!cache.states().iter().any(|state| state.synced));
    call.fail(403, "Forbidden", "no");
    let call = api.expect_list(PATH).await;
    let failing = |state: &WatchState| state.failures.len() == 1;
    assert!(cache.states().iter().all(failing));
    call.list(10, &[map("one", 10)]);
    let _watch = api.expect_watch(PATH).await.open(200);
    assert_eq!(next(&mut reported).await, "initial one@10");
    assert_eq!(next(&mut reported).await, "synced");
    tokio::time::sleep(SECOND).await;
    assert!(cache.states().iter().all(WatchState::is_healthy));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_decode_still_has_metadata() {
    let mut it = watching().await;
    let unreadable = |version: u64| {
        let mut one = map("one", version);
        one["data"] = json!(7);
        one
    };
    it.watch.event("MODIFIED", unreadable(11));
    let described = described(&it.cache);
    // Whether it was reported before or after the change.
    it.watch.event("MODIFIED", unreadable(12));
    let mut reported = described.subscribe();
    let first = next(&mut reported).await;
    assert!(first.starts_with("initial one@1"), "{first}");
    assert_eq!(next(&mut reported).await, "synced");
    tokio::time::sleep(SECOND).await;
    let version = || {
        described
            .snapshot()
            .get(&"a/one".into())
            .map(|o| o.version())
    };
    assert_eq!(version(), Some(12));
    assert_eq!(versions(&it.informer), only(&[("one", 10)]));
    assert_eq!(it.informer.state().unreadable.len(), 1);
    assert_eq!(described.state().unreadable.len(), 0);

    // One that comes now gets the newest state, not of the last that decoded.
    let late = it
        .cache
        .informer::<PartialObjectMeta<ConfigMap>>(ConfigMap::kind(), Selection::default());
    assert_eq!(late.snapshot().get(&"a/one".into()).unwrap().version(), 12);
    // So is one that comes with a list.
    it.watch
        .event("ERROR", json!({"code": 410, "message": "too old"}));
    it.api.expect_list(PATH).await.list(15, &[unreadable(14)]);
    let watch = it.api.expect_watch(PATH).await.open(200);
    assert_eq!(version(), Some(14));
    watch.event("DELETED", unreadable(16));
    tokio::time::sleep(SECOND).await;
    assert_eq!(version(), None);
    assert!(versions(&it.informer).is_empty());
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_seen_in_metadata_at_once() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let less = KindOptions::<AnyMeta>::new().without(["metadata.labels"]);
    let cache = Cache::new(client.clone(), world.clone(), options().every_kind(less));
    let _whole = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let described = described(&cache);
    api.expect_list(PATH).await.list(10, &[]);
    let watch = api.expect_watch(PATH).await.open(200);
    described.synced().await;
    let client = crate::Client::new(client, cache, world, Default::default());
    let mut one = map("one", 11);
    one["metadata"]["labels"] = json!({"app": "x"});
    let object: ConfigMap = serde_json::from_value(one.clone()).unwrap();
    let answer = async {
        let call = api.expect(http::Method::POST, "/api/v1/namespaces/a/configmaps");
        call.await.answer(201, &one);
    };
    let (created, ()) = futures::future::join(client.create(&object), answer).await;
    created.unwrap();
    let seen = || described.snapshot().get(&"a/one".into()).unwrap();
    assert_eq!((seen().version(), seen().label("app")), (11, None));
    // By the watch they come without what is not wanted as well.
    one["metadata"]["resourceVersion"] = json!("12");
    watch.event("MODIFIED", one);
    tokio::time::sleep(SECOND).await;
    assert_eq!((seen().version(), seen().label("app")), (12, None));
}

#[tokio::test(start_paused = true)]
async fn who_needs_more_than_is_kept_watches_by_itself() {
    let no_labels = || KindOptions::<ConfigMap>::new().without(["metadata.labels"]);
    let changed = || KindOptions::<ConfigMap>::new().transform(|map| map.metadata.labels = None);
    let managed = || KindOptions::<AnyMeta>::new().keep_managed_fields();
    for options in [
        options().kind(no_labels()),
        options().kind(changed()),
        options().every_kind(managed()),
    ] {
        let (client, mut api) = FakeApi::new();
        let cache = Cache::new(client, World::seeded(1), options);
        let _whole = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
        let call = api.expect_list(PATH).await;
        assert_eq!(call.headers["accept"], "application/json");
        let _described = described(&cache);
        let call = api.expect_list(PATH).await;
        let accept = call.headers["accept"].to_str().unwrap();
        assert!(accept.contains("as=PartialObjectMetadataList;"), "{accept}");
    }
    // Another part of the kind is another thing to watch.
    let (_whole, cache, mut api, _world) = start(Selection::default());
    let _list = api.expect_list(PATH).await;
    cache.informer::<AnyMeta>(ConfigMap::kind(), Selection::in_namespace("a"));
    api.expect_list("/api/v1/namespaces/a/configmaps").await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_is_cut_off_watches_by_itself_and_misses_nothing() {
    let mut it = watching().await;
    let described = described(&it.cache);
    let mut reported = reported(&described).await;
    it.cache
        .forget::<ConfigMap>(&ConfigMap::kind(), &Selection::default());
    let call = it.api.expect_list(PATH).await;
    let accept = call.headers["accept"].to_str().unwrap();
    assert!(accept.contains("as=PartialObjectMetadataList;"), "{accept}");
    call.list(20, &[map("two", 15)]);
    let watch = it.api.expect_watch(PATH).await.open(200);
    assert_eq!(next(&mut reported).await, "created two@15");
    assert_eq!(next(&mut reported).await, "found deleted one@10");
    watch.event("MODIFIED", map("two", 21));
    assert_eq!(next(&mut reported).await, "updated two@15 to two@21");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_dropped_gets_no_events() {
    let mut it = watching().await;
    let keep_alive = it
        .cache
        .keep_alive::<AnyMeta>(ConfigMap::kind(), Selection::default());
    let described = keep_alive.informer().clone();
    let mut reported = reported(&described).await;
    drop(keep_alive);
    assert_eq!(next(&mut reported).await, "the end");
    it.watch.event("ADDED", map("two", 11));
    assert_eq!(next(&mut it.events).await, "created two@11");
    assert_eq!(described.snapshot().len(), 1);
    assert_eq!(it.cache.states().len(), 1);
}
