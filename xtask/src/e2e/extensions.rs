//! Runs the program in `xtask/extensions`: webhooks made with controller-runtime, and the metrics
//! server of Kubernetes (`xtask/metrics-server` says which) behind an APIService.
//!
//! The cluster calls both at an address of this machine, so a real cluster, which may be
//! elsewhere, is left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::go_program;
use super::play::Stage;
use super::report::Step;
use crate::go_tools;

/// Its name in the report.
pub(super) const NAME: &str = "extensions";

/// The programs in Go that take part.
pub(super) struct Program {
    extensions: PathBuf,
    metrics_server: PathBuf,
}

/// Builds the programs beside `neighbour`; none where Go is not installed.
///
/// # Errors
///
/// When a build fails.
pub(super) fn build(neighbour: &Path) -> anyhow::Result<Option<Program>> {
    const METRICS_SERVER: &str = "sigs.k8s.io/metrics-server/cmd/metrics-server";
    if !go_tools::is_go_installed() {
        return Ok(None);
    }
    Ok(Some(Program {
        extensions: go_program::build(NAME, ".", neighbour)?,
        metrics_server: go_program::build("metrics-server", METRICS_SERVER, neighbour)?,
    }))
}

/// Runs the program.
pub(super) fn run(program: Option<&Program>, stage: &Stage<'_>) -> Vec<Step> {
    let skipped = |why: &str| vec![Step::skipped("all of it", why)];
    if !stage.embedded {
        return skipped("a real cluster may not reach this machine");
    }
    let Some(program) = program else {
        return skipped("Go is not installed");
    };
    let mut command = Command::new(&program.extensions);
    command
        .arg("--admin")
        .arg(&stage.session.kubeconfig)
        .arg("--kubectl")
        .arg(&stage.session.kubectl)
        .arg("--namespace")
        .arg(format!("e2e-{NAME}-{}", stage.run))
        .arg("--folder")
        .arg(stage.folder.join(NAME))
        .arg("--metrics-server")
        .arg(&program.metrics_server);
    go_program::run(&mut command)
}
