//! Stock clients of kube-rs over TLS, on connections that are cut at random.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Client, ResourceExt as _};
use sendo_store::Retention;
use sendo_world::{Random, World};
use tokio::net::{TcpListener, TcpStream};

use super::{Served, client};

const CHANGES: u64 = 10_000;
const NAMES: u64 = 40;
/// How long to wait for watchers once everything is written.
const PATIENCE: Duration = Duration::from_secs(20);
/// The last object to be written.
const LAST: &str = "last";

/// Passes bytes on to the server, and cuts each connection after a while. Its
/// address, and how many were cut.
async fn serve_badly(to: SocketAddr, world: &World) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cuts);
    let (tasks, random) = (world.tasks().clone(), world.random().child("cuts"));
    let clock = world.clock().clone();
    world.tasks().spawn("proxy", async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let life = Duration::from_millis(random.below(20..200));
            let (clock, cuts) = (clock.clone(), Arc::clone(&counted));
            tasks.spawn("passage", async move {
                let mut to = TcpStream::connect(to).await.unwrap();
                let pass = tokio::io::copy_bidirectional(&mut from, &mut to);
                // Dropped in the middle of whatever is under way.
                if clock.timeout(life, pass).await.is_none() {
                    cuts.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, cuts)
}

/// The versions of what a watcher knows, by name.
type Known = BTreeMap<String, String>;

fn versions<'a>(maps: impl IntoIterator<Item = &'a ConfigMap>) -> Known {
    let version = |map: &ConfigMap| map.resource_version().expect("stored objects have one");
    let maps = maps.into_iter();
    maps.map(|map| (map.name_any(), version(map))).collect()
}

/// Follows a watcher until it has seen the last object; what it knows then.
async fn follow(api: Api<ConfigMap>, config: watcher::Config) -> Known {
    let (mut known, mut fresh) = (Known::new(), Known::new());
    let mut events = pin!(watcher(api, config));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => fresh.clear(),
            Ok(Event::InitApply(map)) => fresh.extend(versions([&map])),
            Ok(Event::InitDone) => known = std::mem::take(&mut fresh),
            Ok(Event::Apply(map)) => {
                for (name, version) in versions([&map]) {
                    let number = |text: &str| text.parse::<u64>().unwrap();
                    let before = known.insert(name, version.clone());
                    let before = before.as_deref().map_or(0, number);
                    assert!(before < number(&version), "{before}, then {version}");
                }
            }
            Ok(Event::Delete(map)) => {
                assert!(known.remove(&map.name_any()).is_some(), "{map:?} was known");
            }
            // A watcher reports a cut, then tries again.
            Err(_) => {}
        }
        if known.contains_key(LAST) {
            break;
        }
    }
    known
}

/// The same through a reflector's store.
async fn reflect(api: Api<ConfigMap>) -> Known {
    let (reader, writer) = reflector::store();
    let mut events = pin!(watcher(api, watcher::Config::default()).reflect(writer));
    loop {
        let _ = events.try_next().await;
        let state = reader.state();
        if state.iter().any(|map| map.name_any() == LAST) {
            return versions(state.iter().map(|map| &**map));
        }
    }
}

/// Creates, changes and deletes at random.
async fn write(api: &Api<ConfigMap>, random: &Random) {
    let mut exists = [false; NAMES as usize];
    for change in 0..CHANGES {
        let number = random.below(0..NAMES);
        let name = format!("map-{number}");
        let there = &mut exists[number as usize];
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.clone());
        map.data = Some(BTreeMap::from([("change".into(), change.to_string())]));
        if !*there {
            api.create(&PostParams::default(), &map).await.unwrap();
        } else if random.below(0..4) > 0 {
            let params = PostParams::default();
            api.replace(&name, &params, &map).await.unwrap();
            continue;
        } else {
            let params = DeleteParams::default();
            api.delete(&name, &params).await.unwrap();
        }
        *there = !*there;
    }
    let mut last = ConfigMap::default();
    last.metadata.name = Some(LAST.to_owned());
    api.create(&PostParams::default(), &last).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_kube_stay_right_on_connections_that_are_cut() {
    // Few enough that a watcher cut off for long gets 410 Gone.
    let retention = Retention {
        keep_changes: 500,
        ..Retention::default()
    };
    let served = Served::start(World::real(), retention).await;
    let Served {
        world,
        server,
        serving,
    } = &served;
    let (bad, cuts) = serve_badly(serving.address(), world).await;
    let kubeconfig = serving
        .kubeconfig()
        .replace(&serving.address().to_string(), &bad.to_string());
    let maps = || async {
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        Api::<ConfigMap>::default_namespaced(client(kubeconfig).await)
    };

    let tasks = world.tasks();
    let lists = watcher::Config::default();
    let streams = watcher::Config::default().streaming_lists();
    let watchers = [
        tasks.spawn("lists", follow(maps().await, lists.page_size(10))),
        tasks.spawn("streams", follow(maps().await, streams)),
        tasks.spawn("reflects", reflect(maps().await)),
    ];
    let here = Client::new(server.client_service(), "default");
    let here = Api::<ConfigMap>::default_namespaced(here);
    write(&here, &world.random().child("writes")).await;

    let there = here.list(&ListParams::default()).await.unwrap();
    let there = versions(&there.items);
    for watcher in watchers {
        let watched = world.clock().timeout(PATIENCE, watcher.output()).await;
        let known = watched.flatten().expect("the watcher sees the last object");
        assert_eq!(known, there);
    }
    let cuts = cuts.load(Ordering::Relaxed);
    assert!(cuts > 10, "of all connections only {cuts} were cut");
    server.shutdown().await;
}
