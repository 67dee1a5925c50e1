//! `sendo up --demo`: the example controllers at work, told step by step.
//!
//! Each step does something, waits until the cluster shows what should come of
//! it, and tells both in a sentence. A step that does not come true ends the
//! story with an error that names it.

mod bars;
mod buckets;
mod replicas;
mod step;

use anyhow::Result;
use sendo::World;
use sendo_cluster::Cluster;

use crate::screen::Screen;
use step::Story;

/// Plays the whole story. `sabotage` names a step that is to fail, to show that it is noticed.
pub(crate) async fn play(
    screen: &Screen,
    cluster: &Cluster,
    world: &World,
    sabotage: Option<&str>,
) -> Result<()> {
    let story = Story::new(screen, cluster, world, sabotage)?;
    replicas::tell(&story).await?;
    bars::tell(&story, cluster).await?;
    buckets::tell(&story, cluster).await
}
