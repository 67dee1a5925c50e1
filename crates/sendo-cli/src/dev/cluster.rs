//! The cluster that the program runs on: an embedded one, or any other.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sendo::World;
use sendo_cluster::{
    Cluster, ClusterOptions, Disk, Retention, Runtime, ServeError, StartError, Store,
};
use tokio::runtime::Handle;

use super::Dev;
use super::lines::{Lines, Source};
use crate::api::{ClusterFlags, Connection};
use crate::kubeconfig;

/// The cluster of a session, however it came about.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) flags: ClusterFlags,
    /// Where its API server reaches webhooks on this machine; `None` if it does not.
    pub(super) webhooks_at: Option<String>,
}

/// A cluster that is there.
pub(super) async fn other(flags: ClusterFlags, webhook_host: Option<String>) -> Result<Chosen> {
    let Connection { api, .. } = flags.connect().await?;
    // A cluster that does not answer is told now, and not by each request of the program.
    api.version().await?;
    let webhooks_at = webhook_host
        .map(|host| webhook_address(&host))
        .transpose()?;
    Ok(Chosen { flags, webhooks_at })
}

/// An embedded cluster.
pub(super) struct Embedded {
    cluster: Cluster,
    world: World,
    kubeconfig: PathBuf,
    webhooks_at: String,
}

impl Embedded {
    /// Starts it on what is kept in `folder`.
    pub(super) async fn start(
        dev: &Dev,
        folder: &Path,
        parts: &Handle,
        lines: &Lines,
    ) -> Result<Self> {
        let began = Instant::now();
        let world = World::real();
        let data = folder.join("cluster");
        let disk = open(&data, &world, dev.reset)?;
        let options = ClusterOptions {
            runtime: Runtime::Simulated(Default::default()),
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, dev.port))),
            store: Some(disk),
            parts_on: Some(parts.clone()),
            ..ClusterOptions::default()
        };
        let started = Cluster::start(&world, options).await;
        let cluster = started.map_err(|error| with_fix(error, dev.port))?;
        let content = cluster.kubeconfig();
        let content = content.context("a cluster that listens has a kubeconfig")?;
        let kubeconfig = folder.join("kubeconfig");
        let embedded = Embedded {
            cluster,
            world,
            webhooks_at: webhook_address("127.0.0.1")?,
            kubeconfig,
        };
        if let Err(error) = kubeconfig::write(&embedded.kubeconfig, &content) {
            embedded.stop().await;
            return Err(error);
        }
        let took = began.elapsed().as_millis();
        lines.say(
            Source::Dev,
            format!("cluster ready in {took} ms, its nodes simulate containers"),
        );
        let path = embedded.kubeconfig.display();
        lines.say(Source::Dev, format!("export KUBECONFIG={path}"));
        Ok(embedded)
    }

    pub(super) fn chosen(&self) -> Chosen {
        Chosen {
            flags: ClusterFlags {
                kubeconfig: Some(self.kubeconfig.clone()),
                context: None,
            },
            webhooks_at: Some(self.webhooks_at.clone()),
        }
    }

    pub(super) async fn stop(self) {
        self.cluster.stop().await;
        self.world.tasks().stop().await;
    }
}

/// The store in a folder, emptied if that is asked for.
fn open(folder: &Path, world: &World, reset: bool) -> Result<Arc<dyn Store>> {
    let opened = || Disk::open(folder, world.clock().clone(), Retention::default());
    let in_use = || {
        format!(
            "the cluster that is kept in {} cannot be used: if another `sendo dev` runs there, end it; `--reset` begins with an empty one",
            folder.display()
        )
    };
    if reset && folder.exists() {
        // One that another process uses must not be taken from under it.
        match opened() {
            Ok(store) => drop(store),
            Err(error) if error.to_string().contains("in use") => {
                return Err(anyhow::Error::new(error).context(in_use()));
            }
            Err(_) => {}
        }
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    Ok(Arc::new(opened().with_context(in_use)?))
}

fn with_fix(error: StartError, port: u16) -> anyhow::Error {
    let is_listen = matches!(error, StartError::Serve(ServeError::Listen { .. }));
    let error = anyhow::Error::new(error);
    match is_listen {
        true => error.context(format!(
            "port {port} is not to be had: choose another with --port P, or leave --port out for any"
        )),
        false => error,
    }
}

/// A free port on which webhooks are reached under this name of the machine.
fn webhook_address(host: &str) -> Result<String> {
    if host.is_empty() || host.contains(['/', ' ']) || host.matches(':').count() == 1 {
        bail!("--webhook-host {host:?} is no name or address of this machine, such as 172.18.0.1");
    }
    let port = free_port()?;
    Ok(match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

/// A port that nobody uses at the moment.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}
