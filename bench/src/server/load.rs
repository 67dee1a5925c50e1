//! The load on a server, and its throughput and latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::try_join_all;
use sendo::World;
use serde_json::{Value, json};

use super::client::{Connection, Target};
use super::process::{Processes, Processors};
use crate::pods;

/// How long a server gets the same requests in a turn.
const TURN_DURATION: Duration = Duration::from_millis(500);
/// The number of pods that are read, patched and listed.
const POD_COUNT: u64 = 10_000;
/// The maximum number of pods that are created in a turn.
const POOL: u64 = 5000;

/// How often it is checked whether the machine is idle: servers send to watchers after the response.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of these checks.
const MAX_IDLE_CHECKS: usize = 40;

/// How often something was done a second, and how long the slowest of a hundred took.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p99: Duration,
}

/// What was measured in a turn.
#[derive(Clone, Copy)]
pub(crate) struct Turn<T> {
    pub(crate) measured: T,
    /// For how long the host gave the processors to other machines meanwhile.
    pub(crate) stolen: Duration,
}

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Creates a pod.
    Create,
    /// Gets the health: the minimum cost of a request.
    Hello,
    /// Gets a pod.
    Get,
    /// Patches a label of a pod.
    Patch,
    /// Applies a small object.
    Apply,
}

/// A server with namespaces to work in.
pub(crate) struct Load {
    pub(crate) processes: Processes,
    world: World,
    target: Target,
    connection: Connection,
    /// The namespace of the pods that are read, patched and listed.
    pods: String,
    /// The namespace of the pods that are created.
    new_pods: String,
    maps: String,
    /// The number of names and texts used so far.
    written: AtomicU64,
}

impl Load {
    pub(crate) async fn begin(
        world: &World,
        target: &Target,
        processes: Processes,
    ) -> anyhow::Result<Self> {
        let mut connection = target.connect(world).await?;
        let kept = new_namespace(world, &mut connection).await?;
        let new = new_namespace(world, &mut connection).await?;
        Ok(Load {
            processes,
            world: world.clone(),
            target: target.clone(),
            connection,
            pods: format!("{kept}/pods"),
            new_pods: format!("{new}/pods"),
            maps: format!("{kept}/configmaps"),
            written: AtomicU64::new(0),
        })
    }

    /// Does `each` for a [`TURN_DURATION`], or `most` times, by so many workers on one connection.
    async fn run<F>(
        &self,
        workers: u64,
        most: u64,
        each: impl Fn(Connection, u64) -> F,
    ) -> anyhow::Result<Rate>
    where
        F: Future<Output = anyhow::Result<Bytes>>,
    {
        let clock = self.world.clock();
        let next = AtomicU64::new(0);
        let began = clock.now();
        let worker = || async {
            let mut took = Vec::new();
            loop {
                let (number, sent) = (next.fetch_add(1, Ordering::Relaxed), clock.now());
                if number >= most || sent - began >= TURN_DURATION {
                    return anyhow::Ok(took);
                }
                each(self.connection.clone(), number).await?;
                took.push(clock.now() - sent);
            }
        };
        let took = try_join_all((0..workers).map(|_| worker())).await?;
        let lasted = clock.now() - began;
        let mut took = took.concat();
        took.sort();
        Ok(Rate {
            per_second: took.len() as f64 / lasted.as_secs_f64(),
            p99: took[(took.len() - 1) * 99 / 100],
        })
    }

    /// Runs a task with so many workers for a turn, after the machine has become idle.
    pub(crate) async fn perform(&self, task: Task, workers: u64) -> anyhow::Result<Turn<Rate>> {
        let pool = match task {
            Task::Create => self.new_pods(POOL),
            _ => Vec::new(),
        };
        self.turn(async {
            match task {
                Task::Create => self.create_pods(workers, &pool).await,
                Task::Hello => self.get_health(workers).await,
                Task::Get => self.get_pods(workers).await,
                Task::Patch => self.patch_pods(workers).await,
                Task::Apply => self.apply_maps(workers).await,
            }
        })
        .await
    }

