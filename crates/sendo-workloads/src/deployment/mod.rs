//! Rolls out the pod template of a Deployment: there is a ReplicaSet for each template
//! it has had. The newest grows while the others shrink, within the bounds of the strategy.
//!
//! `template` of the crate and `revision` tell
//! the new one from the old ones and number them; `rolling`, `recreate` and
//! `proportion` decide about sizes; `history` deletes old ReplicaSets; `status` and
//! `conditions` report. `rollout` is the state that they share.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/deployment_controller.go`: `NewDeploymentController`,
//!   `getDeploymentsForReplicaSet`, `syncDeployment`

mod bounds;
mod conditions;
mod history;
mod proportion;
mod recreate;
mod revision;
mod rolling;
mod rollout;
mod sets;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use sendo::claim::Claim;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventSeverity::Warning, Index, ObjectExt, ObjectKey, Reader,
    Result, Selector, Uid,
};

use self::rollout::Rollout;
use crate::pods::{self, Pod};

/// ReplicaSets by the object that controls them.
static BY_CONTROLLER: Index<ReplicaSet, Uid> =
    Index::new("replicasets-by-controller", |set| set.controller());

/// ReplicaSets without a controller, by namespace.
static ORPHANS: Index<ReplicaSet, String> = Index::new("orphaned-replicasets", |set| {
    let orphan = set.controller().is_none();
    orphan.then(|| set.namespace().unwrap_or_default().to_owned())
});

/// The controller of Deployments.
pub fn controller() -> Controller {
    Controller::new::<Deployment>()
        .named("deployment-controller")
        .owns::<ReplicaSet>()
        .watches(kind::<ReplicaSet>(), map_object(deployments_that_may_adopt))
        .reads::<Pod>()
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .index(&pods::BY_CONTROLLER)
        .workers(5)
        .reconcile(sync)
}

/// The Deployments that may adopt a ReplicaSet: if it has no controller, those whose selector
/// matches it.
fn deployments_that_may_adopt(set: &ReplicaSet, cx: &Reader) -> Vec<ObjectKey> {
    if set.controller().is_some() {
        return Vec::new();
    }
    let namespace = set.namespace().unwrap_or_default();
    let deployments = cx.list::<Deployment>().in_namespace(namespace);
    deployments
        .filter(|deployment| {
            let selector = selector(deployment).filter(|selector| !selector.is_everything());
            selector.is_some_and(|selector| selector.matches(set.metadata.labels.as_ref()))
        })
        .keys()
}

/// The Deployment's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(deployment: &Deployment) -> Option<Selector> {
    let spec = deployment.spec.as_ref()?;
    Selector::try_from(&spec.selector).ok()
}

async fn sync(deployment: Arc<Deployment>, cx: Context) -> Result<Action> {
    let Some(selector) = selector(&deployment) else {
        return Ok(Action::done());
    };
    if selector.is_everything() {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        cx.event(Warning, "SelectingAll", message);
        return Ok(Action::done());
    }
    let claim = Claim::new(&*deployment, &selector, &BY_CONTROLLER, &ORPHANS);
    let sets = claim.claim(|set| !set.is_being_deleted(), &cx).await?;
    let mut rollout = Rollout::new(&deployment, sets, &cx);

    // A failure is reported in the status before the sync is retried.
    let advanced = rollout.advance().await;
    let again = rollout.write_status(advanced.as_ref().ok()).await;
    advanced?;
    Ok(match again? {
        Some(delay) => Action::after(delay),
        None => Action::done(),
    })
}
