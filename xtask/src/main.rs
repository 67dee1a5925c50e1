//! Development tasks of this workspace, run as `cargo xtask <task>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod arrows;
mod codegen;
mod deny;
mod e2e;
mod features;
mod go_tools;
mod golden;
mod manifests;
mod metadata;
mod msrv;
mod tutorial;

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check that the modules of each crate use each other in one direction only.
    Arrows,
    /// Write the facts about Kubernetes types from its published modules.
    Codegen(codegen::Options),
    E2e(e2e::Options),
    /// Check licences, sources and versions of dependencies against deny.toml.
    Deny,
    /// Check that the library builds with the features an application may choose.
    Features,
    /// Check what the examples print with Helm, kustomize and the validator of operator bundles.
    Manifests,
    /// Check that the workspace builds with the oldest Rust it supports.
    Msrv,
    /// Compare decoded protobuf with the published JSON of the same objects.
    Golden,
    Tutorial(tutorial::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Arrows => arrows::run(),
        Task::Codegen(options) => codegen::run(&options),
        Task::Deny => deny::run(),
        Task::Features => features::run(),
        Task::Manifests => manifests::run(),
        Task::Msrv => msrv::run(),
        Task::E2e(options) => e2e::run(&options),
        Task::Tutorial(options) => tutorial::run(&options),
        Task::Golden => golden::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