    /// Measures after the machine has become idle, and also the time that the host takes meanwhile.
    async fn turn<T>(
        &self,
        measure: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<Turn<T>> {
        self.until_idle().await?;
        let before = Processors::now()?;
        let measured = measure.await?;
        Ok(Turn {
            measured,
            stolen: Processors::now()?.stolen - before.stolen,
        })
    }

    /// Waits until the machine is idle: the server of the turn before may still send to watchers and
    /// collect garbage.
    async fn until_idle(&self) -> anyhow::Result<()> {
        for _ in 0..MAX_IDLE_CHECKS {
            let before = Processors::now()?;
            self.world.clock().sleep(IDLE_CHECK_INTERVAL).await;
            // An idle control plane takes a few per cent.
            if (Processors::now()?.busy - before.busy) * 10 <= IDLE_CHECK_INTERVAL {
                break;
            }
        }
        Ok(())
    }

    /// Pods with unique names, encoded before the measurement starts, so that only the server is
    /// measured.
    fn new_pods(&self, count: u64) -> Vec<Bytes> {
        let first = self.written.fetch_add(count, Ordering::Relaxed);
        (first..first + count)
            .map(|number| Bytes::from(new_pod(number).to_string()))
            .collect()
    }

    async fn create_pods(&self, workers: u64, pool: &[Bytes]) -> anyhow::Result<Rate> {
        self.run(workers, pool.len() as u64, |mut connection, number| {
            let pod = pool[number as usize].clone();
            async move { connection.post(&self.new_pods, pod).await }
        })
        .await
    }

    /// Creates the pods that are read, patched and listed, which also warms up client and server.
    pub(crate) async fn fill(&self) -> anyhow::Result<()> {
        let next = AtomicU64::new(0);
        let worker = || async {
            let mut connection = self.connection.clone();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= POD_COUNT {
                    return anyhow::Ok(());
                }
                let pod = new_pod(number).to_string();
                connection.post(&self.pods, pod.into()).await?;
            }
        };
        try_join_all((0..16).map(|_| worker())).await?;
        Ok(())
    }

    async fn get_health(&self, workers: u64) -> anyhow::Result<Rate> {
        self.run(workers, u64::MAX, |mut connection, _| async move {
            connection.get("/livez").await
        })
        .await
    }

    async fn get_pods(&self, workers: u64) -> anyhow::Result<Rate> {
        self.run(workers, u64::MAX, |mut connection, number| async move {
            connection
                .get(&format!("{}/p-{}", self.pods, number % POD_COUNT))
                .await
        })
        .await
    }

    async fn patch_pods(&self, workers: u64) -> anyhow::Result<Rate> {
        self.run(workers, u64::MAX, |mut connection, number| async move {
            let line = format!("PATCH {}/p-{}", self.pods, number % POD_COUNT);
            let patch = json!({"metadata": {"labels": {"patched": self.unique_text()}}});
            let body = Bytes::from(patch.to_string());
            let media_type = "application/merge-patch+json";
            connection.call_with(&line, media_type, body).await
        })
        .await
    }

