//! Lists: in pages, as a stream, and again.

use super::*;

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

/// A cache that asks for a stream, of a server that does not know what that is and
/// sends what is there and then what changes, and when it was asked for a list.
async fn listed_of_a_busy_kind(mut change: impl FnMut(&Stream, u64)) -> Duration {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), CacheOptions::default());
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let stream = api.expect_watch(PATH).await.open(200);
    stream.event("ADDED", map("one", 10));
    stream.event("ADDED", map("two", 7));
    let before = tokio::time::Instant::now();
    let busy = async {
        for second in 1..300 {
            tokio::time::sleep(SECOND).await;
            change(&stream, 10 + second);
        }
    };
    let call = tokio::select! {
        biased;
        call = api.expect_list(PATH) => call,
        () = busy => panic!("no list in five minutes"),
    };
    let waited = before.elapsed();
    call.list(500, &[map("one", 10)]);
    informer.synced().await;
    assert!(informer.state().failures.is_empty());
    world.tasks().stop().await;
    waited
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_never_quiet_is_listed_in_pages_where_lists_cannot_be_streamed() {
    let changed = listed_of_a_busy_kind(|stream, version| {
        stream.event("MODIFIED", map("one", version));
    });
    assert!(changed.await <= 31 * SECOND);
    let created = listed_of_a_busy_kind(|stream, version| {
        stream.event("ADDED", map(&format!("m{version}"), version));
    });
    assert!(created.await <= 31 * SECOND);
    let deleted = listed_of_a_busy_kind(|stream, version| {
        let kind = if version % 2 == 0 { "ADDED" } else { "DELETED" };
        stream.event(kind, map("three", version));
    });
    assert!(deleted.await <= 31 * SECOND);
    let bookmark = listed_of_a_busy_kind(|stream, version| {
        stream.event("BOOKMARK", map("", version));
    });
    assert_eq!(bookmark.await, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_takes_long_is_waited_for() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), CacheOptions::default());
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let stream = api.expect_watch(PATH).await.open(200);
    let random = world.random().child("versions");
    for number in 0..200 {
        stream.event("ADDED", map(&format!("m{number}"), random.below(1..1000)));
        tokio::time::sleep(SECOND).await;
    }
    let end = json!({"metadata": {"resourceVersion": "1000",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    stream.event("BOOKMARK", end);
    informer.synced().await;
    assert_eq!(informer.snapshot().len(), 200);
    assert_eq!(informer.state().watches, 1);
    world.tasks().stop().await;
}
