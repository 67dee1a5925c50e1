//! The controller: creates and updates the Deployment of a Bar.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use sendo::{
    Action, Context, Controller, Error, EventSeverity::*, Index, Manager, ObjectExt, Patch, Result,
    Uid, Verb, webhook,
};
use serde_json::json;

use crate::webhook::{BY_DEPLOYMENT, validate};
use crate::{Bar, v1alpha1};

/// Deployments by the Bar that controls them.
static OWNED: Index<Deployment, Uid> = Index::new("owned-by-bar", |d| d.controller_of::<Bar>());

/// A manager with the controller, the webhook and both versions of the resource.
pub fn manager() -> Manager {
    Manager::new("bar-controller")
        .defines::<Bar>()
        .serves::<v1alpha1::Bar>()
        .webhook(
            webhook::validates(validate)
                .reads::<Bar>()
                .index(&BY_DEPLOYMENT),
        )
        .controller(
            Controller::new::<Bar>()
                .owns::<Deployment>()
                // Fewer verbs than owning implies: its role has what it uses, and no more.
                .writes::<Deployment>(Verb::Create | Verb::Patch | Verb::Delete)
                .index(&OWNED)
                .reconcile(reconcile),
        )
}

async fn reconcile(bar: Arc<Bar>, cx: Context) -> Result<Action> {
    if bar.is_being_deleted() {
        return Ok(Action::done()); // what it owns is collected with it
    }
    let name = &bar.spec.deployment;
    let mut changed = false;
    for stale in cx.list::<Deployment>().by(&OWNED, bar.uid()) {
        if stale.name() != name && !stale.is_being_deleted() {
            cx.delete(&stale).await?;
            let message = format!("Deleted Deployment {:?}, no longer named", stale.name());
            cx.event(Normal, "Deleted", message);
            changed = true;
        }
    }

    let deployment = match cx.get::<Deployment>(bar.key_beside(name)) {
        None => {
            changed = true;
            Arc::new(cx.create_owned(&bar, bar.deployment()).await?)
        }
        Some(theirs) if !theirs.is_controlled_by(&*bar) => {
            let message = format!("Resource {name:?} already exists and is not managed by Bar");
            cx.event(Warning, "ErrResourceExists", &message);
            return Err(Error::message(message));
        }
        Some(ours) if bar.wants_other_size_than(&ours) => {
            changed = true;
            let scale = Patch::Merge(json!({"spec": {"replicas": bar.spec.replicas}}));
            Arc::new(cx.patch(&ours, scale).await?)
        }
        Some(ours) => ours,
    };

    let found = deployment.status.clone().unwrap_or_default();
    cx.status(&bar, |status| {
        status.available_replicas = found.available_replicas.unwrap_or(0);
        status.selector = Some(bar.selector());
        status.observed_generation = bar.metadata.generation;
    })
    .await?;
    if changed {
        cx.event(Normal, "Synced", "Bar synced successfully");
    }
    Ok(Action::done())
}
