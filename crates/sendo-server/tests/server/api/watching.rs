//! Watches: initial state, changes, selections, bookmarks, ends.

use super::support::Fixture;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(f: &Fixture, name: &str, app: &str) -> String {
    let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
    let created = f.json(&format!("POST {MAPS}"), object).await;
    created.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_is_there_and_what_comes() {
    let f = Fixture::start().await;
    create(&f, "b", "x").await;
    create(&f, "a", "x").await;
    let mut watch = f.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!(watch.names(2).await, ["ADDED a", "ADDED b"]);
    create(&f, "c", "x").await;
    f.delete(&format!("{MAPS}/a")).await;
    assert_eq!(watch.names(2).await, ["ADDED c", "DELETED a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_after_the_version_it_names() {
    let f = Fixture::start().await;
    let version = create(&f, "a", "x").await;
    create(&f, "b", "x").await;
    let mut watch = f
        .watch(&format!("{MAPS}?watch=1&resourceVersion={version}"))
        .await;
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn leaving_a_selection_is_a_deletion_of_the_last_state_that_matched() {
    let f = Fixture::start().await;
    create(&f, "a", "x").await;
    let mut watch = f
        .watch(&format!("{MAPS}?watch=1&labelSelector=app%3Dx"))
        .await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
    let moved = json!({"metadata": {"name": "a", "labels": {"app": "y"}}});
    let moved = f.json(&format!("PUT {MAPS}/a"), moved).await;
    let left = watch.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        moved.body["metadata"]["resourceVersion"]
    );
    let back = json!({"metadata": {"name": "a", "labels": {"app": "x"}}});
    f.json(&format!("PUT {MAPS}/a"), back).await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn the_initial_state_ends_with_a_bookmark_if_asked_for() {
    let f = Fixture::start().await;
    create(&f, "a", "x").await;
    for options in [
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersion=",
        "resourceVersion=0",
    ] {
        let uri = format!("{MAPS}?watch=1&allowWatchBookmarks=true&{options}");
        let mut watch = f.watch(&uri).await;
        assert_eq!(watch.names(1).await, ["ADDED a"]);
        let end = watch.next().await.unwrap();
        assert_eq!(end["type"], "BOOKMARK", "{options}");
        assert_eq!(
            end["object"]["metadata"]["annotations"],
            json!({"k8s.io/initial-events-end": "true"})
        );
        assert_eq!(end["object"]["kind"], "ConfigMap");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_says_every_minute_how_far_it_has_come() {
    let f = Fixture::start().await;
    let version = create(&f, "a", "x").await;
    let uri = format!(
        "{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={version}"
    );
    let mut watch = f.watch(&uri).await;
    let start = f.world.clock().now();
    let other = f
        .json(
            "POST /api/v1/namespaces",
            json!({"metadata": {"name": "n"}}),
        )
        .await;
    let mut times = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            other.body["metadata"]["resourceVersion"]
        );
        times.push((f.world.clock().now() - start).as_secs());
    }
    assert_eq!(times, [60, 120, 148]);
    assert_eq!((f.world.clock().now() - start).as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_time_lasts_half_an_hour_to_an_hour() {
    let f = Fixture::start().await;
    let mut watch = f.watch(&format!("{MAPS}?watch=1")).await;
    let start = f.world.clock().now();
    assert_eq!(watch.next().await, None);
    let minutes = (f.world.clock().now() - start).as_secs() / 60;
    assert!((30..60).contains(&minutes), "{minutes}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forgotten_is_an_error_in_the_stream() {
    let world = sendo_world::World::seeded(1);
    let store = std::sync::Arc::new(sendo_store::Memory::new(
        world.clock().clone(),
        Default::default(),
    ));
    let options = sendo_server::Options::new(store.clone(), world.clone());
    let f = Fixture {
        server: sendo_server::ApiServer::start(options).await.unwrap(),
        world,
    };
    create(&f, "a", "x").await;
    let newest = sendo_store::Store::revision(&*store);
    sendo_store::Store::compact(&*store, newest).await.unwrap();
    let mut watch = f.watch(&format!("{MAPS}?watch=1&resourceVersion=2")).await;
    let error = watch.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(
        (&error["object"]["code"], &error["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(
        error["object"]["message"],
        format!("too old resource version: 2 ({newest})")
    );
    assert_eq!(watch.next().await, None);
}

/// A server that keeps only so many changes.
async fn forgetful(keep_changes: usize) -> Fixture {
    let world = sendo_world::World::seeded(1);
    let retention = sendo_store::Retention {
        keep_changes,
        ..Default::default()
    };
    let store = sendo_store::Memory::new(world.clock().clone(), retention);
    Fixture::start_with(|options| options.store = std::sync::Arc::new(store)).await
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_reads_holds_nobody_up_and_ends_with_410() {
    let f = forgetful(8).await;
    create(&f, "first", "x").await;
    let mut slow = f.watch(&format!("{MAPS}?watch=1")).await;
    let mut fast = f.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!(fast.names(1).await, ["ADDED first"]);
    for number in 0..100 {
        create(&f, &format!("m{number}"), "x").await;
        assert_eq!(fast.names(1).await, [format!("ADDED m{number}")]);
    }
    // The initial state was taken when the watch began; what came then is gone.
    assert_eq!(slow.names(1).await, ["ADDED first"]);
    let error = slow.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 410);
    assert_eq!(error["object"]["reason"], "Expired");
    assert_eq!(slow.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_watches_and_leaves_no_task() {
    let f = Fixture::start().await;
    let mut watch = f.watch(&format!("{MAPS}?watch=1")).await;
    let server = f.server.clone();
    let stop = f
        .world
        .tasks()
        .spawn("stop", async move { server.shutdown().await });
    assert_eq!(watch.next().await, None);
    stop.output().await.unwrap();
    assert_eq!(f.world.tasks().running(), [""; 0]);
    assert_eq!(f.get(MAPS).await.code, 503);
}

#[tokio::test(start_paused = true)]
async fn old_watch_paths_follow_one_object() {
    let f = Fixture::start().await;
    create(&f, "a", "x").await;
    create(&f, "b", "x").await;
    let mut watch = f
        .watch("/api/v1/watch/namespaces/default/configmaps/b")
        .await;
    f.delete(&format!("{MAPS}/a")).await;
    f.delete(&format!("{MAPS}/b")).await;
    assert_eq!(watch.names(2).await, ["ADDED b", "DELETED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_selection_by_name_follows_it_in_all_namespaces() {
    let f = Fixture::start().await;
    let namespace = json!({"metadata": {"name": "other"}});
    f.json("POST /api/v1/namespaces", namespace).await;
    let elsewhere = "/api/v1/namespaces/other/configmaps";
    for name in ["a", "aa"] {
        create(&f, name, "x").await;
        let object = json!({"metadata": {"name": name, "labels": {"app": "y"}}});
        f.json(&format!("POST {elsewhere}"), object).await;
    }
    let all = "/api/v1/configmaps?watch=1&fieldSelector=metadata.name";
    let mut named = f.watch(&format!("{all}%3Da")).await;
    let mut chosen = f.watch(&format!("{all}%3Da&labelSelector=app%3Dy")).await;
    let mut others = f.watch(&format!("{all}!%3Da&labelSelector=app")).await;
    assert_eq!(named.names(2).await, ["ADDED a", "ADDED a"]);
    assert_eq!(chosen.names(1).await, ["ADDED a"]);
    assert_eq!(others.names(2).await, ["ADDED aa", "ADDED aa"]);

    create(&f, "b", "x").await;
    f.delete(&format!("{MAPS}/aa")).await;
    f.delete(&format!("{MAPS}/a")).await;
    f.delete(&format!("{elsewhere}/a")).await;
    assert_eq!(named.names(2).await, ["DELETED a", "DELETED a"]);
    assert_eq!(chosen.names(1).await, ["DELETED a"]);
    assert_eq!(others.names(2).await, ["ADDED b", "DELETED aa"]);
}
