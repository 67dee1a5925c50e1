//! The work of `bench/src/peers.rs` with kube's controller.
//!
//! Usage: `<kubeconfig> <namespace> <workers>`. Prints reconciles a second, then
//! the median and the 99th percentile from a write to its reconcile, in microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;

const OBJECTS: u64 = 1000;
const ROUNDS: u64 = 100;
const WRITES: usize = 1000;

#[derive(Default)]
struct Seen {
    done: AtomicU64,
    sent: Mutex<Vec<Instant>>,
    waits: Mutex<Vec<Option<Duration>>>,
}

async fn reconcile(map: Arc<ConfigMap>, seen: Arc<Seen>) -> Result<Action, std::io::Error> {
    let now = Instant::now();
    let number = map.data.as_ref().and_then(|data| data.get("n"));
    if let Some(number) = number.and_then(|n| n.parse::<usize>().ok())
        && let Some(start) = seen.sent.lock().unwrap().get(number)
    {
        seen.waits.lock().unwrap()[number].get_or_insert(now - *start);
    }
    seen.done.fetch_add(1, Ordering::Relaxed);
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kubeconfig, namespace, workers] = &arguments[..] else {
        anyhow::bail!("usage: <kubeconfig> <namespace> <workers>");
    };
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let api = Api::<ConfigMap>::namespaced(Client::try_from(config)?, namespace);
    let seen = Arc::new(Seen::default());
    seen.waits.lock().unwrap().resize(WRITES, None);
    let (trigger, triggers) = mpsc::unbounded::<()>();
    let controller = Controller::new(api.clone(), watcher::Config::default())
        .with_config(Config::default().concurrency(workers.parse()?))
        .reconcile_all_on(triggers)
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            seen.clone(),
        );
    let running = tokio::spawn(controller.for_each(|_| async {}));
    let wait = async |count: u64| {
        while seen.done.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    };
    wait(OBJECTS).await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let (began, mut count) = (Instant::now(), seen.done.load(Ordering::Relaxed));
    for _ in 0..ROUNDS {
        trigger.unbounded_send(())?;
        count += OBJECTS;
        wait(count).await;
    }
    let rate = (ROUNDS * OBJECTS) as f64 / began.elapsed().as_secs_f64();

    for number in 0..WRITES {
        let name = format!("o-{}", number as u64 % OBJECTS);
        let patch = Patch::Merge(json!({"data": {"n": number.to_string()}}));
        seen.sent.lock().unwrap().push(Instant::now());
        api.patch(&name, &PatchParams::default(), &patch).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while seen.waits.lock().unwrap().iter().any(Option::is_none) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.abort();
    let mut waits: Vec<_> = seen
        .waits
        .lock()
        .unwrap()
        .iter()
        .flatten()
        .copied()
        .collect();
    waits.sort();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_micros();
    println!("{rate:.0} {} {}", at(50), at(99));
    Ok(())
}
