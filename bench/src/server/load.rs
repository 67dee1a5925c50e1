//! What a server is asked, and how soon it answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::try_join_all;
use sendo::World;
use serde_json::{Value, json};

use super::client::{Connection, Target};
use super::process;
use crate::pods;

const PODS: &str = "/api/v1/namespaces/bench/pods";
const MAPS: &str = "/api/v1/namespaces/bench/configmaps";

/// How long servers may at least go on with what they have answered: their watchers are told after that.
const MOMENT: Duration = Duration::from_millis(250);
/// How many moments they may take.
const MOMENTS: usize = 40;

/// How often something was done a second, and how long the slowest of a hundred took.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p99: Duration,
}

/// Something that a server is asked often.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// To create a pod.
    Create,
    /// For its health: the least a request costs, the way there and back.
    Hello,
    /// For a pod.
    Get,
    /// To merge a label into a pod.
    Patch,
    /// To apply a small object.
    Apply,
}

/// A server with a namespace to work in.
pub(crate) struct Load {
    world: World,
    target: Target,
    connection: Connection,
    created: AtomicU64,
    written: AtomicU64,
}

impl Load {
    pub(crate) async fn begin(world: &World, target: &Target) -> anyhow::Result<Self> {
        let mut connection = target.connect(world).await?;
        let namespace = json!({"metadata": {"name": "bench"}});
        connection.create("/api/v1/namespaces", &namespace).await?;
        // Pods need their account.
        let account = "/api/v1/namespaces/bench/serviceaccounts/default";
        let there = world.clock().timeout(Duration::from_secs(30), async {
            while connection.get(account).await.is_err() {
                world.clock().sleep(Duration::from_millis(5)).await;
            }
        });
        there.await.context("nobody makes service accounts")?;
        Ok(Load {
            world: world.clone(),
            target: target.clone(),
            connection,
            created: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Does `each` `count` times, by so many workers on one connection.
    async fn run<F>(
        &self,
        workers: u64,
        count: u64,
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
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(took);
                }
                let sent = clock.now();
                each(self.connection.clone(), number).await?;
                took.push(clock.now() - sent);
            }
        };
        let took = try_join_all((0..workers).map(|_| worker())).await?;
        let lasted = clock.now() - began;
        let mut took = took.concat();
        took.sort();
        Ok(Rate {
            per_second: count as f64 / lasted.as_secs_f64(),
            p99: took[(took.len() - 1) * 99 / 100],
        })
    }

    /// Has so many workers do something, `count` times in all, on a machine that
    /// has finished what was asked before.
    pub(crate) async fn perform(
        &self,
        task: Task,
        workers: u64,
        count: u64,
    ) -> anyhow::Result<Rate> {
        self.until_idle().await?;
        match task {
            Task::Create => self.create_pods(workers, count).await,
            Task::Hello => self.say_hello(workers, count).await,
            Task::Get => self.get_pods(workers, count).await,
            Task::Patch => self.patch_pods(workers, count).await,
            Task::Apply => self.apply_maps(workers, count).await,
        }
    }

    /// Waits until the machine has nothing to do: whoever had the turn before has
    /// watchers to tell, and garbage to collect.
    async fn until_idle(&self) -> anyhow::Result<()> {
        for _ in 0..MOMENTS {
            let before = process::busy()?;
            self.world.clock().sleep(MOMENT).await;
            // A control plane at rest takes some per cent of it.
            if (process::busy()? - before) * 10 <= MOMENT {
                break;
            }
        }
        Ok(())
    }

    async fn create_pods(&self, workers: u64, count: u64) -> anyhow::Result<Rate> {
        let first = self.created.fetch_add(count, Ordering::Relaxed);
        // Written before the clock runs: it is the server that is measured.
        let pods: Vec<Bytes> = (first..first + count)
            .map(|number| Bytes::from(new_pod(number).to_string()))
            .collect();
        self.run(workers, count, |mut connection, number| {
            let pod = pods[number as usize].clone();
            async move { connection.post(PODS, pod).await }
        })
        .await
    }

    async fn say_hello(&self, workers: u64, count: u64) -> anyhow::Result<Rate> {
        self.run(workers, count, |mut connection, _| async move {
            connection.get("/livez").await
        })
        .await
    }

