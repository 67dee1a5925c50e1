//! What `cargo metadata` says of the packages of the workspace, without a network.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// All packages, and which of them are used.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

/// One version of a crate.
#[derive(Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) rust_version: Option<String>,
    /// Where it may be published: nowhere if the list is empty, else anywhere.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(skip)]
    pub(crate) is_member: bool,
}

/// What a package depends on, as its manifest says.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    name: String,
    req: String,
    kind: Option<String>,
    path: Option<String>,
}

impl Metadata {
    /// Asks cargo, for these targets; for all there are if none is named.
    pub(crate) fn read(targets: &[String]) -> Result<Metadata> {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--format-version=1", "--all-features"]);
        cargo.args(["--locked", "--offline"]);
        for target in targets {
            cargo.args(["--filter-platform", target]);
        }
        let output = cargo.output().context("cannot run cargo")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("cargo metadata: {said}(if crates are missing: `cargo fetch`)");
        }
        let mut metadata: Metadata = serde_json::from_slice(&output.stdout)?;
        for package in &mut metadata.packages {
            package.is_member = metadata.workspace_members.contains(&package.id);
        }
        Ok(metadata)
    }

    /// The packages that are built for the workspace and its tests.
    pub(crate) fn used(&self) -> Vec<&Package> {
        let used: BTreeSet<_> = self.resolve.nodes.iter().map(|node| &node.id).collect();
        let all = self.packages.iter();
        all.filter(|package| used.contains(&package.id)).collect()
    }
}

impl Package {
    /// Dependencies of a member that any version satisfies. By their path alone
    /// are named those of a package that is not published, and those of tests.
    pub(crate) fn unbounded_dependencies(&self) -> impl Iterator<Item = &str> {
        let is_private = self.publish.as_ref().is_some_and(Vec::is_empty);
        let unbounded = self.dependencies.iter().filter(move |dependency| {
            let is_test = dependency.kind.as_deref() == Some("dev");
            let is_fine = dependency.path.is_some() && (is_private || is_test);
            dependency.req == "*" && !is_fine
        });
        let ours = unbounded.filter(|_| self.is_member);
        ours.map(|dependency| &*dependency.name)
    }
}
