//! The program, built by cargo.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde_json::{Deserializer, Value};

use crate::program::{NO_CARGO, cargo_command};
use crate::project::Project;

/// Has cargo build the program with a profile, and show its progress; where it is.
pub(super) fn program(project: &Project, profile: &str) -> Result<PathBuf> {
    let program = project.program();
    let output = cargo_command(&project.root)
        .args(["build", "--profile", profile, "--bin", &program])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(NO_CARGO)?;
    if !output.status.success() {
        bail!("the program was not built, for the reason above; no image was made");
    }
    executable(&output.stdout, &program)
}

/// The path of a program in what cargo printed.
fn executable(messages: &[u8], program: &str) -> Result<PathBuf> {
    let messages = Deserializer::from_slice(messages).into_iter::<Value>();
    let path = messages.filter_map(Result::ok).find_map(|message| {
        let is_program = message["target"]["name"] == program;
        let path = message["executable"].as_str().filter(|_| is_program)?;
        Some(PathBuf::from(path))
    });
    path.with_context(|| format!("cargo built no program `{program}`"))
}
