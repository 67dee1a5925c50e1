//! The revision history: old ReplicaSets are kept for rollbacks, up to a limit.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/sync.go`: `cleanupDeployment`
//! - `pkg/controller/deployment/util/deployment_util.go`: `ReplicaSetsByRevision`

use sendo::{ObjectExt, Result};

use super::revision::revision;
use super::rollout::Rollout;
use super::sets::{actual, by_age, size};

/// Deletes the oldest ReplicaSets without pods beyond the limit.
pub(super) async fn prune(rollout: &Rollout<'_>) -> Result<()> {
    let limit = rollout.spec().and_then(|spec| spec.revision_history_limit);
    let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else {
        return Ok(());
    };
    let mut kept: Vec<_> = rollout.old.iter().collect();
    kept.retain(|set| !set.is_being_deleted());
    kept.sort_by(|a, b| revision(a).cmp(&revision(b)).then_with(|| by_age(a, b)));
    let surplus = kept.len().saturating_sub(limit.max(0) as usize);
    for set in &kept[..surplus] {
        let observed = set.status.as_ref().and_then(|s| s.observed_generation);
        let is_observed = set.metadata.generation.unwrap_or(0) <= observed.unwrap_or(0);
        if size(set) == 0 && actual(set) == 0 && is_observed {
            match rollout.cx.client().delete(*set).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}
