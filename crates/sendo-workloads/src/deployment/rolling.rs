//! Rolling update: the new set grows as far as the surge allows, the old ones
//! shrink as far as enough pods stay available.

use sendo::Result;

use super::rollout::Rollout;
use super::sets::{available, size, total};
use super::{history, status};

/// One step: up, or else down, or else done.
pub(super) async fn advance(rollout: &mut Rollout<'_>) -> Result<()> {
    if rollout.new.is_none() {
        rollout.create_current().await?;
    }
    if rollout.new.is_none() || grow(rollout).await? || shrink(rollout).await? {
        return Ok(());
    }
    if status::is_complete(rollout.deployment) {
        history::prune(rollout).await?;
    }
    Ok(())
}

/// Brings the new set nearer to its final size, surplus pods down at once.
async fn grow(rollout: &mut Rollout<'_>) -> Result<bool> {
    let bounds = rollout.bounds;
    let room = bounds.most() - total(rollout.sets(), size);
    let scaler = rollout.scaler();
    let Some(new) = &mut rollout.new else {
        return Ok(false);
    };
    let missing = bounds.replicas - size(new);
    let step = if missing < 0 {
        missing
    } else {
        missing.min(room.max(0))
    };
    let to = size(new) + step;
    scaler.resize(new, to).await
}

/// Takes pods from old sets: first those that are not available anyway, then
/// as many as there are available beyond what must be.
///
/// Pods that the new set has not yet made available are kept in reserve, so
/// that a template that never comes up takes no further old pod with it.
async fn shrink(rollout: &mut Rollout<'_>) -> Result<bool> {
    let Some(new) = &rollout.new else {
        return Ok(false);
    };
    let least = rollout.bounds.least_available();
    let unavailable = size(new) - available(new);
    let all = total(rollout.sets(), size);
    let spare = all - least - unavailable;
    if total(&rollout.old, size) == 0 || spare <= 0 {
        return Ok(false);
    }
    let scaler = rollout.scaler();

    let mut taken = 0;
    for set in rollout.old.iter_mut() {
        let unhealthy = (size(set) - available(set)).max(0);
        let step = unhealthy.min(size(set)).min(spare - taken);
        if step > 0 {
            let to = size(set) - step;
            scaler.resize(set, to).await?;
            taken += step;
        }
    }

    let mut beyond = total(rollout.sets(), available) - least;
    for set in rollout.old.iter_mut() {
        let step = size(set).min(beyond);
        if step > 0 {
            let to = size(set) - step;
            scaler.resize(set, to).await?;
            beyond -= step;
            taken += step;
        }
    }
    Ok(taken > 0)
}
