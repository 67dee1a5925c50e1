//! Delays the deletion of persistent volumes and claims that are in use.
//!
//! The API server puts a finalizer on every new volume and claim; this controller puts
//! it on those without one. A claim is in use by pods that are bound to a node; a pod
//! that is not bound yet will not be started with a claim that is being deleted. A
//! volume is in use while it is bound to a claim.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/pvcprotection/pvc_protection_controller.go`: `processPVC`,
//!   `isBeingUsedWith`, `podUsesPVCForDeletion`
//! - `pkg/controller/volume/pvprotection/pv_protection_controller.go`: `processPV`,
//!   `isBeingUsed`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use sendo::client::{CleanUp, Finalizer};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Result, Typed};

use crate::pods::{Pod, node_of};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// The controller that protects claims.
pub fn claims() -> Controller {
    let claims_of = |pod: &Pod, _: &_| {
        let namespace = pod.namespace().unwrap_or_default().to_owned();
        let names: Vec<String> = claim_names(pod).collect();
        names
            .into_iter()
            .map(move |name| ObjectKey::namespaced(&namespace, &name))
    };
    Controller::new::<PersistentVolumeClaim>()
        .named("persistentvolumeclaim-protection-controller")
        .watches(kind::<Pod>(), map_object(claims_of))
        .reconcile(sync_claim)
}

/// The controller that protects volumes.
pub fn volumes() -> Controller {
    Controller::new::<PersistentVolume>()
        .named("persistentvolume-protection-controller")
        .reconcile(sync_volume)
}

/// The names of the claims that a pod uses, also those that are created for it.
fn claim_names(pod: &Pod) -> impl Iterator<Item = String> + '_ {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| {
        let named = volume.persistent_volume_claim.as_ref();
        let own = || {
            volume
                .ephemeral
                .is_some()
                .then(|| format!("{}-{}", pod.name(), volume.name))
        };
        named.map(|claim| claim.claim_name.clone()).or_else(own)
    })
}

async fn sync_claim(claim: Arc<PersistentVolumeClaim>, cx: Context) -> Result<Action> {
    let uses =
        |pod: &Pod| node_of(pod).is_some() && claim_names(pod).any(|name| name == claim.name());
    let namespace = claim.namespace().unwrap_or_default();
    let is_used = || {
        !cx.list::<Pod>()
            .in_namespace(namespace)
            .filter(uses)
            .is_empty()
    };
    protect(&claim, CLAIM, is_used, &cx).await
}

async fn sync_volume(volume: Arc<PersistentVolume>, cx: Context) -> Result<Action> {
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    protect(&volume, VOLUME, || phase == Some("Bound"), &cx).await
}

/// Adds the finalizer to an object, and removes it when it is being deleted and not in use.
async fn protect<K: Typed>(
    object: &Arc<K>,
    finalizer: &str,
    is_used: impl Fn() -> bool,
    cx: &Context,
) -> Result<Action> {
    let clean_up = || async {
        Ok(match is_used() {
            true => CleanUp::Waiting,
            false => CleanUp::Done,
        })
    };
    match cx.finalizer(object, finalizer, clean_up).await? {
        Finalizer::InPlace => Ok(Action::done()),
        Finalizer::Going(action) => Ok(action),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_uses_the_claims_it_names_and_those_created_for_it() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [], "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "b", "ephemeral": {}},
                {"name": "d", "emptyDir": {}},
            ]},
        }))
        .expect("a pod");
        assert_eq!(claim_names(&pod).collect::<Vec<_>>(), ["c", "p-b"]);
    }
}
