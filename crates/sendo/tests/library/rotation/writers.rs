//! Clients that write all the time, and count what fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use sendo::World;
use sendo::client::Patch;
use serde_json::json;
use tokio::sync::watch;

use super::place::Kube;

/// Clients that write all the time.
pub(super) struct Writers {
    admitted: Arc<AtomicU64>,
    /// When each failed call began, and why it failed.
    failed: Arc<Mutex<Vec<(Instant, String)>>>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    /// So many clients, each with a ConfigMap in a namespace that is there.
    pub(super) async fn start(kube: &Kube, world: &World, namespace: &str, clients: usize) -> Self {
        let admitted = Arc::new(AtomicU64::new(0));
        let failed: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        for number in 0..clients {
            let client = kube.client(world.child(&format!("client-{number}")));
            let (admitted, failed) = (admitted.clone(), failed.clone());
            let stopped = stopped.clone();
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("map-{number}"));
            map.metadata.namespace = Some(namespace.to_owned());
            map.data = Some([("value".to_owned(), "0".to_owned())].into());
            client.create(&map).await.unwrap();
            tasks.push(tokio::spawn(async move {
                let mut value = 0_u64;
                while !*stopped.borrow() {
                    value += 1;
                    let change = json!({"data": {"value": value.to_string()}});
                    let began = Instant::now();
                    match client.patch(&map, Patch::Merge(change)).await {
                        Ok(_) => drop(admitted.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => {
                            failed.lock().push((began, error.to_string()));
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                }
            }));
        }
        Writers {
            admitted,
            failed,
            stop,
            tasks,
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// How many calls failed that were not taken.
    pub(super) fn failed(&self) -> usize {
        self.failed.lock().len()
    }

    pub(super) fn take_failed(&self) -> Vec<(Instant, String)> {
        std::mem::take(&mut self.failed.lock())
    }

    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        join_all(self.tasks).await;
    }
}
