//! The program of a project, run by cargo: what it prints about itself.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::api::yaml_documents;
use crate::project::Project;

/// Runs a subcommand of the program, built if it has changed; what it prints.
pub(crate) fn output_of(project: &Project, arguments: &[String]) -> Result<String> {
    let mut command = cargo_command(&project.root);
    command
        .args(["run", "--quiet", "--bin", &project.program(), "--"])
        .args(arguments);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(NO_CARGO)?;
    if !output.status.success() {
        bail!(
            "`cargo run -- {}` failed, for the reason above",
            arguments.join(" ")
        );
    }
    String::from_utf8(output.stdout).context("the program printed no text")
}

/// The objects that a subcommand of the program prints.
pub(crate) fn objects_of(project: &Project, arguments: &[String]) -> Result<Vec<Value>> {
    let objects = yaml_documents(&output_of(project, arguments)?)?;
    if objects.is_empty() {
        bail!("`cargo run -- {}` printed no object", arguments.join(" "));
    }
    Ok(objects)
}

/// Why a command that needs cargo cannot run.
pub(crate) const NO_CARGO: &str = "cannot run cargo: install Rust, as https://rustup.rs says, and see that `cargo` is on the PATH";

/// Cargo, run in a folder.
pub(crate) fn cargo_command(folder: &Path) -> Command {
    // Cargo names itself to what it runs, as in `cargo sendo`.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder);
    command
}
