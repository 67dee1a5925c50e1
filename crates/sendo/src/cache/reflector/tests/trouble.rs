//! What goes wrong with a watch, and how it goes on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_watch_lives_five_to_ten_minutes_and_is_given_up_if_it_does_not_end_then() {
    let mut it = watching().await;
    let before = tokio::time::Instant::now();
    let call = tokio::select! {
        biased;
        call = it.api.expect_watch(PATH) => call,
        () = bookmarks(&it.watch) => unreachable!("bookmarks go on"),
    };
    let lived = before.elapsed();
    assert!(lived > SECOND * 330 && lived < SECOND * 635, "{lived:?}");
    assert_eq!(it.informer.state().failures.len(), 1);
    let timeout = call.query.split("timeoutSeconds=").nth(1).unwrap();
    assert!((300..600).contains(&timeout.parse::<u64>().unwrap()));
}

/// One a minute, for ever.
async fn bookmarks(watch: &Stream) {
    for version in 100.. {
        tokio::time::sleep(SECOND * 60).await;
        watch.event("BOOKMARK", map("", version));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_sign_of_life_is_opened_anew_from_where_it_was() {
    let mut it = watching().await;
    it.watch.event("MODIFIED", map("one", 12));
    assert_eq!(next(&mut it.events).await, "updated one@10 to one@12");
    let before = tokio::time::Instant::now();
    let call = it.api.expect_watch(PATH).await;
    let silent = before.elapsed();
    assert!(silent > SECOND * 120 && silent < SECOND * 140, "{silent:?}");
    assert!(call.has("resourceVersion=12"), "{}", call.query);
    let state = it.informer.state();
    assert_eq!((state.lists, state.failures.len()), (1, 0));
    call.open(200).event("MODIFIED", map("one", 13));
    assert_eq!(next(&mut it.events).await, "updated one@12 to one@13");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dead_is_reported_when_it_cannot_be_opened_anew() {
    let mut it = watching().await;
    // Nothing is answered any more, and nobody says so.
    let _unanswered = it.api.expect_watch(PATH).await;
    let _next = it.api.expect_watch(PATH).await;
    let failure = it.informer.state().failures[0].to_string();
    assert!(failure.contains("no answer within 30s"), "{failure}");
    assert_eq!(it.informer.state().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_with_bookmarks_is_left_alone() {
    let mut it = watching().await;
    tokio::select! {
        biased;
        () = it.api.expect_silence(SECOND * 320) => {}
        () = bookmarks(&it.watch) => unreachable!("bookmarks go on"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_time_and_again_has_failed_since_the_first_time() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), CacheOptions::default());
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let words = "conversion webhook for bars failed";
    let began = world.clock().wall();
    for attempt in 1..10 {
        let watch = api.expect_watch(PATH).await.open(200);
        watch.event("ERROR", json!({"code": 500, "message": words}));
        tokio::time::sleep(SECOND / 10).await;
        let failure = &informer.state().failures[0];
        assert_eq!((failure.attempts, failure.since), (attempt, began));
    }
    assert!(!informer.state().synced);
    world.tasks().stop().await;
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
async fn a_missing_permission_is_reported_at_once_and_recovered_from() {
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
async fn a_missing_definition_is_reported_at_once_and_listed_anew_when_it_appears() {
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
async fn a_server_that_is_busy_is_left_alone_as_long_as_it_asks() {
    let (informer, _cache, mut api, world) = start(Selection::default());
    let before = world.clock().now();
    let call = api.expect_list(PATH).await;
    call.fail_for(429, "TooManyRequests", "later", 20);
    api.expect_list(PATH).await.list(10, &[]);
    assert!(world.clock().now() - before >= 20 * SECOND);
    informer.synced().await;
}
