//! The status of a DaemonSet.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/daemon_controller.go`: `updateDaemonSetStatus`, `storeDaemonSetStatus`

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSetStatus;
use sendo::{ObjectExt, Result, Selector};

use super::Sync;
use super::manage::sort_by_age;
use super::placement::{Placement, placement};
use crate::pods;

impl Sync<'_> {
    /// Writes the status if it changed.
    pub(super) async fn write_status(&mut self, selector: &Selector) -> Result<()> {
        self.find_pods(selector).await?;
        let mut status = DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            ..DaemonSetStatus::default()
        };
        let (mut updated, mut available) = (0, 0);
        for node in self.nodes.clone() {
            let mut pods = self.pods.get(node.name()).cloned().unwrap_or_default();
            sort_by_age(&mut pods);
            let oldest = pods.first();
            if placement(self.set, &node) != Placement::Runs {
                status.number_misscheduled += i32::from(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = oldest else {
                continue;
            };
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pods::is_ready(pod));
            available += i32::from(self.is_available(pod));
            updated += i32::from(self.is_updated(pod));
        }
        let unavailable = status.desired_number_scheduled - available;
        let nonzero = |number: i32| Some(number).filter(|number| *number != 0);
        status.updated_number_scheduled = nonzero(updated);
        status.number_available = nonzero(available);
        status.number_unavailable = nonzero(unavailable);
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        if min_ready > 0 && status.number_ready != available {
            self.sync_again_in(Duration::from_secs(u64::from(min_ready.unsigned_abs())));
        }
        let written = self.cx.client().status(self.set, |known| {
            status.collision_count = known.collision_count;
            status.conditions = known.conditions.clone();
            *known = status;
        });
        written.await?;
        Ok(())
    }
}
