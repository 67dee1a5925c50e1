//! Cache and client on the embedded API server, over a connection that lags,
//! breaks and forgets: what readers see stays true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Body as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use sendo::cache::{
    Cache, CacheOptions, Delivery, Index, Informer, KindOptions, Selection, Subscription,
};
use sendo::client::{self, Client, ClientOptions, Deletion};
use sendo::source::AnyMeta;
use sendo::{Event, Kind, Object, ObjectExt, ObjectKey, Random, World};
use sendo_server::{ApiServer, Options};
use sendo_store::{Memory, Retention};
use serde_json::json;
use tower::ServiceExt;

type Error = Box<dyn std::error::Error + Send + Sync>;

static BY_OWNER: Index<ConfigMap, String> =
    Index::new("by-owner", |map| map.label("owner").map(str::to_owned));

/// A server that remembers only its last few changes.
async fn server(world: &World) -> ApiServer {
    let options = Retention {
        keep_changes: 3,
        ..Retention::default()
    };
    let store = Arc::new(Memory::new(world.clock().clone(), options));
    let options = Options::new(store, world.clone());
    ApiServer::start(options).await.unwrap()
}

/// A connection that works.
fn direct(server: &ApiServer) -> kube::Client {
    kube::Client::new(server.client_service(), "default")
}

/// A connection on which everything takes a while, requests fail and watches are cut off.
fn flaky(server: &ApiServer, world: &World, random: Random) -> kube::Client {
    let (server, clock) = (server.client_service(), world.clock().clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (server, clock, random) = (server.clone(), clock.clone(), random.clone());
        async move {
            let is_read = request.method() == http::Method::GET;
            clock
                .sleep(Duration::from_millis(random.below(0..50)))
                .await;
            if is_read && random.below(0..10) == 0 {
                return Err(Error::from("connection refused"));
            }
            let Ok(answer) = server.oneshot(request).await;
            let (head, body) = answer.into_parts();
            let is_watch = body.size_hint().exact().is_none();
            let left = if is_watch {
                random.below(1..12)
            } else {
                u64::MAX
            };
            let state = (body, left, clock, random);
            let frames = stream::unfold(state, move |(mut body, left, clock, random)| async move {
                if left == 0 {
                    return None;
                }
                let frame = body.frame().await?;
                if is_watch {
                    clock
                        .sleep(Duration::from_millis(random.below(0..200)))
                        .await;
                }
                Some((frame, (body, left - 1, clock, random)))
            });
            Ok(http::Response::from_parts(
                head,
                StreamBody::new(frames.boxed()),
            ))
        }
    });
    kube::Client::new(service, "default")
}

fn map(name: &str, owner: u64, value: u64) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name, "labels": {"owner": owner.to_string()}},
        "data": {"value": value.to_string()},
    }))
    .unwrap()
}

/// Follows the events of an informer, checking that they make sense.
struct Follower<K> {
    known: BTreeMap<ObjectKey, Arc<K>>,
}

impl<K: Object> Follower<K> {
    fn new() -> Self {
        let known = BTreeMap::new();
        Follower { known }
    }

    fn take(&mut self, event: Event<K>) {
        let key = event.object().key();
        let known = self.known.get(&key);
        match &event {
            Event::Created { .. } => assert!(known.is_none(), "{key} created twice"),
            Event::Updated { old, new } => {
                assert_eq!(known.map(|known| known.version()), Some(old.version()));
                assert!(old.version() < new.version());
            }
            Event::Deleted { object, .. } => {
                assert!(known.is_none_or(|known| known.uid() == object.uid()));
            }
        }
        match event {
            Event::Deleted { .. } => self.known.remove(&key),
            other => self.known.insert(key, other.object().clone()),
        };
    }

    async fn follow(&mut self, events: &mut Subscription<K>, until: Duration) {
        let everything = async {
            while let Some(delivery) = events.next().await {
                if let Delivery::Event(event) = delivery {
                    self.take(event);
                }
            }
        };
        let _ = tokio::time::timeout(until, everything).await;
    }
}

fn versions<'a, K: Object>(all: impl IntoIterator<Item = &'a Arc<K>>) -> Vec<(ObjectKey, u64)> {
    let all = all.into_iter();
    all.map(|object| (object.key(), object.version())).collect()
}

