//! The status of a StatefulSet.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set_control.go`: `computeReplicaStatus`,
//!   `updateStatefulSetStatus`
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `completeRollingUpdate`,
//!   `inconsistentStatus`

use k8s_openapi::api::apps::v1::StatefulSetStatus;
use sendo::{ObjectExt, Result};

use super::pod;
use super::replicas::Sync;
use crate::pods::{self, Pod};

impl Sync<'_> {
    /// Writes the status if it changed.
    pub(super) async fn write_status(&self) -> Result<()> {
        let status = self.status();
        let known = self.set.status.clone().unwrap_or_default();
        if known == status {
            return Ok(());
        }
        let mut changed = self.set.clone();
        changed.status = Some(status);
        self.cx.client().replace_status(&changed).await?;
        Ok(())
    }

    fn status(&self) -> StatefulSetStatus {
        let now = self.cx.now();
        let count = |passes: &dyn Fn(&Pod) -> bool| {
            let count = self.pods.iter().filter(|pod| passes(pod)).count();
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let is_created = |pod: &Pod| !pods::phase(pod).is_empty();
        let is_ready = |pod: &Pod| pods::phase(pod) == "Running" && pods::is_ready(pod);
        let is_available = |pod: &Pod| {
            let wait = pods::available_in(pod, self.min_ready, now);
            is_ready(pod) && wait.is_some_and(|wait| wait.is_zero())
        };
        let (current, update) = (self.revisions.current.name(), self.revisions.update.name());
        let of = |revision: &str| {
            count(&|pod| {
                let staying = is_created(pod) && !pod.is_being_deleted();
                staying && pod::revision(pod) == Some(revision)
            })
        };
        let (replicas, ready) = (count(&is_created), count(&is_ready));
        let updated = of(update);
        let mut of_current = of(current) - self.replaced;
        let mut current = current;
        let strategy = self.spec.update_strategy.as_ref();
        let is_rolling = strategy.and_then(|s| s.type_.as_deref()) != Some("OnDelete");
        let wanted = self.spec.replicas.unwrap_or(1);
        if is_rolling && [updated, ready, replicas] == [wanted; 3] {
            // The update is complete.
            of_current = updated;
            current = update;
        }
        let nonzero = |number: i32| Some(number).filter(|number| *number != 0);
        StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas,
            ready_replicas: nonzero(ready),
            available_replicas: Some(count(&is_available)),
            current_replicas: nonzero(of_current),
            updated_replicas: nonzero(updated),
            current_revision: Some(current.to_owned()),
            update_revision: Some(update.to_owned()),
            collision_count: Some(self.revisions.collisions),
            conditions: self.set.status.as_ref().and_then(|s| s.conditions.clone()),
        }
    }
}
