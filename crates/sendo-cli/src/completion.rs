//! `sendo completion`: completion of the command's words in a shell.

use std::io::{Write as _, stdout};

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

/// Print what a shell needs to complete this command's words
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  source <(sendo completion bash)                            for this shell
  sendo completion zsh > \"${fpath[1]}/_sendo\"              for every new one
  sendo completion fish > ~/.config/fish/completions/sendo.fish"
)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self, mut command: clap::Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "sendo", &mut script);
        // A closed pipe, as of `head`, is no error.
        let _ = stdout().write_all(&script);
        Ok(())
    }
}