/// One own write, and whether cached reads show it at once.
async fn write(client: &Client, informer: &Informer<ConfigMap>, random: &Random) {
    let name = format!("m{}", random.below(0..6));
    let key = ObjectKey::namespaced("default", &name);
    let read = || informer.snapshot().get(&key);
    let wanted = map(&name, random.below(0..3), random.u64());
    let Some(known) = read() else {
        // Somebody else may have created it.
        if let Ok(written) = client.create(&wanted).await {
            assert!(read().is_none_or(|seen| seen.version() >= written.version()));
            let owner = wanted.label("owner").unwrap();
            let found = informer.snapshot().list().by(&BY_OWNER, owner).keys();
            assert!(found.contains(&key) || read().unwrap().version() > written.version());
        }
        return;
    };
    if random.below(0..3) == 0 {
        let deletion = client.delete(&known).await.unwrap();
        assert!(matches!(deletion, Deletion::Done | Deletion::NotThere));
        assert!(read().is_none_or(|seen| seen.uid() != known.uid()));
        return;
    }
    let changed = client.modify::<ConfigMap, _>(&key, |map| map.data = wanted.data.clone());
    match changed.await {
        Ok(written) => {
            let seen = read();
            let newer = seen.is_some_and(|seen| seen.version() >= written.version());
            // Unless somebody else has deleted it and the watch knows already.
            assert!(newer || informer.snapshot().version() > written.version());
        }
        Err(error) => {
            let unlucky = matches!(error, client::Error::Transport { .. });
            assert!(
                unlucky || error.is_not_found() || error.is_conflict(),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_see_their_own_writes_and_end_with_the_truth_whatever_the_connection_does() {
    let mut gaps = 0;
    for seed in 0..20 {
        let world = World::seeded(seed);
        let random = world.random().child("test");
        let server = server(&world).await;
        let connection = flaky(&server, &world, random.child("connection"));
        // Packed or not, and listed in a stream or in pages, it is all the same to readers.
        let mut options = CacheOptions {
            streaming: seed % 2 == 0,
            ..CacheOptions::default()
        };
        if seed % 4 > 1 {
            options = options.kind(KindOptions::<ConfigMap>::new().compact());
        }
        let cache = Cache::new(connection.clone(), world.clone(), options);
        let informer = cache.informer(Kind::of::<ConfigMap>(), Selection::default());
        informer.add_index(&BY_OWNER);
        let mut events = informer.subscribe();
        let mut follower = Follower::new();
        // Metadata come with the objects, to whoever asks for them at whatever time.
        let mut described: Option<(Informer<AnyMeta>, _, _)> = None;
        let describe_at = random.below(0..150);
        let options = ClientOptions::default();
        let client = Client::new(connection, cache.clone(), world.clone(), options.clone());
        let others_cache = Cache::new(direct(&server), world.clone(), CacheOptions::default());
        let others = Client::new(direct(&server), others_cache, world.clone(), options);
        informer.synced().await;

        for step in 0..150 {
            if step == describe_at {
                let informer = cache.informer(Kind::of::<ConfigMap>(), Selection::default());
                let events = informer.subscribe();
                described = Some((informer, events, Follower::new()));
            }
            match random.below(0..3) {
                0 => {
                    let name = format!("m{}", random.below(0..6));
                    let object = map(&name, random.below(0..3), random.u64());
                    if others.create(&object).await.is_err() {
                        let _ = others.delete(&object).await;
                    }
                }
                1 => write(&client, &informer, &random).await,
                _ => {
                    let pause = Duration::from_millis(random.below(0..400));
                    follower.follow(&mut events, pause).await;
                }
            }
            // One watch shows both.
            if let Some((described, ..)) = &described {
                let version = described.snapshot().version();
                assert_eq!(version, informer.snapshot().version(), "seed {seed}");
            }
        }

        follower.follow(&mut events, Duration::from_secs(300)).await;
        let (described, mut events, mut follower_of_described) = described.unwrap();
        let soon = Duration::from_millis(1);
        follower_of_described.follow(&mut events, soon).await;
        let (live, everything) = (others.live(), Selection::default());
        let truth = live.list::<ConfigMap>(&everything).await.unwrap();
        let truth: Vec<_> = truth.into_iter().map(Arc::new).collect();
        let cached: Vec<_> = informer.snapshot().list().into_iter().collect();
        let cached_metadata: Vec<_> = described.snapshot().list().into_iter().collect();
        for seen in [
            versions(&cached),
            versions(follower.known.values()),
            versions(&cached_metadata),
            versions(follower_of_described.known.values()),
        ] {
            assert_eq!(seen, versions(&truth), "seed {seed}");
        }
        for owner in 0..3 {
            let owner = owner.to_string();
            let found = informer.snapshot().list().by(&BY_OWNER, owner.clone());
            let scanned = informer.snapshot().list();
            let scanned = scanned.filter(|map| map.label("owner") == Some(&owner));
            assert_eq!(found.keys(), scanned.keys(), "seed {seed}");
        }
        gaps += informer.state().lists - 1;
        world.tasks().stop().await;
        assert!(world.tasks().running().is_empty());
    }
    assert!(
        gaps > 20,
        "the connection was too good to show anything: {gaps} gaps"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_is_marked_then_gone_for_readers_at_once() {
    let world = World::seeded(1);
    let server = server(&world).await;
    let cache = Cache::new(direct(&server), world.clone(), CacheOptions::default());
    let informer = cache.informer::<ConfigMap>(Kind::of::<ConfigMap>(), Selection::default());
    let client = Client::new(direct(&server), cache, world, ClientOptions::default());
    informer.synced().await;

    let mut object = map("kept", 1, 1);
    object.metadata.finalizers = Some(vec!["example.dev/keep".to_owned()]);
    let object = client.create(&object).await.unwrap();
    let read = || informer.snapshot().get(&object.key());
    assert_eq!(client.delete(&object).await.unwrap(), Deletion::Begun);
    let marked = read().unwrap();
    assert!(marked.is_being_deleted());
    client
        .modify(&marked, |map| map.metadata.finalizers = None)
        .await
        .unwrap();
    assert!(read().is_none());
    assert_eq!(client.delete(&marked).await.unwrap(), Deletion::NotThere);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_reported_as_such() {
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    let world = World::seeded(1);
    let server = server(&world).await;
    let cache = Cache::new(direct(&server), world.clone(), CacheOptions::default());
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.dev", "v1", "Bar"));
    let kind = Kind::from(&resource);
    cache.informer::<DynamicObject>(kind.clone(), Selection::default());
    tokio::time::sleep(Duration::from_millis(10)).await;
    let reported = cache.states()[0].to_string();
    assert!(
        reported.starts_with(
            "cannot watch bars.example.dev/v1: the API server does not serve this resource"
        ),
        "{reported}"
    );
    let client = Client::new(direct(&server), cache, world, ClientOptions::default());
    let key = ObjectKey::from("default/x");
    let error = client.of_kind::<DynamicObject>(kind).live_get(&key).await;
    assert!(error.unwrap_err().is_not_served());
}
