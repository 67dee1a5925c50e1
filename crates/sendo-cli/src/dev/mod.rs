//! `sendo dev`: a cluster, the program, and a new one whenever its source changes.
//!
//! [`session`] decides what happens; the others do it: [`cluster`], [`build`], [`program`],
//! [`sources`] watches files, [`keys`] reads the terminal, [`objects`] and [`samples`] ask the
//! cluster, [`lines`] prints.

mod build;
mod cluster;
mod event;
mod keys;
mod lines;
mod metadata;
mod objects;
mod process;
mod program;
mod samples;
mod session;
mod sources;
mod webhooks;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use tokio::runtime::Handle;

use crate::api::ClusterFlags;
use crate::project::Project;
use lines::{Lines, Source};
use session::Session;

/// Run the program while you write it: on a cluster of its own, rebuilt on every change
///
/// Starts an embedded cluster, which is kept in the target folder, installs the
/// program's kinds, builds and runs the program, and has the cluster call its
/// webhooks: no certificate is needed. When a source file changes, the program
/// is built and started anew; as long as the build fails, the old one runs on.
///
/// On a terminal these keys do something: `r` restarts the program, `s` applies
/// the samples, `o` shows the objects of its kinds, `q` ends everything, as
/// Ctrl-C does.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo dev                                    a cluster, and the program on it
  sendo dev --samples                          and what is in samples/, applied again on a change
  sendo dev -- --log=debug                     flags for the program
  sendo dev --reset                            with an empty cluster
  sendo dev --kubeconfig ~/.kube/config        on another cluster; the program runs here
  sendo dev --kubeconfig kind.yaml --webhook-host 172.18.0.1
                                               whose API server reaches this machine there"
)]
pub(crate) struct Dev {
    /// Apply the objects in samples/ when the program is up, and when they change
    #[arg(long)]
    samples: bool,

    /// Use this cluster in place of an embedded one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// An address of this machine that the other cluster's API server can reach, to call webhooks
    #[arg(long, value_name = "HOST", requires = "kubeconfig")]
    webhook_host: Option<String>,

    /// The port of the embedded cluster on 127.0.0.1 [default: any that is free]
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0,
        conflicts_with = "kubeconfig"
    )]
    port: u16,

    /// Begin with an empty cluster
    #[arg(long, conflicts_with = "kubeconfig")]
    reset: bool,

    /// What the embedded cluster logs, such as `info`
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "error",
        conflicts_with = "kubeconfig"
    )]
    cluster_log: String,

    /// Flags for the program
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

impl Dev {
    /// Runs until Ctrl-C; the cluster's parts run on `parts`.
    pub(crate) async fn run(self, parts: &Handle) -> Result<()> {
        let project = Project::here()?;
        if !project.depends_on("sendo") {
            bail!(
                "{} does not depend on `sendo`: is it a program with a controller? `sendo new DIR` makes one",
                project.root.join("Cargo.toml").display()
            );
        }
        let lines = Lines::new();
        let metadata = metadata::read(&project)?;
        let folder = metadata.target.join("sendo-dev").join(&project.name);
        let (chosen, cluster) = match &self.kubeconfig {
            Some(path) => {
                let flags = ClusterFlags {
                    kubeconfig: Some(path.clone()),
                    context: self.context.clone(),
                };
                (
                    cluster::other(flags, self.webhook_host.clone()).await?,
                    None,
                )
            }
            None => {
                lines.log_cluster(&self.cluster_log)?;
                let embedded = cluster::Embedded::start(&self, &folder, parts, &lines).await?;
                (embedded.chosen(), Some(embedded))
            }
        };
        let run = Session::run(&self, &project, &metadata, chosen, &lines);
        let outcome = run.await;
        if let Some(cluster) = cluster {
            lines.say(Source::Dev, "stopping the cluster");
            cluster.stop().await;
        }
        outcome
    }
}
