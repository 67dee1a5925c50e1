//! The `sendo` command: an embedded Kubernetes on this machine, and what to do with it.

mod demo;
mod kubeconfig;
mod screen;
mod up;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

/// Kubernetes controllers in Rust: a library, and a cluster to run them on.
#[derive(Debug, Parser)]
#[command(name = "sendo", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a Kubernetes cluster in this process and keep it until Ctrl-C
    Up(up::Up),
}

/// A request allocates hundreds of small values: this halves what they cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Command::Up(up) = Cli::parse().command;
    let runtime = tokio::runtime::Runtime::new().context("start the runtime");
    match runtime.and_then(|runtime| runtime.block_on(up.run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::Screen::stderr().error(&error);
            ExitCode::FAILURE
        }
    }
}
