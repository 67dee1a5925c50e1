//! Commands that this build of the program was made without.

use anyhow::{Result, bail};
use clap::Args;

/// A command whose feature is off, so that the demonstration is built sooner.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct LeftOut {
    /// Whatever is asked of it
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl LeftOut {
    /// Says how to have it.
    pub(crate) fn run(self) -> Result<()> {
        bail!("this build of sendo has not all commands: {}", fix())
    }
}

/// How to have what is left out.
pub(crate) fn fix() -> String {
    let package = env!("CARGO_MANIFEST_DIR");
    format!("install the whole of it with `cargo install --path {package} --all-features`")
}
