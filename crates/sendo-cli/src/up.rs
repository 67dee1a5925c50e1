//! `sendo up`: runs the embedded cluster until Ctrl-C.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use sendo::World;
use sendo_cluster::{
    Cluster, ClusterOptions, Controllers, Disk, Retention, Runtime, ServeError, StartError, Store,
};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::audit::AuditFlags;
use crate::demo;
use crate::kubeconfig;
#[cfg(feature = "process")]
use crate::processes::NodeFolder;
use crate::screen::Screen;

/// Start a Kubernetes cluster in this process and keep it until Ctrl-C
///
/// An API server over TLS, the controllers, a scheduler and nodes whose
/// containers are simulated (--runtime says otherwise), all in memory: ready in a moment, gone with the
/// process unless --data-dir keeps it. kubectl and any other client use it
/// through the kubeconfig that it writes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sendo up                                   a cluster with two nodes
  sendo up --demo                            the same, with example controllers and a story
  sendo up --data-dir boat                   a cluster that is kept, and goes on next time
  sendo up --runtime process --image py=/usr/bin/python3
                                             pods that run, as processes of this machine
  sendo up --runtime none --nodes 1          nodes that run nothing: play the kubelet yourself
  sendo up --controllers='*,-replicaset-controller'
                                             all controllers but one: bring your own")]
pub(crate) struct Up {
    /// How many nodes there are: node-0, node-1, …; 2 by default, 1 with `--runtime process`, at
    /// most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=200))]
    nodes: Option<u8>,

    /// What the nodes do with pods
    #[arg(long, value_enum, default_value_t = RuntimeName::Simulated)]
    runtime: RuntimeName,

    /// With `--runtime process`: the program that runs for an image of this name; images such as
    /// file:///usr/bin/python3 need no name
    #[arg(long, value_name = "NAME=PATH")]
    image: Vec<String>,

    /// The port of the API server on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "P", default_value_t = 6443)]
    port: u16,

    /// Where to write the administrator's kubeconfig; one of other clusters is not replaced
    #[arg(long, value_name = "FILE", default_value = "sendo.kubeconfig")]
    kubeconfig: PathBuf,

    /// Which controllers run, and whether the `scheduler` does: names separated by commas,
    /// `*` for all, `-name` to leave one out
    #[arg(long, value_name = "LIST", default_value = "*")]
    controllers: String,

    /// Keep everything in this folder; started again on it, the cluster goes on where it was
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Serve StorageVersionMigrations and carry them out, as with the feature gate
    /// StorageVersionMigrator of Kubernetes 1.36, which is off by default
    #[arg(long)]
    storage_version_migration: bool,

    /// Serve metrics.k8s.io, which `kubectl top` and autoscalers read: pods use what their
    /// annotations simulation.sendo.dev/usage-cpu and -memory say
    #[arg(long)]
    metrics_api: bool,

    #[command(flatten)]
    audit: AuditFlags,

    /// Run the example controllers and play their story
    #[arg(long)]
    demo: bool,

    /// End after the story
    #[arg(long, requires = "demo")]
    once: bool,

    /// What to log to standard error, such as `info` or `sendo=debug`
    #[arg(long, value_name = "FILTER", default_value = "warn", env = "RUST_LOG")]
    log: String,

