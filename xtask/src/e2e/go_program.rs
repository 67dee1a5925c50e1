//! Builds and runs the programs in Go, which print a line of JSON for each step that is over.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::report::{Step, StepResult};

/// Builds a package of the module in this folder of `xtask`, as a program beside `neighbour`.
///
/// # Errors
///
/// When the build fails.
pub(super) fn build(module: &str, package: &str, neighbour: &Path) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
    // In cargo's target folder, so that `cargo clean` removes it.
    let program = neighbour.with_file_name(format!("e2e-{module}"));
    let build = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(source)
        .status();
    let status = build.context("run go build")?;
    if !status.success() {
        bail!("go build of {module} failed, {status}");
    }
    Ok(program)
}

/// Runs a program to its end.
pub(super) fn run(program: &mut Command) -> Vec<Step> {
    let began = Instant::now();
    let mut steps = Vec::new();
    if let Err(error) = follow(program, &mut steps) {
        let how = StepResult::Failed(format!("{error:#}"));
        steps.push(Step::new("the program ends well", began, how));
    }
    steps
}

fn follow(program: &mut Command, steps: &mut Vec<Step>) -> anyhow::Result<()> {
    let mut child = program
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {}", program.get_program().display()))?;
    let output = child.stdout.take().context("a pipe to read from")?;
    for line in BufReader::new(output).lines() {
        steps.push(parse(&line?)?);
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

fn parse(line: &str) -> anyhow::Result<Step> {
    let step: Value = serde_json::from_str(line)
        .with_context(|| format!("not a line of JSON about a step: {line}"))?;
    let text = |key: &str| step[key].as_str().filter(|text| !text.is_empty());
    let result = match (text("error"), text("skipped")) {
        (Some(how), _) => StepResult::Failed(how.to_owned()),
        (None, Some(why)) => StepResult::Skipped(why.to_owned()),
        (None, None) => StepResult::Passed,
    };
    Ok(Step {
        name: text("step").unwrap_or(line).to_owned(),
        took: Duration::from_secs_f64(step["seconds"].as_f64().unwrap_or(0.0)),
        result,
    })
}
