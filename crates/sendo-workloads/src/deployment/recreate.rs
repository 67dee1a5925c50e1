//! The strategy `Recreate`: all old pods terminate before the first new one is created.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/recreate.go`

use sendo::{ObjectExt, Result};

use super::rollout::Rollout;
use super::sets::actual;
use super::{history, status};
use crate::pods::{self, Pod};

/// Scales the old ReplicaSets to zero; once no old pod runs, scales up the new one; once that is
/// complete, cleans up the history.
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

/// Whether old pods run or are terminating: these may still use what new pods need.
fn old_pods_run(rollout: &Rollout<'_>) -> bool {
    rollout.old.iter().any(|set| {
        let pods = rollout.cx.list::<Pod>().by(&pods::BY_CONTROLLER, set.uid());
        let running = pods.filter(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"));
        actual(set) > 0 || !running.is_empty()
    })
}
