//! `sendo up --demo`: runs the example controllers, step by step.
//!
//! Each step does something, waits until the cluster shows the expected result, and
//! prints both in a sentence. A step that does not succeed ends the demo with an
//! error that names it.

mod bars;
mod buckets;
mod replicas;
mod step;
mod workloads;

use anyhow::Result;
use sendo::World;
use sendo_cluster::Cluster;

use crate::screen::Screen;
use step::Story;

/// Runs all steps. `sabotage` names a step that is to fail, to test that the failure is detected.
pub(crate) async fn play(
    screen: &Screen,
    cluster: &Cluster,
    world: &World,
    sabotage: Option<&str>,
) -> Result<()> {
    let story = Story::new(screen, cluster, world, sabotage)?;
    replicas::run(&story).await?;
    bars::run(&story, cluster).await?;
    buckets::run(&story, cluster).await?;
    workloads::run(&story).await
}
