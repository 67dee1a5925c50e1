//! Empties a namespace that is to go, then lets it go.
//!
//! A namespace is held by the finalizer `kubernetes` in its spec. When it is
//! deleted, everything in it is deleted, kind by kind; what its own finalizers
//! hold is reported in the namespace's conditions and waited for; when nothing
//! is left the finalizer is taken away.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use sendo::discovery::ServedKind;
use sendo::handler::map;
use sendo::source::{AnyMeta, every_kind};
use sendo::{
    Action, Context, Controller, Event, Kind, ObjectExt, ObjectKey, Result, Selection, client,
};

/// What a pass found still there.
#[derive(Debug, Default)]
struct Remains {
    /// How many objects of each kind.
    objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    finalizers: BTreeMap<String, usize>,
}

/// The finalizer in a namespace's spec that this controller answers for.
const FINALIZER: &str = "kubernetes";

/// The controller of namespaces.
pub fn controller() -> Controller {
    Controller::new::<Namespace>()
        .named("namespace-controller")
        .watches(every_kind(), map(terminating_namespace))
        .workers(4)
        .reconcile(sync)
}

/// Something went: if its namespace is going too, it may be empty now.
fn terminating_namespace(
    (_, event): (Kind, Event<AnyMeta>),
    cx: &sendo::Reader,
) -> Option<ObjectKey> {
    let Event::Deleted { object, .. } = event else {
        return None;
    };
    let namespace = cx.get::<Namespace>(object.namespace()?)?;
    namespace.is_being_deleted().then(|| namespace.key())
}

async fn sync(namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
    let spec = namespace.spec.as_ref();
    let finalizers = spec.and_then(|spec| spec.finalizers.clone());
    let mut finalizers = finalizers.unwrap_or_default();
    if !namespace.is_being_deleted() || !finalizers.iter().any(|f| f == FINALIZER) {
        return Ok(Action::done());
    }
    let remains = empty(namespace.name(), &cx).await?;
    if !remains.objects.is_empty() {
        let conditions = conditions::of(&namespace, &remains, cx.now());
        let report = |status: &mut NamespaceStatus| {
            status.phase = Some("Terminating".to_owned());
            status.conditions = Some(conditions);
        };
        cx.client().status(&*namespace, report).await?;
        // The last object's end starts the next pass.
        return Ok(Action::done());
    }
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    let mut emptied = Namespace::clone(&namespace);
    emptied.spec.get_or_insert_default().finalizers = Some(finalizers);
    let finalize = cx.client().subresource(&*namespace, "finalize")?;
    match finalize.update::<Namespace>(&emptied).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Deletes what is in the namespace and counts what stays.
async fn empty(namespace: &str, cx: &Context) -> Result<Remains> {
    let served = cx.served_kinds().await?;
    let mut remains = Remains::default();
    let deletable = served
        .into_iter()
        .filter(|served| served.namespaced && served.can("list") && served.can("delete"));
    for served in deletable {
        match empty_of(&served, namespace, &mut remains, cx).await {
            // A kind whose definition went meanwhile took its objects along.
            Err(error) if error.is_not_served() => {}
            emptied => emptied?,
        }
    }
    Ok(remains)
}

/// Deletes the objects of a kind.
async fn empty_of(
    served: &ServedKind,
    namespace: &str,
    remains: &mut Remains,
    cx: &Context,
) -> Result<(), client::Error> {
    let client = cx.client().of_kind::<AnyMeta>(served.kind.clone());
    let content = Selection::in_namespace(namespace);
    let left = client.live_list(&content).await?;
    if left.is_empty() {
        return Ok(());
    }
    if served.can("deletecollection") {
        client.delete_all(&content).await?;
    } else {
        for object in &left {
            client.delete(object).await?;
        }
    }
    let left = client.live_list(&content).await?;
    for object in &left {
        for finalizer in object.metadata.finalizers.iter().flatten() {
            *remains.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    if !left.is_empty() {
        let name = match served.kind.group.as_str() {
            "" => format!("{}.", served.kind.plural),
            group => format!("{}.{group}", served.kind.plural),
        };
        remains.objects.insert(name, left.len());
    }
    Ok(())
}
