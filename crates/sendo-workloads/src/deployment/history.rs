//! Old sets are kept to roll back to, up to a limit.

use sendo::{ObjectExt, Result};

use super::revision::revision;
use super::rollout::Rollout;
use super::sets::{actual, by_age, size};

/// Deletes the oldest empty sets beyond the limit.
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
        let is_seen = set.metadata.generation.unwrap_or(0) <= observed.unwrap_or(0);
        if size(set) == 0 && actual(set) == 0 && is_seen {
            match rollout.cx.client().delete(*set).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}
