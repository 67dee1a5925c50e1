//! `sendo undeploy`: takes the program away from a cluster.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::apply::{in_order, is_definition};
use super::kinds::{delete_definitions, objects_of_kinds};
use super::refuse_objects;
use super::source::ManifestFlags;
use crate::api::{ClusterFlags, name_of, text};
use crate::output::{Format, print_json};

/// Take the program away from a cluster
///
/// Deletes what `sendo deploy` applied, in the reverse order. Kinds and their
/// objects stay unless you say so, and so does the namespace as long as objects
/// of the kinds are in it.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo undeploy                               the program; kinds and objects stay
  sendo undeploy --kinds                       and its kinds, if they have no objects
  sendo undeploy --kinds --delete-objects      everything"
)]
pub(crate) struct Undeploy {
    #[command(flatten)]
    source: ManifestFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// Remove the kinds, too
    #[arg(long)]
    kinds: bool,

    /// Delete all objects of the kinds with them
    #[arg(long, requires = "kinds")]
    delete_objects: bool,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Undeploy {
    pub(crate) async fn run(self) -> Result<()> {
        let objects = self.source.manifests()?;
        let mut api = self.cluster.connect().await?.api;
        let screen = self.output.progress();
        let (definitions, mut others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(is_definition);
        let owned = objects_of_kinds(&api, &definitions).await?;
        if self.kinds && !self.delete_objects {
            refuse_objects(&owned, "--delete-objects")?;
        }
        let mut deleted = Vec::new();
        if self.kinds {
            // Before the program, so that its finalizers run while it does.
            deleted = delete_definitions(&api, &definitions, &screen).await?;
        }
        others = in_order(others);
        others.reverse();
        // Webhooks first: nobody is to answer them soon.
        others.sort_by_key(|object| !super::is_webhook_configuration(object));
        for object in &others {
            let name = name_of(object);
            if text(object, "/kind") == "Namespace"
                && let Some(reason) = why_namespace_stays(object, self.kinds, &owned)
            {
                screen.say(format!("  {name} stays: {reason}"));
                continue;
            }
            let is_deleted = match api.path(object).await? {
                Some(path) => api.delete(&path).await?,
                None => false,
            };
            match is_deleted {
                true => {
                    screen.step(&format!("{name} deleted"), "");
                    deleted.push(name);
                }
                false => screen.say(format!("  {name} was not there")),
            }
        }
        if self.output == Format::Json {
            print_json(&json!({"deleted": deleted}))?;
        }
        Ok(())
    }
}

fn why_namespace_stays(
    namespace: &Value,
    kinds_go: bool,
    owned: &[(String, Vec<String>)],
) -> Option<String> {
    let name = text(namespace, "/metadata/name");
    if name == "default" || name.starts_with("kube-") {
        return Some("it belongs to the cluster".to_owned());
    }
    if kinds_go {
        return None;
    }
    let inside = format!("{name}/");
    let (kind, _) = owned
        .iter()
        .find(|(_, objects)| objects.iter().any(|object| object.starts_with(&inside)))?;
    Some(format!("objects of {kind} are in it"))
}
