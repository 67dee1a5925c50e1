//! The tools that take the printed files.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::go_tools;

const HELM: &str = "helm.sh/helm/v4/cmd/helm@v4.3.1";
const KUSTOMIZE: &str = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1";
const VALIDATOR: &str = "github.com/operator-framework/api/cmd/operator-verify";
/// Of its module, as `xtask/operator-verify/go.mod` has it.
const VALIDATOR_VERSION: &str = "v0.37.0";

pub(super) struct Tools {
    helm: PathBuf,
    kustomize: PathBuf,
    validator: PathBuf,
}

impl Tools {
    /// Builds what is not there yet; none where Go is not installed.
    pub(super) fn build() -> Result<Option<Self>> {
        if !go_tools::is_go_installed() {
            return Ok(None);
        }
        Ok(Some(Tools {
            helm: go_tools::install(HELM)?,
            kustomize: go_tools::install(KUSTOMIZE)?,
            validator: go_tools::build("operator-verify", VALIDATOR, VALIDATOR_VERSION)?,
        }))
    }

    pub(super) fn helm(&self) -> Result<Command> {
        // It is to see no chart or repository of the user's.
        let folder = self.helm.parent().context("a program is in a folder")?;
        let mut command = Command::new(&self.helm);
        command
            .env("HELM_CONFIG_HOME", folder)
            .env("HELM_CACHE_HOME", folder)
            .env("HELM_DATA_HOME", folder);
        Ok(command)
    }

    pub(super) fn kustomize(&self) -> Command {
        Command::new(&self.kustomize)
    }

    pub(super) fn validator(&self) -> Command {
        Command::new(&self.validator)
    }
}
