//! The demo of `examples/bar`: a custom resource whose controller manages a Deployment.

use anyhow::{Result, anyhow};
use bar::{Bar, manager};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use sendo::webhook::Serving;
use sendo::{Config, ObjectExt, Patch, Selection, client};
use sendo_cluster::Cluster;
use serde_json::json;

use super::step::Story;

const NAMESPACE: &str = "default";

pub(super) async fn run(story: &Story<'_>, cluster: &Cluster) -> Result<()> {
    story.screen.title("A Bar keeps a Deployment");
    let config = Config {
        install_kinds: true,
        webhooks: Serving {
            install: true,
            in_process: Some(cluster.webhooks_in_process()),
            ..Serving::default()
        },
        ..Config::new(cluster.client(), story.world.child("bar"))
    };
    let controller = manager().start(config).map_err(|e| anyhow!("{e}"))?;
    controller.ready().await;
    let steps = run_steps(story).await;
    let stopped = controller.stop().await;
    steps?;
    stopped.map_err(|error| anyhow!("the bar controller failed: {error}"))
}

async fn run_steps(story: &Story<'_>) -> Result<()> {
    let name = match story.sabotages("bar-deployed") {
        true => "other",
        false => "shop",
    };
    let bar: Bar = serde_json::from_value(json!({
        "metadata": {"name": "example", "namespace": NAMESPACE},
        "spec": {"deployment": name, "replicas": 2},
    }))?;
    let bar = story.client.create(&bar).await?;
    story
        .step(
            "bar-deployed",
            "A Bar named a Deployment `shop`: its controller created that, and the pods followed.",
            || deployed(story, "shop"),
        )
        .await?;

    if !story.sabotages("bar-renamed") {
        let rename = Patch::Merge(json!({"spec": {"deployment": "store"}}));
        story.client.patch(&bar, rename).await?;
    }
    story
        .step(
            "bar-renamed",
            "It names `store` now: that was created, and what it no longer names deleted.",
            || deployed(story, "store"),
        )
        .await?;

    if !story.sabotages("bar-deleted") {
        story.client.delete(&bar).await?;
    }
    story
        .step(
            "bar-deleted",
            "The Bar was deleted: the garbage collector took the rest.",
            || nothing_left(story),
        )
        .await
}

/// What is in the namespace, if it is the Deployment `name` alone with both replicas.
async fn deployed(story: &Story<'_>, name: &str) -> Result<String, String> {
    let here = Selection::in_namespace(NAMESPACE);
    let deployments = story.client.live().list::<Deployment>(&here).await;
    let deployments = deployments.map_err(fault)?;
    let names: Vec<_> = deployments.iter().map(|d| d.name()).collect();
    let bar = story.client.live().get::<Bar>("default/example").await;
    let bar = bar.map_err(fault)?.ok_or("the Bar is gone")?;
    let available = bar.status.unwrap_or_default().available_replicas;
    let seen = format!("deployments: {}; available: {available}", names.join(", "));
    match names == [name] && available == 2 {
        true => Ok(seen),
        false => Err(seen),
    }
}

async fn nothing_left(story: &Story<'_>) -> Result<String, String> {
    let here = Selection::in_namespace(NAMESPACE);
    let live = story.client.live();
    let deployments = live.list::<Deployment>(&here).await.map_err(fault)?.len();
    let sets = live.list::<ReplicaSet>(&here).await.map_err(fault)?.len();
    let pods = live.list::<Pod>(&here).await.map_err(fault)?.len();
    let seen = format!("{deployments} deployments, {sets} replicasets, {pods} pods");
    match deployments + sets + pods {
        0 => Ok(seen),
        _ => Err(seen),
    }
}

fn fault(error: client::Error) -> String {
    error.to_string()
}
