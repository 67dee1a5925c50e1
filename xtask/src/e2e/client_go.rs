//! Runs the program in `xtask/client-go`, which tests Kubernetes' Go client with the cluster, also
//! against a candidate for a lease that uses this workspace's library.

use std::path::PathBuf;
use std::process::Command;

use super::play::Stage;
use super::report::Step;
use super::{cluster, go_program};
use crate::go_tools;

/// Its name in the report.
pub(super) const NAME: &str = "client-go";

/// The programs that take part.
pub(super) struct Program {
    /// The one in Go.
    go: PathBuf,
    /// A manager of this workspace that is a candidate for a lease.
    candidate: PathBuf,
}

/// Builds the programs; none where Go is not installed.
///
/// # Errors
///
/// When a build fails.
pub(super) fn build(release: bool) -> anyhow::Result<Option<Program>> {
    if !go_tools::is_go_installed() {
        return Ok(None);
    }
    let candidate = cluster::build("bar", "bar", release)?;
    let go = go_program::build(NAME, ".", &candidate)?;
    Ok(Some(Program { go, candidate }))
}

/// Runs the program.
pub(super) fn run(program: Option<&Program>, stage: &Stage<'_>) -> Vec<Step> {
    let Some(program) = program else {
        return vec![Step::skipped("all of it", "Go is not installed")];
    };
    let mut command = Command::new(&program.go);
    command
        .arg("--kubeconfig")
        .arg(&stage.session.kubeconfig)
        .arg("--namespace")
        .arg(format!("e2e-{NAME}-{}", stage.run))
        .arg("--candidate")
        .arg(&program.candidate);
    go_program::run(&mut command)
}
