//! Replaces pods of an old revision, from the highest ordinal down.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set_control.go`: `updateStatefulSet`,
//!   `updateStatefulSetAfterInvariantEstablished`
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `getStatefulSetMaxUnavailable`

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sendo::{ObjectExt, Result};

use super::pod;
use super::replicas::{Replica, Sync};
use crate::pods::Pod;

/// The number, or that percentage of `total`, rounded down.
fn scaled(value: &IntOrString, total: usize) -> usize {
    match value {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|text| text.parse::<usize>().ok());
            percent.unwrap_or(0) * total / 100
        }
    }
}

impl Sync<'_> {
    /// Deletes the next pods that the update replaces.
    pub(super) async fn update(&mut self) -> Result<()> {
        let strategy = self.spec.update_strategy.clone().unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") {
            return Ok(());
        }
        let rolling = strategy.rolling_update.unwrap_or_default();
        let partition = usize::try_from(rolling.partition.unwrap_or(0)).unwrap_or(0);
        let partition = partition.min(self.replicas.len());
        match rolling.max_unavailable {
            None => self.update_one(partition).await,
            Some(max) => {
                let max = scaled(&max, self.replicas.len()).max(1);
                self.update_some(partition, max).await
            }
        }
    }

    /// The pod of a replica, if the update replaces it.
    fn outdated<'p>(&self, replica: &'p Replica) -> Option<&'p Arc<Pod>> {
        let pod = replica.pod.as_ref()?;
        let is_new = pod::revision(pod) == Some(self.revisions.update.name());
        (!is_new && !pod.is_being_deleted()).then_some(pod)
    }

    /// Replaces the highest pod, unless one above it is not available.
    async fn update_one(&mut self, partition: usize) -> Result<()> {
        for replica in self.replicas[partition..].iter().rev() {
            if let Some(pod) = self.outdated(replica) {
                self.delete(pod).await?;
                self.replaced += 1;
                return Ok(());
            }
            if self.is_unavailable(replica) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Replaces as many pods as may be unavailable.
    async fn update_some(&mut self, partition: usize, max: usize) -> Result<()> {
        let unavailable = self
            .replicas
            .iter()
            .filter(|replica| self.is_unavailable(replica));
        let may_go = max.saturating_sub(unavailable.count());
        let highest_first = self.replicas[partition..].iter().rev();
        let outdated = highest_first.filter_map(|replica| self.outdated(replica));
        for pod in outdated.take(may_go).cloned().collect::<Vec<_>>() {
            self.delete(&pod).await?;
            self.replaced += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_down() {
        assert_eq!(scaled(&IntOrString::Int(3), 10), 3);
        assert_eq!(scaled(&IntOrString::String("25%".to_owned()), 10), 2);
    }
}
