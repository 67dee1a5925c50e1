//! The steps of the demo.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sendo::World;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions};
use sendo_cluster::Cluster;

use crate::screen::Screen;

/// The names of all steps, in order.
pub(super) const STEPS: &[&str] = &[
    "replicas-run",
    "pod-replaced",
    "scaled-down",
    "set-deleted",
    "bar-deployed",
    "bar-renamed",
    "bar-deleted",
    "bucket-healthy",
    "bucket-unhealthy",
    "bucket-recovers",
    "stateful-set-runs",
    "endpoints-follow",
    "job-completes",
    "claims-stay",
];

/// How long a step may take to succeed.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// The same for a sabotaged step: long enough for it to succeed if the sabotage had no effect.
const SABOTAGED_STEP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What the steps use.
pub(super) struct Story<'a> {
    pub(super) screen: &'a Screen,
    pub(super) client: Client,
    pub(super) world: World,
    sabotage: Option<&'a str>,
}

impl<'a> Story<'a> {
    pub(super) fn new(
        screen: &'a Screen,
        cluster: &Cluster,
        world: &World,
        sabotage: Option<&'a str>,
    ) -> Result<Self> {
        if let Some(step) = sabotage.filter(|step| !STEPS.contains(step)) {
            bail!(
                "there is no step called `{step}`: choose from {}",
                STEPS.join(", ")
            );
        }
        let world = world.child("demo");
        let cache = Cache::new(cluster.client(), world.clone(), CacheOptions::default());
        let options = ClientOptions {
            name: "sendo-demo".to_owned(),
            ..ClientOptions::default()
        };
        Ok(Story {
            screen,
            client: Client::new(cluster.client(), cache, world.clone(), options),
            world,
            sabotage,
        })
    }

    /// Whether the action that makes `step` succeed is to be left out.
    pub(super) fn sabotages(&self, step: &str) -> bool {
        self.sabotage == Some(step)
    }

    /// Waits until `look` sees the result of `step`, and prints it: `did` is what was done, what `look`
    /// returns is what was seen. `look` returns an error with what it sees instead.
    pub(super) async fn step<F>(&self, step: &str, did: &str, look: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = Result<String, String>>,
    {
        let timeout = match self.sabotages(step) {
            true => SABOTAGED_STEP_TIMEOUT,
            false => STEP_TIMEOUT,
        };
        let mut instead = String::new();
        let clock = self.world.clock();
        let waiting = async {
            loop {
                match look().await {
                    Ok(saw) => return saw,
                    Err(other) => instead = other,
                }
                clock.sleep(POLL_INTERVAL).await;
            }
        };
        match clock.timeout(timeout, waiting).await {
            Some(saw) => {
                self.screen.step(did, &saw);
                Ok(())
            }
            None => Err(anyhow::anyhow!("after {} s: {instead}", timeout.as_secs()))
                .with_context(|| format!("step `{step}` did not come true")),
        }
    }
}
