//! Which cluster a command is for.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::Api;

/// The flags of commands that use a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterFlags {
    /// The kubeconfig of the cluster [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// A cluster that was chosen.
pub(crate) struct Connection {
    pub(crate) api: Api,
    /// Its address, for people.
    pub(crate) address: String,
}

impl ClusterFlags {
    /// Chooses the cluster; sends nothing yet.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = read(path)?;
                let config = kube::Config::from_custom_kubeconfig(file, &options).await;
                config.with_context(|| format!("cannot use the kubeconfig {}", path.display()))?
            }
            None => kube::Config::from_kubeconfig(&options).await.context(
                "no cluster is chosen: name a kubeconfig with --kubeconfig FILE or KUBECONFIG, or start a cluster with `sendo up`",
            )?,
        };
        let address = config.cluster_url.to_string();
        let address = address.trim_end_matches('/').to_owned();
        config.default_retry = false;
        let client = kube::Client::try_from(config)?;
        Ok(Connection {
            api: Api::new(client),
            address,
        })
    }
}

fn read(path: &Path) -> Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| {
        format!(
            "cannot read the kubeconfig {}: name another with --kubeconfig FILE",
            path.display()
        )
    })
}
