//! Creates the ServiceAccount `default` in every namespace.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/serviceaccount/serviceaccounts_controller.go`: `syncNamespace`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Result};

const NAME: &str = "default";

/// The controller of `default` ServiceAccounts.
pub fn controller() -> Controller {
    let accounts = kind::<ServiceAccount>().selecting(Selection::fields(FieldSelector::equal(
        "metadata.name",
        NAME,
    )));
    Controller::new::<Namespace>()
        .named("serviceaccount-controller")
        .watches(
            accounts,
            map_object(|account: &ServiceAccount, _| account.namespace().map(ObjectKey::cluster)),
        )
        .reconcile(sync)
}

async fn sync(namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
    let key = ObjectKey::namespaced(namespace.name(), NAME);
    if namespace.is_being_deleted() || cx.get::<ServiceAccount>(&key).is_some() {
        return Ok(Action::done());
    }
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.name().to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    match cx.client().create(&account).await {
        Err(error) if !error.is_already_exists() && !error.is_namespace_gone() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}
