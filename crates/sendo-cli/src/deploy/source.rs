//! What is applied: what the program prints, or a file.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use crate::api::yaml_documents;
use crate::program::objects_of;
use crate::project::Project;

/// The flags for what the program's `manifests` print.
#[derive(Debug, Args)]
pub(super) struct ManifestFlags {
    /// Apply this file instead of what the program prints; `-` is standard input
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["image", "namespace", "replicas", "flags"])]
    file: Option<PathBuf>,

    /// The image of the program
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// The namespace of the program [default: what its `manifests` print]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// How many replicas of the program run
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,

    /// More flags for the program's `manifests`
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

impl ManifestFlags {
    /// The objects of a deployment.
    pub(super) fn manifests(&self) -> Result<Vec<Value>> {
        let mut arguments = vec!["manifests".to_owned()];
        let mut pass = |flag: &str, value: Option<String>| {
            arguments.extend(value.map(|value| format!("--{flag}={value}")));
        };
        pass("image", self.image.clone());
        pass("namespace", self.namespace.clone());
        pass(
            "replicas",
            self.replicas.map(|replicas| replicas.to_string()),
        );
        arguments.extend(self.flags.iter().cloned());
        read(self.file.as_ref(), &arguments)
    }
}

/// The kinds alone: those of a file, or what the program's `crds` print.
pub(super) fn definitions(file: Option<&PathBuf>) -> Result<Vec<Value>> {
    let mut objects = read(file, &["crds".to_owned()])?;
    objects.retain(super::apply::is_definition);
    Ok(objects)
}

fn read(file: Option<&PathBuf>, arguments: &[String]) -> Result<Vec<Value>> {
    let Some(file) = file else {
        return objects_of(&Project::here()?, arguments);
    };
    let text = match file.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        _ => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?,
    };
    yaml_documents(&text)
}
