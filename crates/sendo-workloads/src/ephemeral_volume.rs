//! Creates the claims of generic ephemeral volumes, which live as long as their pod.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/volume/ephemeral/controller.go`: `syncHandler`, `handleVolume`
//! - `pkg/controller/volume/ephemeral/metrics/metrics.go`
//! - `staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go`: `VolumeClaimName`,
//!   `VolumeIsForPod`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, PersistentVolumeClaim};
use sendo::client::controller_reference;
use sendo::metrics::Counter;
use sendo::{
    Action, Context, Controller, Error, EventSeverity::*, ObjectExt, ObjectKey, Reconcile, Result,
    predicate,
};

use crate::pods::Pod;

/// The controller of ephemeral volumes.
pub fn controller() -> Controller {
    let claims = Claims::default();
    let has_volumes = predicate::matches(|pod: &Pod| volumes(pod).next().is_some());
    Controller::new::<Pod>()
        .named("ephemeral-volume-controller")
        .events_as("ephemeral_volume")
        .when(has_volumes)
        .owns::<PersistentVolumeClaim>()
        .workers(5)
        .metric(
            "ephemeral_volume_controller_create_total",
            "Number of PersistentVolumeClaim creation requests",
            claims.created.clone(),
        )
        .metric(
            "ephemeral_volume_controller_create_failures_total",
            "Number of PersistentVolumeClaim creation requests that failed",
            claims.failed.clone(),
        )
        .reconcile(claims)
}

/// The names of the pod's ephemeral volumes.
fn volumes(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let ephemeral = volumes.filter(|volume| volume.ephemeral.is_some());
    ephemeral.map(|volume| volume.name.as_str())
}

#[derive(Default)]
struct Claims {
    created: Counter,
    failed: Counter,
}

impl Reconcile<Pod> for Claims {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        if pod.is_being_deleted() {
            return Ok(Action::done());
        }
        for volume in volumes(&pod) {
            if let Err(cause) = self.provide(&pod, volume, &cx).await {
                let message = format!("ephemeral volume {volume}: {cause}");
                cx.event(Warning, "FailedBinding", message);
                return Err(cause);
            }
        }
        Ok(Action::done())
    }
}

impl Claims {
    /// Creates the claim of a volume, if it is absent.
    async fn provide(&self, pod: &Arc<Pod>, volume: &str, cx: &Context) -> Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let name = format!("{}-{volume}", pod.name());
        let key = ObjectKey::namespaced(namespace, &name);
        if let Some(claim) = cx.get::<PersistentVolumeClaim>(&key) {
            return match claim.controller() == Some(pod.uid()) {
                true => Ok(()),
                false => Err(Error::message(format!(
                    "PVC {key} was not created for pod {} (pod is not owner)",
                    pod.key()
                ))),
            };
        }
        // The cache has no templates: few pods have one.
        let Some(whole) = cx.live().get::<v1::Pod>(pod.key()).await? else {
            return Ok(());
        };
        let volumes = whole
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        let mut named = volumes.filter(|own| own.name == volume);
        let template = named
            .next()
            .and_then(|own| own.ephemeral.as_ref()?.volume_claim_template.clone());
        let Some(template) = template.filter(|_| whole.uid() == pod.uid()) else {
            return Ok(());
        };
        let mut metadata = template.metadata.unwrap_or_default();
        metadata.name = Some(name.clone());
        metadata.namespace = Some(namespace.to_owned());
        metadata.owner_references = Some(vec![controller_reference(&**pod)]);
        let claim = PersistentVolumeClaim {
            metadata,
            spec: Some(template.spec),
            status: None,
        };
        self.created.inc();
        match cx.create(&claim).await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.failed.inc();
                Err(Error::message(format!("create PVC {name}: {error}")))
            }
        }
    }
}
