//! The demo of `examples/storage-bucket`: events from outside the cluster start reconciles.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::{Event, Secret};
use rusty_s3::Credentials;
use sendo::{Config, ObjectExt, Selection};
use sendo_cluster::Cluster;
use serde_json::json;
use storage_bucket::api::StorageBucket;
use storage_bucket::http::Http;
use storage_bucket::local_store::LocalStore;
use storage_bucket::{Options, manager};

use super::step::Story;

const KEY: &str = "default/photos";

pub(super) async fn run(story: &Story<'_>, cluster: &Cluster) -> Result<()> {
    story
        .screen
        .title("A StorageBucket whose health is watched");
    let credentials = Credentials::new("demo-access-key", "demo-secret-key");
    let store = LocalStore::on_loopback(&story.world, &credentials, 0)
        .context("cannot start an object store on a free port of this machine")?;
    store.create_bucket("photos");

    let options = Options {
        tick_every: Duration::from_secs(1),
        ..Options::new(Http::over_sockets(Default::default())?)
    };
    let config = Config {
        install_kinds: true,
        ..Config::new(cluster.client(), story.world.clone())
    };
    let controller = manager(options).start(config).map_err(|e| anyhow!("{e}"))?;
    controller.ready().await;
    story.screen.say(format!(
        "  An object store listens on {}; the `storage-bucket` controller runs.",
        store.endpoint()
    ));

    let steps = run_steps(story, &store, &credentials).await;
    let stopped = controller.stop().await;
    story.world.tasks().stop().await;
    steps?;
    stopped.map_err(|error| anyhow!("the storage-bucket controller failed: {error}"))
}

async fn run_steps(story: &Story<'_>, store: &LocalStore, credentials: &Credentials) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "photos-credentials", "namespace": "default"},
        "stringData": {"accessKeyID": credentials.key(), "secretAccessKey": credentials.secret()},
    }))?;
    story.client.create(&secret).await?;
    let name = match story.sabotages("bucket-healthy") {
        true => "no-such-bucket",
        false => "photos",
    };
    let bucket: StorageBucket = serde_json::from_value(json!({
        "metadata": {"name": "photos", "namespace": "default"},
        "spec": {
            "endpoint": store.endpoint(),
            "bucket": name,
            "credentialsSecretRef": {"name": "photos-credentials"},
            "checkEverySeconds": 5,
        },
    }))?;
    story.client.create(&bucket).await?;
    story
        .step(
            "bucket-healthy",
            "A StorageBucket `photos` was created: a check found it healthy.",
            || health(story, true),
        )
        .await?;

    if !story.sabotages("bucket-unhealthy") {
        store.stop().await;
    }
    story
        .step(
            "bucket-unhealthy",
            "The object store was stopped: the next tick's check found out, and said so in an event.",
            || health(story, false),
        )
        .await?;

    if !story.sabotages("bucket-recovers") {
        store.start()?;
    }
    story
        .step("bucket-recovers", "It was started again: healthy.", || {
            health(story, true)
        })
        .await
}

/// The bucket's status and its last event, if it is as healthy as it should be.
async fn health(story: &Story<'_>, healthy: bool) -> Result<String, String> {
    let fault = |error: sendo::client::Error| error.to_string();
    let bucket = story
        .client
        .live()
        .get::<StorageBucket>(KEY)
        .await
        .map_err(fault)?;
    let bucket = bucket.ok_or("it is gone")?;
    let status = bucket.status.clone().unwrap_or_default();
    let message = status
        .message
        .clone()
        .unwrap_or_else(|| "not checked yet".to_owned());
    if status.healthy != Some(healthy) {
        return Err(format!("healthy: {:?}: {message}", status.healthy));
    }
    let latency = status.latency_ms.map(|ms| format!(", answered in {ms} ms"));
    let mut saw = format!(
        "healthy: {healthy}{}: {message}",
        latency.unwrap_or_default()
    );
    let events = story
        .client
        .live()
        .list::<Event>(&Selection::in_namespace("default"))
        .await;
    let mut events = events.map_err(fault)?;
    events.retain(|event| event.involved_object.uid.as_deref() == Some(bucket.uid().as_str()));
    events.sort_by_key(ObjectExt::version);
    if let Some(event) = events.last() {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        saw += &format!(
            "\nevent: {} {}: {}",
            text(&event.type_),
            text(&event.reason),
            text(&event.message)
        );
    }
    Ok(saw)
}
