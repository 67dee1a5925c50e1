//! Recreate: all old pods end before the first new one starts.

use sendo::{ObjectExt, Result};

use super::rollout::Rollout;
use super::sets::actual;
use super::{history, status};
use crate::pods::{self, Pod};

/// One step: old pods away, or else new ones, or else done.
pub(super) async fn advance(rollout: &mut Rollout<'_>) -> Result<()> {
    let scaler = rollout.scaler();
    let mut shrunk = false;
    for set in &mut rollout.old {
        shrunk |= scaler.resize(set, 0).await?;
    }
    if shrunk || old_pods_run(rollout) {
        return Ok(());
    }
    if rollout.new.is_none() {
        rollout.create_current().await?;
    }
    let wanted = rollout.bounds.replicas;
    if let Some(new) = &mut rollout.new {
        scaler.resize(new, wanted).await?;
    }
    if status::is_complete(rollout.deployment) {
        history::prune(rollout).await?;
    }
    Ok(())
}

/// A pod that is on its way out may still hold what the next one needs.
fn old_pods_run(rollout: &Rollout<'_>) -> bool {
    rollout.old.iter().any(|set| {
        let pods = rollout.cx.list::<Pod>().by(&pods::BY_CONTROLLER, set.uid());
        let running = pods.filter(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"));
        actual(set) > 0 || !running.is_empty()
    })
}
