//! What cargo knows about a project: its target folder, and the packages on this machine that it
//! is built from.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::program::{NO_CARGO, cargo_command};
use crate::project::Project;

#[derive(Debug)]
pub(super) struct Metadata {
    /// The folder of what cargo builds.
    pub(super) target: PathBuf,
    /// The folders of the packages that may change: those that come from no registry.
    pub(super) packages: Vec<PathBuf>,
}

/// Asks cargo, which resolves the dependencies for it.
pub(super) fn read(project: &Project) -> Result<Metadata> {
    let output = cargo_command(&project.root)
        .args(["metadata", "--format-version=1"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(NO_CARGO)?;
    if !output.status.success() {
        bail!("cargo does not understand the project, for the reason above");
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo's metadata")?;
    let target = metadata["target_directory"]
        .as_str()
        .context("cargo names no target folder")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let local = packages.filter(|package| package["source"].is_null());
    let folders = local.filter_map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        manifest.parent().map(Path::to_owned)
    });
    Ok(Metadata {
        target: PathBuf::from(target),
        packages: folders.collect(),
    })
}
