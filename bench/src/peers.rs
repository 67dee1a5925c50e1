//! The same work with Sendo, with kube's controller and with controller-runtime, one
//! after the other against the same `sendo up`.
//!
//! A thousand ConfigMaps. First all of them are reconciled again a hundred times,
//! each time by one event that a handler maps to all; then a thousand writes, one
//! every millisecond, are timed from before the request to the reconcile that
//! sees them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo::cache::{Cache, CacheOptions, Namespaces};
use sendo::client::{Client, ClientOptions};
use sendo::handler::map;
use sendo::{
    Action, Config, Context, Controller, Manager, Moment, ObjectKey, Patch, Reader, World, source,
};
use serde_json::json;

use crate::server::{Keeps, Process};
use crate::to_anyhow;

const OBJECTS: u64 = 1000;
const ROUNDS: u64 = 100;
const WRITES: usize = 1000;

/// The results.
struct Figures {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

/// The library that is measured.
enum Library {
    Sendo,
    /// A program under `peers/`, and how it is built and started there.
    Peer(&'static str, &'static [&'static str]),
}

pub(crate) async fn measure() -> anyhow::Result<()> {
    let world = World::real();
    let server = Process::start(&world, Keeps::Memory).await?;
    let kubeconfig = &server.kubeconfig;
    let contestants = [
        ("sendo", Library::Sendo),
        (
            "kube-rs",
            Library::Peer("kube-rs", &["cargo", "run", "--release", "--quiet", "--"]),
        ),
        (
            "controller-runtime",
            Library::Peer("controller-runtime", &["go", "run", "."]),
        ),
    ];
    println!(
        "| over HTTP | workers | no-op reconciles/s | event to reconcile p50 | p99 | Sendo's rate, p50, p99 to it |"
    );
    println!("|---|---|---|---|---|---|");
    for workers in [1, 16, 2_000] {
        let mut ours: Option<Figures> = None;
        for (name, library) in &contestants {
            let found = measure_library(library, kubeconfig, workers).await;
            let found = found.with_context(|| format!("{name} with {workers} workers"))?;
            let Figures {
                per_second,
                p50,
                p99,
            } = &found;
            let (half, most) = (p50.as_micros(), p99.as_micros());
            print!("| {name} | {workers} | {per_second:.0} | {half} µs | {most} µs |");
            match &ours {
                None => println!(" |"),
                Some(ours) => println!(
                    " {:.2}×, {:.2}×, {:.2}× |",
                    ours.per_second / per_second,
                    ours.p50.as_secs_f64() / p50.as_secs_f64(),
                    ours.p99.as_secs_f64() / p99.as_secs_f64(),
                ),
            }
            ours.get_or_insert(found);
        }
    }
    println!();
    Ok(())
}

/// In a namespace of its own, which is deleted in the end.
async fn measure_library(
    library: &Library,
    kubeconfig: &Path,
    workers: usize,
) -> anyhow::Result<Figures> {
    let world = World::real();
    let options = KubeConfigOptions::default();
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
    let kube = kube::Client::try_from(config)?;
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let client = Client::new(kube.clone(), cache, world.clone(), ClientOptions::default());

    let namespace = format!("bench-{}", world.random().name_suffix(8));
    let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    client.create::<Namespace>(&object).await?;
    stream::iter(0..OBJECTS)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(16, |number| {
            let (client, namespace) = (&client, &namespace);
            async move {
                let name = format!("o-{number}");
                let object = json!({"metadata": {"name": name, "namespace": namespace}});
                let object: ConfigMap = serde_json::from_value(object)?;
                client.create(&object).await?;
                Ok(())
            }
        })
        .await?;
    let found = match library {
        Library::Sendo => sendo(&world, kube, &client, &namespace, workers).await,
        Library::Peer(folder, command) => peer(folder, command, kubeconfig, &namespace, workers),
    };
    client
        .delete::<Namespace>(&ObjectKey::cluster(&namespace))
        .await?;
    world.tasks().stop().await;
    found
}

fn peer(
    folder: &str,
    command: &[&str],
    kubeconfig: &Path,
    namespace: &str,
    workers: usize,
) -> anyhow::Result<Figures> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .arg(kubeconfig)
        .args([namespace, &workers.to_string()])
        .current_dir(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("peers")
                .join(folder),
        )
        .output()
        .with_context(|| format!("cannot start {}", command[0]))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [rate, p50, p99] = numbers[..] else {
        bail!("it printed {text:?}");
    };
    Ok(Figures {
        per_second: rate as f64,
        p50: Duration::from_micros(p50),
        p99: Duration::from_micros(p99),
    })
}

async fn sendo(
    world: &World,
    kube: kube::Client,
    client: &Client,
    namespace: &str,
    workers: usize,
) -> anyhow::Result<Figures> {
    let done = Arc::new(AtomicU64::new(0));
    let sent: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let waits = Arc::new(Mutex::new(vec![None::<Duration>; WRITES]));
    let (counted, starts, seen) = (done.clone(), sent.clone(), waits.clone());
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let now = cx.clock().now();
        let number = map.data.as_ref().and_then(|data| data.get("n"));
        if let Some(number) = number.and_then(|n| n.parse::<usize>().ok())
            && let Some(start) = lock(&starts).get(number)
        {
            lock(&seen)[number].get_or_insert(now - *start);
        }
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Action::done()) }
    };
    let (trigger, triggers) = source::channel::<()>(1);
    let all = map(|(): (), cx: &Reader| cx.list::<ConfigMap>().keys());
    let controller = Controller::new::<ConfigMap>()
        .watches(triggers, all)
        .workers(workers)
        .reconcile(reconcile);
    let mut config = Config::new(kube, world.child("sendo"));
    config.namespaces = Namespaces::one(namespace);
    let running = Manager::new("bench").controller(controller).start(config);
    let running = running.map_err(to_anyhow)?;
    let clock = world.clock();
    let wait = async |count: u64| {
        while done.load(Ordering::Relaxed) < count {
            clock.sleep(Duration::from_micros(100)).await;
        }
    };
    wait(OBJECTS).await;
    clock.sleep(Duration::from_secs(1)).await;

    let (began, mut count) = (clock.now(), done.load(Ordering::Relaxed));
    for _ in 0..ROUNDS {
        trigger.send(()).await?;
        count += OBJECTS;
        wait(count).await;
    }
    let took = clock.now() - began;

    for number in 0..WRITES {
        let key = ObjectKey::namespaced(namespace, &format!("o-{}", number as u64 % OBJECTS));
        let change = Patch::Merge(json!({"data": {"n": number.to_string()}}));
        lock(&sent).push(clock.now());
        client.patch::<ConfigMap>(&key, change).await?;
        clock.sleep(Duration::from_millis(1)).await;
    }
    while lock(&waits).iter().any(Option::is_none) {
        clock.sleep(Duration::from_millis(1)).await;
    }
    running.stop().await.map_err(to_anyhow)?;
    let mut waits: Vec<Duration> = lock(&waits).iter().flatten().copied().collect();
    waits.sort();
    Ok(Figures {
        per_second: (ROUNDS * OBJECTS) as f64 / took.as_secs_f64(),
        p50: waits[(waits.len() - 1) / 2],
        p99: waits[(waits.len() - 1) * 99 / 100],
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
