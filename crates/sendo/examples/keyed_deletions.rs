//! A controller with keys of its own that sees deletions: how many pods a
//! namespace has, as an annotation of the namespace.
//!
//! What is reconciled here is not one object, so the key is chosen by the
//! controller, and every event of a pod, its deletion included, leads to it.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use sendo::handler::map_object;
use sendo::{Action, Context, Controller, Manager, ObjectExt, Patch, Result, Verb, source};
use serde_json::json;

const PODS: &str = "example.dev/pods";

/// The program: pods and namespaces, both reconciled by the name of a namespace.
pub fn manager() -> Manager {
    // The type of the key follows from the handlers: here `String`.
    let controller = Controller::keyed::<String>("pod-count")
        .watches(
            source::kind::<Pod>(),
            // For a deleted pod the event has its last state known.
            map_object(|pod: &Pod, _| pod.namespace().map(str::to_owned)),
        )
        .watches(
            source::kind::<Namespace>(),
            map_object(|namespace: &Namespace, _| [namespace.name().to_owned()]),
        )
        .writes::<Namespace>(Verb::Patch)
        .reconcile(reconcile);
    Manager::new("pod-count").controller(controller)
}

/// Called for every key that a handler gave, whether or not anything has that
/// name. Many events of one key that are not handled yet are one call.
async fn reconcile(name: String, cx: Context) -> Result<Action> {
    let namespace = cx.get::<Namespace>(name.as_str());
    let Some(namespace) = namespace.filter(|namespace| !namespace.is_being_deleted()) else {
        return Ok(Action::done());
    };
    let pods = cx.list::<Pod>().in_namespace(name).count().to_string();
    if namespace.annotation(PODS) != Some(&pods) {
        let change = json!({"metadata": {"annotations": {PODS: pods}}});
        cx.patch(&namespace, Patch::Merge(change)).await?;
    }
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
