//! The throughput of reconciles, and their latency after an event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions};
use sendo::{
    Action, Config, Context, Controller, Manager, Moment, ObjectExt, World, handler, source,
};
use sendo_server::{ApiServer, Options};
use sendo_store::{Memory, Retention};
use serde_json::json;

use crate::to_anyhow;

/// Keys of the throughput run.
const KEYS: u64 = 200_000;
/// Events of the latency run, one every millisecond.
const EVENTS: u64 = 2_000;

pub(crate) async fn measure() -> anyhow::Result<()> {
    println!("| workers | no-op reconciles/s | event to reconcile p50 | p99 |");
    println!("|---|---|---|---|");
    for workers in [1, 16, 2_000] {
        let rate = throughput(workers).await?;
        let (p50, p99) = latency(workers).await?;
        println!("| {workers} | {rate:.0} | {p50:.0?} | {p99:.0?} |");
    }
    println!();
    Ok(())
}

async fn server(world: &World) -> anyhow::Result<kube::Client> {
    let store = Memory::new(world.clock().clone(), Retention::default());
    let server = ApiServer::start(Options::new(Arc::new(store), world.clone())).await?;
    Ok(kube::Client::new(server.client_service(), "default"))
}

/// Through channel, handler, queue and worker, with nothing to do.
async fn throughput(workers: usize) -> anyhow::Result<f64> {
    let world = World::real();
    let kube = server(&world).await?;
    let (events, source) = source::channel::<u64>(4096);
    let done = Arc::new(AtomicU64::new(0));
    let counted = done.clone();
    let controller = Controller::keyed::<u64>("no-op")
        .watches(source, handler::map(|key: u64, _: &sendo::Reader| [key]))
        .workers(workers)
        .reconcile(move |_: u64, _: Context| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Action::done()) }
        });
    let manager = Manager::new("bench").controller(controller);
    let running = manager
        .start(Config::new(kube, world.clone()))
        .map_err(to_anyhow)?;
    running.ready().await;
    let clock = world.clock();
    let started = clock.now();
    for key in 0..KEYS {
        events.send(key).await?;
    }
    while done.load(Ordering::Relaxed) < KEYS {
        clock.sleep(Duration::from_millis(1)).await;
    }
    let took = clock.now() - started;
    running.stop().await.map_err(to_anyhow)?;
    world.tasks().stop().await;
    Ok(KEYS as f64 / took.as_secs_f64())
}

/// From before a write to the API server in this process until the reconcile
/// that sees it begins.
async fn latency(workers: usize) -> anyhow::Result<(Duration, Duration)> {
    let world = World::real();
    let kube = server(&world).await?;
    let sent: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (starts, all) = (sent.clone(), waits.clone());
    let reconcile = move |map: Arc<ConfigMap>, cx: Context| {
        let now = cx.clock().now();
        let number = map
            .name()
            .strip_prefix("e-")
            .and_then(|n| n.parse::<usize>().ok());
        let start = number.and_then(|number| starts.lock().ok()?.get(number).copied());
        if let (Some(start), Ok(mut all)) = (start, all.lock()) {
            all.push(now - start);
        }
        async { Ok(Action::done()) }
    };
    let controller = Controller::new::<ConfigMap>()
        .workers(workers)
        .reconcile(reconcile);
    let manager = Manager::new("bench").controller(controller);
    let running = manager
        .start(Config::new(kube.clone(), world.clone()))
        .map_err(to_anyhow)?;
    running.ready().await;
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let client = Client::new(kube, cache, world.clone(), ClientOptions::default());
    let clock = world.clock();
    for number in 0..EVENTS {
        let map: ConfigMap = serde_json::from_value(
            json!({"metadata": {"name": format!("e-{number}"), "namespace": "default"}}),
        )?;
        if let Ok(mut sent) = sent.lock() {
            sent.push(clock.now());
        }
        client.create(&map).await?;
        clock.sleep(Duration::from_millis(1)).await;
    }
    while waits
        .lock()
        .is_ok_and(|waits| (waits.len() as u64) < EVENTS)
    {
        clock.sleep(Duration::from_millis(1)).await;
    }
    running.stop().await.map_err(to_anyhow)?;
    world.tasks().stop().await;
    let mut waits = waits.lock().map(|waits| waits.clone()).unwrap_or_default();
    waits.sort();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100];
    Ok((at(50), at(99)))
}