    async fn apply_maps(&self, workers: u64) -> anyhow::Result<Rate> {
        self.run(workers, u64::MAX, |mut connection, number| async move {
            // No two workers apply the same object at once.
            let name = format!("applied-{}", number % (2 * workers - 1));
            let line = format!("PATCH {}/{name}?fieldManager=bench&force=true", self.maps);
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"number": self.unique_text()}});
            let body = Bytes::from(map.to_string());
            let media_type = "application/apply-patch+yaml";
            connection.call_with(&line, media_type, body).await
        })
        .await
    }

    /// A text that no write has had before, so that every write changes something.
    fn unique_text(&self) -> String {
        self.written.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// How long a list of all pods takes, which is not put together again.
    pub(crate) async fn list_pods(&self) -> anyhow::Result<Turn<Duration>> {
        self.turn(async {
            let clock = self.world.clock();
            let began = clock.now();
            let mut connection = self.connection.clone();
            let line = format!("GET {}", self.pods);
            let mut response = connection.send(&line, "", Bytes::new()).await?;
            while response.chunk().await?.is_some() {}
            Ok(clock.now() - began)
        })
        .await
    }

    /// Deliveries a second to so many watchers of so many changes.
    pub(crate) async fn fan_out(&self, watchers: u64, changes: u64) -> anyhow::Result<Turn<f64>> {
        // The limit of concurrent streams in Kubernetes.
        const STREAMS_EACH: u64 = 100;
        let name = format!("watched-{}", self.written.fetch_add(1, Ordering::Relaxed));
        let map = json!({"metadata": {"name": name}, "data": {"k": "new"}});
        let mut connection = self.connection.clone();
        let created = connection.create(&self.maps, &map).await?;
        let created: Value = serde_json::from_slice(&created)?;
        let version = created["metadata"]["resourceVersion"].as_str();
        let line = format!(
            "GET {}?watch=1&resourceVersion={}",
            self.maps,
            version.context("no version")?
        );
        let mut counting = Vec::new();
        for _ in 0..watchers.div_ceil(STREAMS_EACH) {
            let connection = self.target.connect(&self.world).await?;
            for _ in 0..STREAMS_EACH.min(watchers - counting.len() as u64) {
                let mut connection = connection.clone();
                let mut response = connection.send(&line, "", Bytes::new()).await?;
                let mut left = changes;
                counting.push(self.world.tasks().spawn("watcher", async move {
                    while left > 0 {
                        let piece = response.chunk().await?.context("the watch ended")?;
                        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
                        left = left.saturating_sub(lines as u64);
                    }
                    anyhow::Ok(())
                }));
            }
        }
        self.turn(async {
            let began = self.world.clock().now();
            for number in 0..changes {
                let line = format!("PATCH {}/{name}", self.maps);
                let body = json!({"data": {"k": number.to_string()}}).to_string();
                let media_type = "application/merge-patch+json";
                connection.call_with(&line, media_type, body.into()).await?;
            }
            for watcher in counting {
                watcher.output().await.context("a watcher was cut off")??;
            }
            let took = self.world.clock().now() - began;
            Ok((watchers * changes) as f64 / took.as_secs_f64())
        })
        .await
    }
}

/// Creates a namespace and waits until pods can be created in it. Returns its path.
async fn new_namespace(world: &World, connection: &mut Connection) -> anyhow::Result<String> {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let wanted = json!({"metadata": {"generateName": "bench-"}});
    let created = connection.create(NAMESPACES, &wanted).await?;
    let created: Value = serde_json::from_slice(&created)?;
    let name = created["metadata"]["name"].as_str().context("no name")?;
    let path = format!("{NAMESPACES}/{name}");
    // Pods need the service account.
    let account = format!("{path}/serviceaccounts/default");
    let there = world.clock().timeout(Duration::from_secs(30), async {
        while connection.get(&account).await.is_err() {
            world.clock().sleep(Duration::from_millis(5)).await;
        }
    });
    there.await.context("nobody makes service accounts")?;
    Ok(path)
}

/// A pod to create, of about 3 KB when it is stored, which no scheduler schedules.
fn new_pod(number: u64) -> Value {
    let mut pod = pods::pod(number);
    let labels = pod["metadata"]["labels"].take();
    let annotations = pod["metadata"]["annotations"].take();
    pod["metadata"] =
        json!({"name": format!("p-{number}"), "labels": labels, "annotations": annotations});
    for field in [
        "nodeName",
        "serviceAccount",
        "serviceAccountName",
        "volumes",
    ] {
        pod["spec"].as_object_mut().map(|spec| spec.remove(field));
    }
    pod["spec"]["schedulerName"] = "nobody".into();
    pod.as_object_mut().map(|pod| pod.remove("status"));
    pod
}
