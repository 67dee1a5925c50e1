//! Development tasks of this workspace, run as `cargo xtask <task>`.

use clap::{Parser, Subcommand};

mod codegen;
mod e2e;
mod golden;

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the facts about Kubernetes types from its published modules.
    Codegen(codegen::Options),
    /// Drive a real kubectl against a cluster, step by step.
    E2e(e2e::Options),
    /// Compare decoded protobuf with the published JSON of the same objects.
    Golden,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Codegen(options) => codegen::run(&options),
        Task::E2e(options) => e2e::run(&options),
        Task::Golden => golden::run(),
    }
}
