//! Runs the program in `xtask/client-go`, which tests Kubernetes' Go client with the cluster, also
//! against a candidate for a lease that uses this workspace's library.

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::cluster;
use super::play::Stage;
use super::report::{Step, StepResult};

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
    let is_there = Command::new("go").arg("version").output();
    if is_there.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("client-go");
    let candidate = cluster::build("bar", "bar", release)?;
    // In cargo's target folder, so that `cargo clean` removes it.
    let go = candidate.with_file_name("e2e-client-go");
    let build = Command::new("go")
        .args(["build", "-o"])
        .arg(&go)
        .arg(".")
        .current_dir(source)
        .status();
    let status = build.context("run go build")?;
    if !status.success() {
        bail!("go build failed, {status}");
    }
    Ok(Some(Program { go, candidate }))
}

/// Runs the program, which prints a line of JSON for each step that is over.
pub(super) fn run(program: Option<&Program>, stage: &Stage<'_>) -> Vec<Step> {
    let Some(program) = program else {
        return vec![Step::skipped("all of it", "Go is not installed")];
    };
    let began = Instant::now();
    let mut steps = Vec::new();
    if let Err(error) = follow(program, stage, &mut steps) {
        let how = StepResult::Failed(format!("{error:#}"));
        steps.push(Step::new("the program ends well", began, how));
    }
    steps
}

fn follow(program: &Program, stage: &Stage<'_>, steps: &mut Vec<Step>) -> anyhow::Result<()> {
    let mut child = Command::new(&program.go)
        .arg("--kubeconfig")
        .arg(&stage.session.kubeconfig)
        .arg("--namespace")
        .arg(format!("e2e-{NAME}-{}", stage.run))
        .arg("--candidate")
        .arg(&program.candidate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {}", program.go.display()))?;
    let output = child.stdout.take().context("a pipe to read from")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let step: Value = serde_json::from_str(&line)
            .with_context(|| format!("not a line of JSON about a step: {line}"))?;
        let result = match step["error"].as_str() {
            None | Some("") => StepResult::Passed,
            Some(how) => StepResult::Failed(how.to_owned()),
        };
        steps.push(Step {
            name: step["step"].as_str().unwrap_or(&line).to_owned(),
            took: Duration::from_secs_f64(step["seconds"].as_f64().unwrap_or(0.0)),
            result,
        });
    }
    let status = child.wait()?;
    // The report has a step that failed already.
    let reported = steps
        .iter()
        .any(|step| matches!(step.result, StepResult::Failed(_)));
    if !status.success() && !reported {
        bail!("it ended with {status}");
    }
    if steps.is_empty() {
        bail!("it told of no step");
    }
    Ok(())
}
