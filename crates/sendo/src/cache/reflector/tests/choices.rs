//! What of a kind is watched and kept.

use super::*;

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
    let reported = async {
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
        took = reported => took,
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
async fn of_some_fields_only_those_are_seen_in_own_writes_too() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let only = crate::cache::KindOptions::<ConfigMap>::new().only(["data.kept"]);
    let cache = Cache::new(client.clone(), world.clone(), options().kind(only));
    let informer = cache.informer::<ConfigMap>(ConfigMap::kind(), Selection::default());
    let mut one = map("one", 10);
    one["data"] = json!({"kept": "a", "large": "text"});
    one["immutable"] = json!(false);
    api.expect_list(PATH).await.list(10, &[one.clone()]);
    let _watch = api.expect_watch(PATH).await.open(200);
    informer.synced().await;
    let seen = || informer.snapshot().get(&"a/one".into()).unwrap();
    let data = |value: &str| Some([("kept".to_owned(), value.to_owned())].into());
    assert_eq!((&seen().data, seen().immutable), (&data("a"), None));

    // The rest is fetched before anything is written back.
    let client = crate::Client::new(client, cache.clone(), world, Default::default());
    let kept = seen();
    let change = client.modify::<ConfigMap, _>(&kept, |map| {
        map.data
            .get_or_insert_default()
            .insert("kept".into(), "b".into());
    });
    let path = "/api/v1/namespaces/a/configmaps/one";
    let answers = async {
        api.expect(http::Method::GET, path).await.answer(200, &one);
        let call = api.expect(http::Method::PUT, path).await;
        assert_eq!(call.json()["data"], json!({"kept": "b", "large": "text"}));
        let mut written = call.json();
        written["metadata"]["resourceVersion"] = json!("11");
        call.answer(200, written);
    };
    let (written, ()) = futures::future::join(change, answers).await;
    assert_eq!(written.unwrap().data.unwrap().len(), 2);
    assert_eq!((seen().version(), &seen().data), (11, &data("b")));
}

mod small {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::Resource;
    use serde::{Deserialize, Serialize};

    /// A ConfigMap, as much of it as somebody looks at.
    #[derive(Clone, Debug, Deserialize, Serialize, Resource)]
    #[resource(inherit = super::ConfigMap)]
    pub(super) struct Small {
        metadata: ObjectMeta,
        pub(super) immutable: Option<bool>,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_whole_is_seen_as_a_type_of_ones_own() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let only = crate::cache::KindOptions::<small::Small>::new().only(["immutable"]);
    let cache = Cache::new(client.clone(), world.clone(), options().kind(only));
    let informer = cache.informer::<small::Small>(ConfigMap::kind(), Selection::default());
    api.expect_list(PATH).await.list(10, &[]);
    let _watch = api.expect_watch(PATH).await.open(200);
    informer.synced().await;

    let client = crate::Client::new(client, cache, world, Default::default());
    let mut one = map("one", 11);
    one["immutable"] = json!(true);
    let whole: ConfigMap = serde_json::from_value(one.clone()).unwrap();
    let create = client.create(&whole);
    let answer = async {
        let call = api.expect(http::Method::POST, "/api/v1/namespaces/a/configmaps");
        call.await.answer(201, &one);
    };
    let (created, ()) = futures::future::join(create, answer).await;
    created.unwrap();
    let seen = informer.snapshot().get(&"a/one".into()).unwrap();
    assert_eq!((seen.version(), seen.immutable), (11, Some(true)));
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

mod watched {
    use std::sync::mpsc::{Receiver, Sender};
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::Resource;
    use parking_lot::Mutex;
    use serde::{Deserialize, Serialize, Serializer};

    /// Notified that an object is being looked at; replies when the test lets it.
    pub(super) static LOOKED_AT: Mutex<Option<(Sender<()>, Receiver<()>)>> = Mutex::new(None);

    #[derive(Clone, Debug, Deserialize, Resource)]
    #[resource(inherit = super::ConfigMap)]
    pub(super) struct Watched {
        metadata: ObjectMeta,
    }

    impl Serialize for Watched {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if let Some((tell, answer)) = &*LOOKED_AT.lock() {
                tell.send(()).unwrap();
                let answered = answer.recv_timeout(Duration::from_secs(10));
                answered.expect("the cache can be read meanwhile");
            }
            serializer.serialize_unit()
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_scrape_that_looks_at_all_objects() {
    let (client, mut api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(client, world.clone(), options());
    let informer = cache.informer::<watched::Watched>(ConfigMap::kind(), Selection::default());
    api.expect_list(PATH).await.list(10, &[map("one", 10)]);
    let _watch = api.expect_watch(PATH).await.open(200);
    informer.synced().await;
    let registry = crate::metrics::Registry::new();
    registry.follow_cache(&cache);

    let (tell, reported) = std::sync::mpsc::channel();
    let (answer, answered) = std::sync::mpsc::channel();
    *watched::LOOKED_AT.lock() = Some((tell, answered));
    let other = cache.clone();
    let asks = std::thread::spawn(move || {
        reported.recv().unwrap();
        assert_eq!(other.states().len(), 1);
        let other = other.typed::<watched::Watched>().unwrap();
        assert_eq!(other.snapshot().len(), 1);
        answer.send(()).unwrap();
    });
    registry.encode(crate::metrics::Format::Prometheus);
    asks.join().unwrap();
    *watched::LOOKED_AT.lock() = None;
    world.tasks().stop().await;
}
