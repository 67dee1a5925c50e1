//! Replaces pods of an old template, as far as the bounds of the update allow.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/update.go`: `rollingUpdate`, `findUpdatedPodsOnNode`,
//!   `updatedDesiredNodeCounts`
//! - `pkg/controller/daemon/util/daemonset_util.go`: `SurgeCount`, `UnavailableCount`

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sendo::{ObjectExt, Result};

use super::Sync;
use super::manage::Changes;
use super::placement::{Placement, placement};
use crate::pods::Pod;

/// The number, or that percentage of `total`, rounded up.
fn scaled(value: Option<&IntOrString>, total: usize) -> usize {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(0),
        Some(IntOrString::String(text)) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|text| text.parse::<usize>().ok());
            (percent.unwrap_or(0) * total).div_ceil(100)
        }
    }
}

/// The pods of a node that stay: at most one of the new and one of the old template.
struct OnNode {
    new: Option<Arc<Pod>>,
    old: Option<Arc<Pod>>,
}

impl Sync<'_> {
    /// How many pods more than one for each node there may be.
    pub(super) fn max_surge(&self, total: usize) -> usize {
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        match self.is_rolling() {
            true => scaled(
                rolling.and_then(|rolling| rolling.max_surge.as_ref()),
                total,
            ),
            false => 0,
        }
    }

    /// Replaces the next pods.
    pub(super) async fn roll(&mut self) -> Result<()> {
        let wanted = self
            .nodes
            .iter()
            .filter(|node| placement(self.set, node) == Placement::Runs);
        let wanted: Vec<String> = wanted.map(|node| node.name().to_owned()).collect();
        for node in &wanted {
            self.pods.entry(node.clone()).or_default();
        }
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let max_unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let (surge, unavailable) = (
            self.max_surge(wanted.len()),
            scaled(max_unavailable, wanted.len()),
        );
        let changes = match surge {
            0 => self.delete_first(unavailable.max(1)),
            _ => self.create_first(surge, &wanted),
        };
        self.apply(changes).await
    }

    /// The pods of a node; `None` if there are several of a template.
    fn on_node(&self, pods: &[Arc<Pod>]) -> Option<OnNode> {
        let staying = pods.iter().filter(|pod| !pod.is_being_deleted());
        let (new, old): (Vec<_>, Vec<_>) = staying.cloned().partition(|pod| self.is_updated(pod));
        (new.len() <= 1 && old.len() <= 1).then(|| OnNode {
            new: new.into_iter().next(),
            old: old.into_iter().next(),
        })
    }

    /// Old pods are deleted before new ones are created: as many as may be unavailable.
    fn delete_first(&self, max_unavailable: usize) -> Changes {
        let mut unavailable = 0;
        let (mut broken, mut candidates) = (Vec::new(), Vec::new());
        for pods in self.pods.values() {
            match self.on_node(pods) {
                Some(OnNode {
                    new: Some(new),
                    old: None,
                }) => {
                    unavailable += usize::from(!self.is_available(&new));
                }
                Some(OnNode {
                    new: None,
                    old: Some(old),
                }) if self.is_available(&old) => {
                    candidates.push(old);
                }
                // It is unavailable anyway.
                Some(OnNode {
                    new: None,
                    old: Some(old),
                }) => {
                    unavailable += 1;
                    broken.push(old);
                }
                _ => unavailable += 1,
            }
        }
        let may_go = max_unavailable.saturating_sub(unavailable);
        broken.extend(candidates.into_iter().take(may_go));
        Changes {
            delete: broken,
            ..Changes::default()
        }
    }

    /// New pods are created beside old ones: as many as the surge allows.
    fn create_first(&self, max_surge: usize, wanted: &[String]) -> Changes {
        let mut changes = Changes::default();
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut leaving) = (Vec::new(), Vec::new());
        for (node, pods) in &self.pods {
            let Some(on_node) = self.on_node(pods) else {
                surging += 1;
                continue;
            };
            let serving = on_node.old.as_ref().or(on_node.new.as_ref());
            available += usize::from(serving.is_some_and(|pod| self.is_available(pod)));
            match (on_node.new, on_node.old) {
                (_, None) => {}
                (None, Some(old)) => match (self.is_available(&old), wanted.contains(node)) {
                    (false, false) => changes.delete.push(old),
                    (false, true) => changes.create_on.push(node.clone()),
                    (true, false) => leaving.push(old),
                    (true, true) => candidates.push(node.clone()),
                },
                (Some(new), Some(_)) if !self.is_available(&new) => surging += 1,
                (Some(_), Some(old)) => changes.delete.push(old),
            }
        }
        let spare = available.saturating_sub(wanted.len());
        changes.delete.extend(leaving.into_iter().take(spare));
        let may_come = max_surge.saturating_sub(surging);
        changes
            .create_on
            .extend(candidates.into_iter().take(may_come));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_up() {
        assert_eq!(scaled(None, 10), 0);
        assert_eq!(scaled(Some(&IntOrString::Int(3)), 10), 3);
        assert_eq!(scaled(Some(&IntOrString::String("25%".to_owned())), 10), 3);
    }
}
