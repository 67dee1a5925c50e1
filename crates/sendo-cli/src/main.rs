//! The `sendo` command: an embedded Kubernetes on this machine, and what to do with it.

mod demo;
mod kubeconfig;
mod screen;
mod up;

use std::process::ExitCode;

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

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Up(up) = Cli::parse().command;
    match up.run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::Screen::stderr().error(&error);
            ExitCode::FAILURE
        }
    }
}
