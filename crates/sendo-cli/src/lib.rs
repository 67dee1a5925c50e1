//! The `sendo` command: projects with controllers, and an embedded Kubernetes cluster on this machine.
//!
//! A library, so that its own tests can ask for the optional commands, which the demonstration does
//! without; `src/bin/` has the programs.

#[cfg(feature = "add")]
mod add;
mod api;
mod audit;
#[cfg(feature = "completion")]
mod completion;
mod demo;
mod deploy;
#[cfg(feature = "dev")]
mod dev;
mod doctor;
#[cfg(feature = "add")]
mod edit;
#[cfg(feature = "image")]
mod image;
mod kubeconfig;
#[cfg(not(all(
    feature = "add",
    feature = "completion",
    feature = "dev",
    feature = "image",
    feature = "process"
)))]
mod left_out;
mod names;
mod new;
mod output;
#[cfg(feature = "process")]
mod processes;
mod program;
mod project;
#[cfg(feature = "add")]
mod remove;
mod screen;
mod sendo_source;
#[cfg(feature = "add")]
mod syntax;
mod template;
mod up;

use std::process::ExitCode;

use anyhow::Context as _;
#[cfg(feature = "completion")]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Handle, Runtime};

/// Kubernetes controllers in Rust: a library, and a cluster to run them on.
#[derive(Debug, Parser)]
#[command(name = "sendo", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
    New(new::New),
    #[cfg(feature = "add")]
    Add(add::Add),
    #[cfg(feature = "add")]
    Remove(remove::Remove),
    #[cfg(not(feature = "add"))]
    /// Add a kind, a version of one, a controller or webhooks (not in this build)
    Add(left_out::LeftOut),
    #[cfg(not(feature = "add"))]
    /// Remove a kind, a version of one, a controller or webhooks (not in this build)
    Remove(left_out::LeftOut),
    #[cfg(feature = "dev")]
    Dev(dev::Dev),
    #[cfg(not(feature = "dev"))]
    /// Run the program while you write it (not in this build)
    Dev(left_out::LeftOut),
    #[cfg(feature = "image")]
    Image(image::MakeImage),
    #[cfg(not(feature = "image"))]
    /// Make a container image of the program (not in this build)
    Image(left_out::LeftOut),
    Install(deploy::Install),
    Uninstall(deploy::Uninstall),
    Deploy(deploy::Deploy),
    Undeploy(deploy::Undeploy),
    Doctor(doctor::Doctor),
    #[cfg(feature = "completion")]
    Completion(completion::Completion),
    #[cfg(not(feature = "completion"))]
    /// Print what a shell needs to complete this command's words (not in this build)
    Completion(left_out::LeftOut),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Up(up) => with_cluster(async |parts| up.run(parts).await),
            Command::New(new) => new.run(),
            Command::Add(add) => add.run(),
            Command::Remove(remove) => remove.run(),
            #[cfg(feature = "dev")]
            Command::Dev(dev) => with_cluster(async |parts| dev.run(parts).await),
            #[cfg(not(feature = "dev"))]
            Command::Dev(dev) => dev.run(),
            #[cfg(feature = "image")]
            Command::Image(image) => wait(image.run()),
            #[cfg(not(feature = "image"))]
            Command::Image(image) => image.run(),
            Command::Install(install) => wait(install.run()),
            Command::Uninstall(uninstall) => wait(uninstall.run()),
            Command::Deploy(deploy) => wait(deploy.run()),
            Command::Undeploy(undeploy) => wait(undeploy.run()),
            Command::Doctor(doctor) => wait(doctor.run()),
            #[cfg(feature = "completion")]
            Command::Completion(completion) => completion.run(Cli::command()),
            #[cfg(not(feature = "completion"))]
            Command::Completion(completion) => completion.run(),
        }
    }
}

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    #[cfg(feature = "process")]
    if let Some(code) = sendo_cluster::container_process(std::env::args_os().skip(1)) {
        return code;
    }
    match Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::Screen::stderr().error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs a command that waits for a cluster's answers.
fn wait(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("start the runtime")?.block_on(command)
}

/// Runs the command with one runtime for the API server and another for the cluster's other parts.
fn with_cluster(command: impl AsyncFnOnce(&Handle) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let serving = Runtime::new().context("start the runtime")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = Builder::new_multi_thread()
        .worker_threads(cores.div_ceil(2))
        .thread_name("parts")
        .enable_all()
        .build()
        .context("start the runtime of the cluster's parts")?;
    serving.block_on(command(parts.handle()))
}
