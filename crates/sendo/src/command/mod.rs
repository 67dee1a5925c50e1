//! A program's command line: it runs, or says what it needs to run.
//!
//! | subcommand | does |
//! |---|---|
//! | `run`, or none | runs the program |
//! | `manifests` | prints what deploys it: see [`manifests`](crate::manifests) |
//! | `crds` | prints its kinds alone |
//! | `check` | asks a cluster whether it could run there: see [`check`](crate::check) |
//!
//! All of them take the flags of [`Args`], before or after the subcommand: what is given to
//! `manifests` is what the printed Deployment runs with.

mod args;
mod describe;
mod edge;
mod flags;

use clap::{CommandFactory as _, FromArgMatches as _, Subcommand};
use sendo_world::World;

use crate::error::{Error, Result};
use crate::manager::{LET_GO, Manager};

pub use args::Args;
pub use describe::{CatalogFlags, Check, Crds, Manifests, Output};

use edge::Edge;

/// What a program does instead of running.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the program, as without a subcommand
    Run,
    /// Print what deploys the program: kinds, rights, Deployment, Services, webhooks
    Manifests(Box<Manifests>),
    /// Print the program's own kinds, as CustomResourceDefinitions
    Crds(Crds),
    /// Ask a cluster whether the program could run there: kinds, rights, webhooks
    Check(Check),
}

const EXAMPLES: &str = "Examples:
  PROGRAM                                       run on the cluster of the current kubeconfig
  PROGRAM crds | kubectl apply --server-side -f -
  PROGRAM manifests --image registry.example/PROGRAM:1.0 | kubectl apply --server-side -f -
  PROGRAM manifests --format helm --output chart
  PROGRAM check                                 what is missing in a cluster, each with its fix

Each flag can be set in the environment too.";

impl Manager {
    /// The whole of a `main`: reads flags and environment, connects, runs until
    /// Ctrl-C or SIGTERM, and stops in order. A second signal ends the process at once.
    /// With a [subcommand](crate::command) it prints or checks instead.
    ///
    /// The process ends in any case. A reconcile or a runnable that does not stop
    /// is cut off when its time is over, named, and the error of this; one that
    /// never waits for anything, so that it cannot be cut off, ends the process
    /// there and then, with status 1. So it does when leadership is lost. A thread
    /// of its own sees to that, which no such code can block.
    ///
    /// Must be called once, in the main task of a tokio runtime; it sets up logging
    /// (feature `logging`; without it, the program does).
    pub async fn run_from_args(self) -> Result<()> {
        let about = match &self.description {
            Some(description) => format!("{}: {description}", self.name),
            None => format!("{}, a controller for Kubernetes", self.name),
        };
        let command = Args::command()
            .about(about.clone())
            .long_about(about)
            .after_help(EXAMPLES.replace("PROGRAM", &self.name));
        let args = Args::from_arg_matches(&command.get_matches());
        self.run_with(args.unwrap_or_else(|error| error.exit()))
            .await
    }

    /// The same with flags that were read before, beside those of one's own.
    pub async fn run_with(self, args: Args) -> Result<()> {
        match &args.command {
            None | Some(Command::Run) => self.run_program(args).await,
            Some(Command::Manifests(command)) => command.run(&self, &args),
            Some(Command::Crds(command)) => command.run(&self),
            Some(Command::Check(command)) => command.run(&self, &args).await,
        }
    }

    async fn run_program(self, args: Args) -> Result<()> {
        #[cfg(feature = "logging")]
        args.start_logging()?;
        let world = World::real();
        let config = args.config(self.name(), world.clone()).await?;
        let limit = config.shutdown_timeout;
        let edge = Edge::start()?;
        let running = self.start(config)?;
        edge.watch(&running, &world, limit);
        let ended = running.ended().await;
        edge.end();
        let clock = world.clock();
        if clock.timeout(LET_GO, world.tasks().stop()).await.is_none() {
            // The runtime cannot be shut down as long as they go on.
            let tasks = world.tasks().running();
            let error = ended.err().map(|error| error.to_string());
            tracing::error!(?tasks, error, "the process ends with tasks that do not");
            std::process::exit(1);
        }
        ended
    }
}

/// Prints to standard output; whoever reads it may stop at any time.
fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut output = std::io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::from(error)),
        _ => Ok(()),
    }
}
