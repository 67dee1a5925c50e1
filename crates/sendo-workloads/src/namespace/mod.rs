//! Deletes the content of a namespace that is being deleted, then finalizes it.
//!
//! The finalizer `kubernetes` in the spec of a namespace delays its deletion. When it
//! is deleted, everything in it is deleted, kind by kind; objects that have finalizers
//! of their own are reported in the namespace's conditions and waited for; when nothing
//! is left the finalizer is removed.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`

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

/// What is left in a namespace after a pass.
#[derive(Debug, Default)]
struct RemainingContent {
    /// The number of objects of each resource.
    objects: BTreeMap<String, usize>,
    /// The number of objects with each finalizer.
    finalizers: BTreeMap<String, usize>,
}

/// The finalizer in a namespace's spec that this controller removes.
const FINALIZER: &str = "kubernetes";

/// The controller of namespaces.
pub fn controller() -> Controller {
    Controller::new::<Namespace>()
        .named("namespace-controller")
        .watches(every_kind(), map(terminating_namespace))
        .workers(4)
        .reconcile(sync)
}

/// The namespace of a deleted object, if it is being deleted too: it may be empty now.
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
    let remaining = delete_content(namespace.name(), &cx).await?;
    if !remaining.objects.is_empty() {
        let conditions = conditions::deletion_conditions(&namespace, &remaining, cx.now());
        let report = |status: &mut NamespaceStatus| {
            status.phase = Some("Terminating".to_owned());
            status.conditions = Some(conditions);
        };
        cx.client().status(&*namespace, report).await?;
        // The deletion of an object in the namespace starts the next pass.
        return Ok(Action::done());
    }
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    let mut finalized = Namespace::clone(&namespace);
    finalized.spec.get_or_insert_default().finalizers = Some(finalizers);
    let finalize = cx.client().subresource(&*namespace, "finalize")?;
    match finalize.update::<Namespace>(&finalized).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Deletes the content of the namespace and counts what is left.
async fn delete_content(namespace: &str, cx: &Context) -> Result<RemainingContent> {
    let served = cx.served_kinds().await?;
    let mut remaining = RemainingContent::default();
    let deletable = served
        .into_iter()
        .filter(|served| served.namespaced && served.can("list") && served.can("delete"));
    for served in deletable {
        match delete_kind(&served, namespace, &mut remaining, cx).await {
            // The kind's definition was deleted meanwhile, and its objects with it.
            Err(error) if error.is_not_served() => {}
            deleted => deleted?,
        }
    }
    Ok(remaining)
}

/// Deletes the objects of a kind in the namespace, and adds those that are left to `remaining`.
async fn delete_kind(
    served: &ServedKind,
    namespace: &str,
    remaining: &mut RemainingContent,
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
            *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    if !left.is_empty() {
        let name = match served.kind.group.as_str() {
            "" => format!("{}.", served.kind.plural),
            group => format!("{}.{group}", served.kind.plural),
        };
        remaining.objects.insert(name, left.len());
    }
    Ok(())
}
