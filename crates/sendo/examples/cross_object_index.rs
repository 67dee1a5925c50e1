//! An index across kinds: when a ConfigMap changes, the Deployments that mount
//! it are rolled out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use sendo::handler::map_object;
use sendo::{Action, Context, Controller, Index, Manager, ObjectExt, ObjectKey, Patch, Result};
use sendo::{Verb, predicate, source};
use serde_json::json;

/// On the pod template, so that a change of it is a new rollout.
const VERSIONS: &str = "example.dev/config-versions";

/// Deployments by the keys of the ConfigMaps that their pods mount. Computed
/// when a Deployment arrives; a lookup costs only what it finds.
static BY_CONFIG: Index<Deployment, ObjectKey> = Index::many("by-config", mounted);

fn mounted(deployment: &Deployment) -> Vec<ObjectKey> {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let pod = template.and_then(|template| template.spec.as_ref());
    let volumes = pod.into_iter().flat_map(|pod| pod.volumes.iter().flatten());
    let maps = volumes.filter_map(|volume| volume.config_map.as_ref());
    maps.map(|map| deployment.key_beside(&map.name)).collect()
}

/// The program: Deployments, and the ConfigMaps that they mount.
pub fn manager() -> Manager {
    let controller = Controller::new::<Deployment>()
        // Not when only the status changed, which happens with every pod.
        .when(predicate::generation_changed())
        .watches(
            source::kind::<ConfigMap>(),
            map_object(|map: &ConfigMap, cx| {
                cx.list::<Deployment>().by(&BY_CONFIG, map.key()).keys()
            }),
        )
        .index(&BY_CONFIG)
        // What it writes is declared too: its role follows from here.
        .writes::<Deployment>(Verb::Patch)
        .reconcile(reconcile);
    Manager::new("reloader").controller(controller)
}

async fn reconcile(deployment: Arc<Deployment>, cx: Context) -> Result<Action> {
    // A kind that is watched can be read, too; others are declared with `.reads`.
    let found = mounted(&deployment).into_iter().filter_map(|key| {
        let map = cx.get::<ConfigMap>(&key)?;
        Some((key.name().to_owned(), map.version()))
    });
    let versions = serde_json::to_string(&found.collect::<BTreeMap<_, _>>())?;
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let metadata = template.and_then(|template| template.metadata.as_ref());
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let known = annotations.and_then(|annotations| annotations.get(VERSIONS));
    if mounted(&deployment).is_empty() || known == Some(&versions) {
        return Ok(Action::done());
    }
    let metadata = json!({"annotations": {VERSIONS: versions}});
    let change = Patch::Merge(json!({"spec": {"template": {"metadata": metadata}}}));
    cx.patch(&deployment, change).await?;
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
