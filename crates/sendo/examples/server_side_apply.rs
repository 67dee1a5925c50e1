//! Server-side apply: every namespace has a ConfigMap `defaults` with one entry
//! that this program decides, beside entries of whoever else writes there.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use sendo::handler::map_object;
use sendo::{Action, Context, Controller, Manager, ObjectExt, ObjectKey, Result, Verb, source};
use serde_json::json;

const NAME: &str = "defaults";

/// The program: namespaces, and the ConfigMap of that name in each.
pub fn manager() -> Manager {
    let controller = Controller::new::<Namespace>()
        // Not `.owns`: these objects have no owner. The handler says which
        // namespace an event of one of them concerns.
        .watches(
            source::kind::<ConfigMap>(),
            map_object(|map: &ConfigMap, _| {
                let ours = map.namespace().filter(|_| map.name() == NAME);
                ours.map(ObjectKey::cluster)
            }),
        )
        .writes::<ConfigMap>(Verb::Create | Verb::Patch)
        .reconcile(reconcile);
    Manager::new("defaults").controller(controller)
}

async fn reconcile(namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
    if namespace.is_being_deleted() {
        return Ok(Action::done());
    }
    // Everything that this program wants to say of the object, and nothing else.
    let wanted: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": NAME, "namespace": namespace.name()},
        "data": {"registry": "registry.example.dev"},
    }))?;
    // Creates the object, or changes these fields and no other. They belong to
    // the field manager of this controller, `namespace`; what it said before and
    // says no longer is taken back. Fields of others are taken over by force: to
    // be told of the conflict instead, send `Patch::Apply { object, force: false }`.
    // An apply that changes nothing starts no event, so this comes to rest.
    cx.apply(&wanted).await?;
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
