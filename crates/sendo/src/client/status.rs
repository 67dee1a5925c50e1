//! Status of objects, written only if it changes.

use kube::core::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::kind::KindClient;
use super::modify::wait_after;
use super::patch::{Patch, merge_patch};
use super::status_merge::{merge, touches_list};
use crate::object::{Object, ObjectExt, ObjectKey};
use crate::transport::{Error, to_json};

/// A kind with a status. Implemented for what `#[derive(CustomResource)]` gives
/// a status, and for the built-in kinds that have one.
///
/// `M` only distinguishes these two, and is always inferred.
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
    /// The answer is what `change` returned if something was written, else `None`: if nothing had
    /// changed, or if the object is gone meanwhile and has no status to write, which is no error.
    /// So a change is reported once; see [`conditions::set`](crate::conditions::set).
    ///
    /// Fields that `change` leaves alone keep what anybody else has written, and so
    /// do conditions: of the members called `conditions`, only those types are
    /// written that `change` has changed. Other lists are written whole, and only
    /// over what `change` has seen; if somebody else has changed the same list,
    /// that is a conflict, and the reconcile is tried again.
    pub async fn status<M, T>(
        &self,
        object: &K,
        change: impl FnOnce(&mut K::Status) -> T,
    ) -> Result<Option<T>, Error>
    where
        K: WithStatus<M>,
    {
        let newest = self.newest_of(object);
        let before = status_of(&*newest)?;
        let mut status = newest.status().cloned().unwrap_or_default();
        let returned = change(&mut status);
        let after = to_json(&status)?;
        let Some(difference) = merge_patch(&before, &after) else {
            return Ok(None);
        };
        let version = &newest.meta().resource_version;
        let mut patch = match touches_list(&before, &difference) {
            false => Some(json!({ "status": difference })),
            // What is cut down in the cache is no list to write back.
            true if self.client().cache().is_cut::<K>(self.kind()) => None,
            true => Some(guarded_by(version, difference)),
        };
        let mut attempt = 1;
        loop {
            if let Some(patch) = patch {
                let refused = match self.patch_status(object, Patch::Merge(patch)).await {
                    Ok(_) => return Ok(Some(returned)),
                    Err(error) if error.means_gone() => return Ok(None),
                    Err(error) => error,
                };
                wait_after(self.client().world(), refused, &mut attempt).await?;
            }
            let live = match self.live_get(&ObjectKey::from_object(object)).await {
                Ok(live) => live.filter(|live| live.uid() == object.uid()),
                Err(error) => return Err(conflict(&format!("it cannot be read again: {error}"))),
            };
            let Some(live) = live else { return Ok(None) };
            let theirs = status_of(&live)?;
            let merged = merge(&before, &after, &theirs);
            let merged = merged.ok_or_else(|| conflict("both have changed one list"))?;
            let Some(difference) = merge_patch(&theirs, &merged) else {
                return Ok(None); // Somebody else has written the same.
            };
            patch = Some(guarded_by(&live.meta().resource_version, difference));
        }
    }
}

/// The error that says that somebody else was faster.
fn conflict(cause: &str) -> Error {
    let message = format!("the status was changed by somebody else, and {cause}");
    Error::Api(Box::new(
        Status::failure(&message, "Conflict").with_code(409),
    ))
}

fn status_of<M, K: WithStatus<M>>(object: &K) -> Result<Value, Error> {
    object.status().map_or_else(|| Ok(json!({})), to_json)
}

/// A change of status that is refused if the object has changed since `version`.
fn guarded_by(version: &Option<String>, difference: Value) -> Value {
    match version {
        Some(version) => {
            json!({"metadata": {"resourceVersion": version}, "status": difference})
        }
        None => json!({ "status": difference }),
    }
}
