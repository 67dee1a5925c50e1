//! `sendo install` and `sendo uninstall`: the kinds alone.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use super::apply::{Outcome, apply_all, is_definition};
use super::{refuse_objects, source};
use crate::api::{Api, ClusterFlags, Conflicts, Effect, text};
use crate::output::{Format, print_json};
use crate::project::Project;
use crate::screen::Screen;

/// Install the program's kinds in a cluster, or bring them up to date
///
/// Applies the CustomResourceDefinitions that the program's `crds` prints, and
/// waits until the API server serves them.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo install                            the kinds of the project in this folder
  sendo install --dry-run                  what would change, field by field
  sendo install --file crds.yaml           those of a file"
)]
pub(crate) struct Install {
    /// Install the kinds of this file instead; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// Show what would change, field by field, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// Remove the program's kinds from a cluster
///
/// A kind that has objects stays, because they would be deleted with it, unless
/// you say --delete-objects.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo uninstall                          kinds that have no objects
  sendo uninstall --delete-objects         the kinds and all of their objects"
)]
pub(crate) struct Uninstall {
    /// Remove the kinds of this file instead; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// Delete all objects of the kinds, too
    #[arg(long)]
    delete_objects: bool,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Install {
    pub(crate) async fn run(self) -> Result<()> {
        let definitions = source::definitions(self.file.as_ref())?;
        refuse_none(&definitions)?;
        let mut api = self.cluster.connect().await?.api;
        let effect = match self.dry_run {
            true => Effect::DryRun,
            false => Effect::Persist,
        };
        let screen = self.output.progress();
        // Kinds are the program's own, whoever applied them before.
        let outcomes =
            apply_all(&mut api, definitions, Conflicts::Overwrite, effect, &screen).await?;
        if self.output == Format::Json {
            let objects: Vec<Value> = outcomes.iter().map(Outcome::to_json).collect();
            print_json(&json!({"dryRun": self.dry_run, "objects": objects}))?;
        }
        Ok(())
    }
}

impl Uninstall {
    pub(crate) async fn run(self) -> Result<()> {
        let definitions = source::definitions(self.file.as_ref())?;
        refuse_none(&definitions)?;
        let api = self.cluster.connect().await?.api;
        if !self.delete_objects {
            refuse_objects(
                &objects_of_kinds(&api, &definitions).await?,
                "--delete-objects",
            )?;
        }
        let screen = self.output.progress();
        let deleted = delete_definitions(&api, &definitions, &screen).await?;
        if self.output == Format::Json {
            print_json(&json!({"deleted": deleted}))?;
        }
        Ok(())
    }
}

fn refuse_none(definitions: &[Value]) -> Result<()> {
    if definitions.is_empty() {
        let here = Project::here()
            .map(|project| project.name)
            .unwrap_or_default();
        bail!("{here} defines no kind: `Manager::defines` names those of a program");
    }
    Ok(())
}

fn definition_path(definition: &Value) -> String {
    let name = text(definition, "/metadata/name");
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

/// The objects of these kinds in the cluster, by the names of their definitions.
pub(super) async fn objects_of_kinds(
    api: &Api,
    definitions: &[Value],
) -> Result<Vec<(String, Vec<String>)>> {
    let mut found = Vec::new();
    for definition in definitions.iter().filter(|object| is_definition(object)) {
        let name = text(definition, "/metadata/name");
        let Some(installed) = api.get(&definition_path(definition)).await? else {
            continue;
        };
        let versions = installed["spec"]["versions"].as_array();
        let served = versions
            .into_iter()
            .flatten()
            .find(|version| version["served"] == true);
        let Some(version) = served else {
            bail!(
                "no version of {name} is served, so it cannot be told whether it has objects: --delete-objects does not look"
            );
        };
        let (group, plural) = (
            text(&installed, "/spec/group"),
            text(&installed, "/spec/names/plural"),
        );
        let list = api
            .list(&format!(
                "/apis/{group}/{}/{plural}",
                text(version, "/name")
            ))
            .await?;
        let names = list
            .iter()
            .map(|object| match text(object, "/metadata/namespace") {
                "" => text(object, "/metadata/name").to_owned(),
                namespace => format!("{namespace}/{}", text(object, "/metadata/name")),
            });
        found.push((name.to_owned(), names.collect()));
    }
    Ok(found)
}

/// Deletes definitions; the names of those that were there.
pub(super) async fn delete_definitions(
    api: &Api,
    definitions: &[Value],
    screen: &Screen,
) -> Result<Vec<String>> {
    let mut deleted = Vec::new();
    for definition in definitions.iter().filter(|object| is_definition(object)) {
        let name = text(definition, "/metadata/name").to_owned();
        match api.delete(&definition_path(definition)).await? {
            true => {
                screen.step(&format!("CustomResourceDefinition {name} deleted"), "");
                deleted.push(name);
            }
            false => screen.say(format!("  CustomResourceDefinition {name} was not there")),
        }
    }
    Ok(deleted)
}