    /// Break a step of the story on purpose, to see that it is noticed
    #[arg(long, value_name = "STEP", requires = "demo", hide = true)]
    sabotage: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuntimeName {
    /// Containers start, run and end in time, but nothing is executed
    Simulated,
    /// Containers are processes of this machine, on its network and with its files; an image is
    /// the path of a program
    Process,
    /// Nodes are ready and run no pods, for those who play the kubelet themselves
    None,
}

impl Up {
    /// Runs the cluster: the API server on this runtime, its other parts on the given one.
    pub(crate) async fn run(self, parts: &Handle) -> Result<()> {
        self.start_logging()?;
        let screen = Screen::stdout();
        let world = World::real();
        if self.demo && self.runtime != RuntimeName::Simulated {
            bail!("the demo needs pods that are simulated: leave out `--runtime`");
        }
        if !self.image.is_empty() && self.runtime != RuntimeName::Process {
            bail!("--image says which program an image is: add `--runtime process`");
        }
        kubeconfig::check_replaceable(&self.kubeconfig)?;
        #[cfg(feature = "process")]
        let folder = NodeFolder::new(self.data_dir.as_deref())?;
        let runtime = match self.runtime {
            RuntimeName::Simulated => Runtime::Simulated(Default::default()),
            RuntimeName::None => Runtime::None,
            #[cfg(feature = "process")]
            RuntimeName::Process => Runtime::Process(folder.options(&self.image)?),
            #[cfg(not(feature = "process"))]
            RuntimeName::Process => bail!(
                "this build of sendo cannot run processes: {}",
                crate::left_out::fix()
            ),
        };
        let began = Instant::now();
        let options = self.cluster_options(&world, parts, runtime)?;
        let cluster = Cluster::start_with_progress(&world, options, |component| {
            screen.ready(&component.name, &component.about, began.elapsed());
        })
        .await
        .map_err(|error| self.with_fix(error))?;
        let config = cluster
            .kubeconfig()
            .context("a cluster that listens has a kubeconfig")?;
        let written = kubeconfig::write(&self.kubeconfig, &config);
        let outcome = match written {
            Ok(()) => self.stay(&screen, &cluster, &world).await,
            Err(error) => Err(error),
        };
        let stop = async {
            cluster.stop().await;
            world.tasks().stop().await;
        };
        tokio::select! {
            biased;
            () = stop => outcome,
            again = wait_for_signal() => {
                again?;
                bail!("ended by a second signal, before everything had stopped")
            }
        }
    }

    /// Adds the flag that helps to the error, if there is one.
    fn with_fix(&self, error: StartError) -> anyhow::Error {
        let is_listen = matches!(error, StartError::Serve(ServeError::Listen { .. }));
        let error = anyhow::Error::new(error);
        match is_listen {
            true => error.context(format!(
                "port {} is not to be had: choose another with --port P, or --port 0 for any",
                self.port
            )),
            false => error,
        }
    }

    /// Plays the demo, prints what to try, and waits for a signal.
    async fn stay(&self, screen: &Screen, cluster: &Cluster, world: &World) -> Result<()> {
        let ended = wait_for_signal();
        let stay = async {
            if self.demo {
                demo::play(screen, cluster, world, self.sabotage.as_deref()).await?;
            }
            if !self.once {
                self.print_what_to_try(screen);
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            ended = ended => ended,
            stayed = stay => stayed,
        }
    }

    fn print_what_to_try(&self, screen: &Screen) {
        screen.title("Try");
        screen.command(&format!("export KUBECONFIG={}", absolute(&self.kubeconfig)));
        screen.command("kubectl get nodes");
        screen.command("kubectl get pods --all-namespaces --watch");
        screen.say("");
        screen.say(match &self.data_dir {
            Some(folder) => format!("Ctrl-C stops everything; {} keeps it.", folder.display()),
            None => "Ctrl-C stops everything; nothing is kept.".to_owned(),
        });
    }

    fn cluster_options(
        &self,
        world: &World,
        parts: &Handle,
        runtime: Runtime,
    ) -> Result<ClusterOptions> {
        let controllers: Controllers = self.controllers.parse()?;
        let store = self.data_dir.as_deref().map(|folder| open(folder, world));
        Ok(ClusterOptions {
            nodes: self.nodes.unwrap_or(match self.runtime {
                RuntimeName::Process => 1,
                RuntimeName::Simulated | RuntimeName::None => 2,
            }),
            runtime,
            controllers,
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))),
            store: store.transpose()?,
            audit: self.audit.audit()?,
            storage_version_migration: self.storage_version_migration,
            metrics_api: self.metrics_api,
            parts_on: Some(parts.clone()),
        })
    }

    fn start_logging(&self) -> Result<()> {
        let filter = tracing_subscriber::EnvFilter::try_new(&self.log)
            .with_context(|| format!("--log {:?} is not a filter; try `info`", self.log))?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
        Ok(())
    }
}

/// The store in a folder.
fn open(folder: &Path, world: &World) -> Result<Arc<dyn Store>> {
    let opened = Disk::open(folder, world.clock().clone(), Retention::default());
    let store = opened.context("--data-dir cannot be used")?;
    Ok(Arc::new(store))
}

fn absolute(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    absolute
        .unwrap_or_else(|_| path.to_owned())
        .display()
        .to_string()
}

/// Returns after Ctrl-C or SIGTERM.
async fn wait_for_signal() -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
