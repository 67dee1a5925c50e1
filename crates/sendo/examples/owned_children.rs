//! Owned children: a `Website` of one's own keeps a ConfigMap with its page.
//!
//! The child goes away with its owner, is brought back when somebody deletes or
//! changes it, and is replaced when the owner names another.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use schemars::JsonSchema;
use sendo::{Action, Context, Controller, Index, Manager, ObjectExt, Result, Uid};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A page to be served.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.dev", version = "v1", kind = "Website", namespaced)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The name of the ConfigMap.
    pub config_map: String,
    /// What it is to hold.
    pub page: String,
}

/// ConfigMaps by the uid of the Website that controls them. A `static`, so that
/// looking up a value of another type does not compile.
static OWNED: Index<ConfigMap, Uid> = Index::new("owned", |map| map.controller_of::<Website>());

/// The program: Websites, and the ConfigMaps that they own.
pub fn manager() -> Manager {
    let controller = Controller::new::<Website>()
        // An event of a ConfigMap reconciles the Website that controls it.
        .owns::<ConfigMap>()
        .index(&OWNED)
        .reconcile(reconcile);
    // With `--install-kinds` the program installs the kind before it starts.
    Manager::new("websites")
        .defines::<Website>()
        .controller(controller)
}

async fn reconcile(site: Arc<Website>, cx: Context) -> Result<Action> {
    if site.is_being_deleted() {
        return Ok(Action::done()); // the garbage collector deletes what it owns
    }
    // Children that the spec no longer names. Reads come from the cache, which
    // shows this program's own writes at once.
    for stale in cx.list::<ConfigMap>().by(&OWNED, site.uid()).iter() {
        if stale.name() != site.spec.config_map {
            cx.delete(&stale).await?;
        }
    }
    let wanted: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": site.spec.config_map, "namespace": site.namespace()},
        "data": {"index.html": site.spec.page},
    }))?;
    // Server-side apply with an owner reference. It fails, and leaves the object
    // alone, if the ConfigMap of that name is controlled by somebody else.
    cx.apply_owned(&site, wanted).await?;
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
