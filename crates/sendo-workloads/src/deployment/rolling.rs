//! The strategy `RollingUpdate`: the new ReplicaSet grows as far as `maxSurge` allows, the old ones
//! shrink as far as `maxUnavailable` allows.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/rolling.go`
//! - `pkg/controller/deployment/util/deployment_util.go`: `NewRSNewReplicas`

use k8s_openapi::api::apps::v1::ReplicaSet;
use sendo::Result;

use super::rollout::Rollout;
use super::sets::{available, size, total};
use super::{history, status};

/// Scales up the new ReplicaSet, or else scales down old ones; once the rollout is complete,
/// cleans up the history.
pub(super) async fn advance(rollout: &mut Rollout<'_>) -> Result<()> {
    if rollout.new.is_none() {
        rollout.create_current().await?;
    }
    if rollout.new.is_none() || scale_up_new(rollout).await? || scale_down_old(rollout).await? {
        return Ok(());
    }
    if status::is_complete(rollout.deployment) {
        history::prune(rollout).await?;
    }
    Ok(())
}

/// Scales the new ReplicaSet towards its final size, down in one step. Returns whether it changed.
async fn scale_up_new(rollout: &mut Rollout<'_>) -> Result<bool> {
    let bounds = rollout.bounds;
    let may_be_added = bounds.max_replicas() - total(rollout.sets(), size);
    let scaler = rollout.scaler();
    let Some(new) = &mut rollout.new else {
        return Ok(false);
    };
    let missing = bounds.replicas - size(new);
    let step = if missing < 0 {
        missing
    } else {
        missing.min(may_be_added.max(0))
    };
    let to = size(new) + step;
    scaler.resize(new, to).await
}

/// Scales down old ReplicaSets: first by their unavailable pods, then by as many as are available
/// beyond the minimum. Returns whether one changed.
///
/// Unavailable pods of the new ReplicaSet count against what may be removed, so that a template
/// whose pods never become available removes no further old pod. As long as the status of an old
/// ReplicaSet has pods that its spec does not have any more, nothing is removed: they would be
/// counted twice.
async fn scale_down_old(rollout: &mut Rollout<'_>) -> Result<bool> {
    let Some(new) = &rollout.new else {
        return Ok(false);
    };
    let min_available = rollout.bounds.min_available();
    let unavailable = size(new) - available(new);
    let all = total(rollout.sets(), size);
    let removable = all - min_available - unavailable;
    if total(&rollout.old, size) == 0 || removable <= 0 {
        return Ok(false);
    }
    if rollout.old.iter().any(is_shrinking) {
        return Ok(false);
    }
    let scaler = rollout.scaler();

    let mut removed = 0;
    for set in rollout.old.iter_mut() {
        let unhealthy = (size(set) - available(set)).max(0);
        let step = unhealthy.min(size(set)).min(removable - removed);
        if step > 0 {
            let to = size(set) - step;
            scaler.resize(set, to).await?;
            removed += step;
        }
    }

    let mut surplus = total(rollout.sets(), available) - min_available;
    for set in rollout.old.iter_mut() {
        let step = size(set).min(surplus);
        if step > 0 {
            let to = size(set) - step;
            scaler.resize(set, to).await?;
            surplus -= step;
            removed += step;
        }
    }
    Ok(removed > 0)
}

/// Whether the status of a ReplicaSet is older than its last scaling down.
fn is_shrinking(set: &ReplicaSet) -> bool {
    size(set) > 0 && available(set) > size(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_shrinks_until_its_status_says_so() {
        let set = |size: i32, available: i32| -> ReplicaSet {
            let set = json!({
                "spec": {"replicas": size, "selector": {}},
                "status": {"replicas": available, "availableReplicas": available},
            });
            serde_json::from_value(set).expect("a ReplicaSet")
        };
        assert!(is_shrinking(&set(2, 3)));
        assert!(!is_shrinking(&set(3, 3)));
        assert!(!is_shrinking(&set(3, 2)));
    }
}
