//! Status of objects, written only if it changes.

use serde::Serialize;
use serde_json::json;

use super::error::Error;
use super::kind::KindClient;
use super::patch::{Patch, merge_patch, to_json};
use crate::object::Object;

/// A kind with a status. Implemented for what `#[derive(CustomResource)]` gives
/// a status, and for the built-in kinds that have one.
///
/// `M` only tells these two apart, and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status",
    label = "a kind without a status",
    note = "give a kind of your own a status with `#[kube(status = \"…\")]`; that type needs `Default`, `Clone` and `Serialize`"
)]
pub trait WithStatus<M>: Object {
    /// The status.
    type Status: Serialize + Default + Clone;

    /// The status, if it has been set.
    fn status(&self) -> Option<&Self::Status>;
}

/// Marks kinds that derive their status; see [`WithStatus`].
#[derive(Debug)]
pub enum Derived {}

/// Marks kinds of `k8s-openapi`; see [`WithStatus`].
#[derive(Debug)]
pub enum BuiltIn {}

#[diagnostic::do_not_recommend]
impl<K> WithStatus<Derived> for K
where
    K: Object + kube::core::object::HasStatus,
    K::Status: Serialize + Default + Clone,
{
    type Status = K::Status;

    fn status(&self) -> Option<&Self::Status> {
        kube::core::object::HasStatus::status(self)
    }
}

macro_rules! built_in_status {
    ($($path:ident::$version:ident::{$($kind:ident: $status:ident),+ $(,)?};)+) => {$($(
        impl WithStatus<BuiltIn> for k8s_openapi::api::$path::$version::$kind {
            type Status = k8s_openapi::api::$path::$version::$status;

            fn status(&self) -> Option<&Self::Status> {
                self.status.as_ref()
            }
        }
    )+)+};
}

built_in_status! {
    apps::v1::{
        DaemonSet: DaemonSetStatus,
        Deployment: DeploymentStatus,
        ReplicaSet: ReplicaSetStatus,
        StatefulSet: StatefulSetStatus,
    };
    autoscaling::v2::{HorizontalPodAutoscaler: HorizontalPodAutoscalerStatus};
    batch::v1::{CronJob: CronJobStatus, Job: JobStatus};
    certificates::v1::{CertificateSigningRequest: CertificateSigningRequestStatus};
    core::v1::{
        Namespace: NamespaceStatus,
        Node: NodeStatus,
        PersistentVolume: PersistentVolumeStatus,
        PersistentVolumeClaim: PersistentVolumeClaimStatus,
        Pod: PodStatus,
        ReplicationController: ReplicationControllerStatus,
        ResourceQuota: ResourceQuotaStatus,
        Service: ServiceStatus,
    };
    networking::v1::{Ingress: IngressStatus};
    policy::v1::{PodDisruptionBudget: PodDisruptionBudgetStatus};
}

impl<K: Object> KindClient<K> {
    /// Changes the status of an object: `change` is given the newest status this
    /// program knows, and what it changes is sent as a merge patch. Nothing is
    /// sent if that is nothing.
    ///
    /// The answer is what `change` returned if something was written, else `None`:
    /// if nothing had changed, or if the object is gone meanwhile and has no
    /// status to write, which is no error. So what is to be told of a change is
    /// told once; see [`conditions::set`](crate::conditions::set).
    ///
    /// Fields that `change` leaves alone keep what anybody else has written.
    pub async fn status<M, T>(
        &self,
        object: &K,
        change: impl FnOnce(&mut K::Status) -> T,
    ) -> Result<Option<T>, Error>
    where
        K: WithStatus<M>,
    {
        let newest = self.newest_of(object);
        let mut status = newest.status().cloned().unwrap_or_default();
        let before = match newest.status() {
            Some(status) => to_json(status)?,
            None => json!({}),
        };
        let returned = change(&mut status);
        let Some(difference) = merge_patch(&before, &to_json(&status)?) else {
            return Ok(None);
        };
        let patch = Patch::Merge(json!({ "status": difference }));
        match self.patch_status(object, patch).await {
            Ok(_) => Ok(Some(returned)),
            Err(error) if error.means_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
