//! A program's command line: flags and environment for everything in [`Config`].

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_world::World;
use tokio::signal::unix::{SignalKind, signal};

use super::{Config, Manager};
use crate::cache::Namespaces;
use crate::election::ElectionOptions;
use crate::error::{Error, Result};

/// The flags every program has. Each can also be set in the environment.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// The kubeconfig to use [default: $KUBECONFIG, then the cluster this runs in, then ~/.kube/config]
    #[arg(long, value_name = "FILE", env = "SENDO_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "SENDO_CONTEXT")]
    pub context: Option<String>,

    /// Watch only these namespaces, separated by commas [default: all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        env = "SENDO_NAMESPACES"
    )]
    pub namespaces: Vec<String>,

    /// Elect a leader: run several replicas, one at a time does the work
    #[arg(long, env = "SENDO_LEADER_ELECT")]
    pub leader_elect: bool,

    /// The namespace of the leader's lease [default: this pod's namespace, or `default`]
    #[arg(long, value_name = "NAME", env = "SENDO_LEADER_ELECT_NAMESPACE")]
    pub leader_elect_namespace: Option<String>,

    /// Serve metrics here, at /metrics
    #[arg(long, value_name = "ADDRESS", env = "SENDO_METRICS_ADDRESS")]
    pub metrics_address: Option<String>,

    /// Serve probes here, at /healthz and /readyz
    #[arg(long, value_name = "ADDRESS", env = "SENDO_HEALTH_ADDRESS")]
    pub health_address: Option<String>,

    /// Seconds that work in flight has to end after a stop
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        env = "SENDO_SHUTDOWN_TIMEOUT"
    )]
    pub shutdown_timeout: u64,

    /// What to log, such as `info` or `warn,my_controller=debug`
    #[arg(long, value_name = "FILTER", default_value = "info", env = "RUST_LOG")]
    pub log: String,

    /// Log lines as JSON
    #[arg(long, env = "SENDO_LOG_JSON")]
    pub log_json: bool,
}

impl Args {
    /// Connects, and gathers what a manager named `name` needs to run.
    pub async fn config(&self, name: &str, world: World) -> Result<Config> {
        let kube = self.kube_config().await?;
        let namespace = self.leader_elect_namespace.clone();
        let election = self.leader_elect.then(|| {
            ElectionOptions::new(&namespace.unwrap_or(kube.default_namespace.clone()), name)
        });
        let client = kube::Client::try_from(kube)?;
        Ok(Config {
            namespaces: match &self.namespaces[..] {
                [] => Namespaces::All,
                some => Namespaces::Only(some.iter().cloned().collect()),
            },
            election,
            metrics_address: self.metrics_address.clone(),
            health_address: self.health_address.clone(),
            shutdown_timeout: Duration::from_secs(self.shutdown_timeout),
            ..Config::new(client, world)
        })
    }

    /// The flag, then `KUBECONFIG`, then the cluster this runs in, then the file in the home folder.
    async fn kube_config(&self) -> Result<kube::Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..Default::default()
        };
        if let Some(path) = &self.kubeconfig {
            let file = Kubeconfig::read_from(path).map_err(|error| {
                Error::terminal(format!(
                    "cannot read the kubeconfig {}: {error}",
                    path.display()
                ))
            })?;
            return Ok(kube::Config::from_custom_kubeconfig(file, &options).await?);
        }
        if std::env::var_os("KUBECONFIG").is_some() || self.context.is_some() {
            return Ok(kube::Config::from_kubeconfig(&options).await?);
        }
        if let Ok(config) = kube::Config::incluster() {
            return Ok(config);
        }
        kube::Config::from_kubeconfig(&options).await.map_err(|error| {
            Error::terminal(format!(
                "no cluster to run on: name one with --kubeconfig or KUBECONFIG, or start one with `sendo up` ({error})"
            ))
        })
    }

    fn start_logging(&self) -> Result<()> {
        let filter = tracing_subscriber::EnvFilter::try_new(&self.log).map_err(|error| {
            Error::terminal(format!(
                "--log {:?} is not a filter: {error}; try `info`",
                self.log
            ))
        })?;
        let format = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
        let started = if self.log_json {
            format.json().try_init()
        } else {
            format.try_init()
        };
        started.map_err(|error| Error::message(error.to_string()))
    }
}

impl Manager {
    /// The whole of a `main`: reads flags and environment, connects, runs until
    /// Ctrl-C or SIGTERM, and stops in order. A second signal ends the process at once.
    ///
    /// Must be called once, in the main task of a tokio runtime; it sets up logging.
    pub async fn run_from_args(self) -> Result<()> {
        let args = Args::parse();
        args.start_logging()?;
        let world = World::real();
        let config = args.config(self.name(), world.clone()).await?;
        let running = self.start(config)?;
        let stop = running.stopping().clone();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let signals = async move {
            for first in [true, false] {
                tokio::select! {
                    biased;
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if first {
                    tracing::info!("stopping; a second signal ends at once");
                    stop.cancel();
                }
            }
            std::process::exit(1)
        };
        let ended = tokio::select! {
            biased;
            ended = running.ended() => ended,
            never = signals => never,
        };
        world.tasks().stop().await;
        ended
    }
}