    async fn get_pods(&self, workers: u64, count: u64) -> anyhow::Result<Rate> {
        let known = self.created.load(Ordering::Relaxed);
        self.run(workers, count, |mut connection, number| async move {
            connection
                .get(&format!("{PODS}/p-{}", number % known))
                .await
        })
        .await
    }

    async fn patch_pods(&self, workers: u64, count: u64) -> anyhow::Result<Rate> {
        let known = self.created.load(Ordering::Relaxed);
        // Every write of a run changes something.
        let first = self.written.fetch_add(count, Ordering::Relaxed);
        self.run(workers, count, |mut connection, number| async move {
            let line = format!("PATCH {PODS}/p-{}", number % known);
            let patch = json!({"metadata": {"labels": {"patched": (first + number).to_string()}}});
            let body = Bytes::from(patch.to_string());
            let media_type = "application/merge-patch+json";
            connection.call_with(&line, media_type, body).await
        })
        .await
    }

    async fn apply_maps(&self, workers: u64, count: u64) -> anyhow::Result<Rate> {
        let first = self.written.fetch_add(count, Ordering::Relaxed);
        self.run(workers, count, |mut connection, number| async move {
            // Workers are never at one object at once.
            let name = format!("applied-{}", number % (2 * workers - 1));
            let line = format!("PATCH {MAPS}/{name}?fieldManager=bench&force=true");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"number": (first + number).to_string()}});
            let body = Bytes::from(map.to_string());
            let media_type = "application/apply-patch+yaml";
            connection.call_with(&line, media_type, body).await
        })
        .await
    }

    /// How long a list of all pods takes, which is not put together again.
    pub(crate) async fn list_pods(&self) -> anyhow::Result<Duration> {
        self.until_idle().await?;
        let clock = self.world.clock();
        let began = clock.now();
        let mut connection = self.connection.clone();
        let line = format!("GET {PODS}");
        let mut answer = connection.send(&line, "", Bytes::new()).await?;
        while answer.piece().await?.is_some() {}
        Ok(clock.now() - began)
    }

    /// Deliveries a second to so many watchers of so many changes.
    pub(crate) async fn fan_out(&self, watchers: u64, changes: u64) -> anyhow::Result<f64> {
        // As many as Kubernetes allows.
        const STREAMS_EACH: u64 = 100;
        let name = format!("watched-{}", self.written.fetch_add(1, Ordering::Relaxed));
        let map = json!({"metadata": {"name": name}, "data": {"k": "new"}});
        let mut connection = self.connection.clone();
        let created = connection.create(MAPS, &map).await?;
        let created: Value = serde_json::from_slice(&created)?;
        let version = created["metadata"]["resourceVersion"].as_str();
        let line = format!(
            "GET {MAPS}?watch=1&resourceVersion={}",
            version.context("no version")?
        );
        let mut counting = Vec::new();
        for _ in 0..watchers.div_ceil(STREAMS_EACH) {
            let connection = self.target.connect(&self.world).await?;
            for _ in 0..STREAMS_EACH.min(watchers - counting.len() as u64) {
                let mut connection = connection.clone();
                let mut answer = connection.send(&line, "", Bytes::new()).await?;
                let mut left = changes;
                counting.push(self.world.tasks().spawn("watcher", async move {
                    while left > 0 {
                        let piece = answer.piece().await?.context("the watch ended")?;
                        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
                        left = left.saturating_sub(lines as u64);
                    }
                    anyhow::Ok(())
                }));
            }
        }
        self.until_idle().await?;
        let began = self.world.clock().now();
        for number in 0..changes {
            let line = format!("PATCH {MAPS}/{name}");
            let body = json!({"data": {"k": number.to_string()}}).to_string();
            let media_type = "application/merge-patch+json";
            connection.call_with(&line, media_type, body.into()).await?;
        }
        for watcher in counting {
            watcher.output().await.context("a watcher was cut off")??;
        }
        let took = self.world.clock().now() - began;
        Ok((watchers * changes) as f64 / took.as_secs_f64())
    }
}

/// A pod as somebody sends it, of about 3 KB once it is stored, which no
/// scheduler takes.
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
