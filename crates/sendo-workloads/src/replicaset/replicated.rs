//! What a ReplicaSet and a ReplicationController have in common.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replication/conversion.go`: `convertRCtoRS`, `convertRStoRC`
//! - `pkg/controller/replication/replication_controller_utils.go`

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
    ReplicationControllerStatus,
};
use sendo::{Context, Result, Selector, Typed};

/// An object that has a number of pods made from one template.
pub(super) trait Replicated: Typed {
    /// Its selector; `None` if it is absent or invalid, which matches nothing.
    fn selector(&self) -> Option<Selector>;
    /// The replicas in the spec.
    fn replicas(&self) -> Option<i32>;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn min_ready_seconds(&self) -> Option<i32>;
    /// The status, as a ReplicaSet has it.
    fn status(&self) -> ReplicaSetStatus;
    /// Writes the status if it changed.
    fn write_status(
        &self,
        status: ReplicaSetStatus,
        cx: &Context,
    ) -> impl Future<Output = Result<()>> + Send;
}

impl Replicated for ReplicaSet {
    fn selector(&self) -> Option<Selector> {
        Selector::try_from(&self.spec.as_ref()?.selector).ok()
    }

    fn replicas(&self) -> Option<i32> {
        self.spec.as_ref()?.replicas
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn min_ready_seconds(&self) -> Option<i32> {
        self.spec.as_ref()?.min_ready_seconds
    }

    fn status(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    async fn write_status(&self, status: ReplicaSetStatus, cx: &Context) -> Result<()> {
        cx.client().status(self, |known| *known = status).await?;
        Ok(())
    }
}

impl Replicated for ReplicationController {
    fn selector(&self) -> Option<Selector> {
        let selector = self.spec.as_ref()?.selector.as_ref()?;
        (!selector.is_empty()).then(|| Selector::labels(selector))
    }

    fn replicas(&self) -> Option<i32> {
        self.spec.as_ref()?.replicas
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn min_ready_seconds(&self) -> Option<i32> {
        self.spec.as_ref()?.min_ready_seconds
    }

    fn status(&self) -> ReplicaSetStatus {
        let status = self.status.clone().unwrap_or_default();
        let conditions = status.conditions.map(|conditions| {
            let conditions = conditions.into_iter().map(|condition| {
                k8s_openapi::api::apps::v1::ReplicaSetCondition {
                    type_: condition.type_,
                    status: condition.status,
                    reason: condition.reason,
                    message: condition.message,
                    last_transition_time: condition.last_transition_time,
                }
            });
            conditions.collect()
        });
        ReplicaSetStatus {
            conditions,
            ..ReplicaSetStatus::default()
        }
    }

    /// There is no field for pods that are being deleted.
    async fn write_status(&self, status: ReplicaSetStatus, cx: &Context) -> Result<()> {
        let conditions = status.conditions.map(|conditions| {
            let conditions =
                conditions
                    .into_iter()
                    .map(|condition| ReplicationControllerCondition {
                        type_: condition.type_,
                        status: condition.status,
                        reason: condition.reason,
                        message: condition.message,
                        last_transition_time: condition.last_transition_time,
                    });
            conditions.collect()
        });
        let status = ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions,
        };
        cx.client().status(self, |known| *known = status).await?;
        Ok(())
    }
}
