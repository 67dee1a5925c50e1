//! The tools that take the printed files, built from Go's module proxy into the user's cache folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::e2e::cache_folder;

const HELM: &str = "helm.sh/helm/v4/cmd/helm@v4.3.1";
const KUSTOMIZE: &str = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1";
/// Its module says which version of what it is built with: `xtask/operator-verify/go.mod`.
const VALIDATOR: &str = "github.com/operator-framework/api/cmd/operator-verify";

pub(super) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Builds what is not there yet; none where Go is not installed.
    pub(super) fn build() -> Result<Option<Self>> {
        let go = Command::new("go").arg("version").output();
        if go.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        let tools = Tools {
            folder: cache_folder()?.join("sendo/tools"),
        };
        fs::create_dir_all(&tools.folder)?;
        for tool in [HELM, KUSTOMIZE] {
            tools.install(tool)?;
        }
        tools.install_validator()?;
        Ok(Some(tools))
    }

    pub(super) fn helm(&self) -> Command {
        // It is to see no chart or repository of the user's.
        let mut command = self.command(HELM);
        command
            .env("HELM_CONFIG_HOME", &self.folder)
            .env("HELM_CACHE_HOME", &self.folder)
            .env("HELM_DATA_HOME", &self.folder);
        command
    }

    pub(super) fn kustomize(&self) -> Command {
        self.command(KUSTOMIZE)
    }

    pub(super) fn validator(&self) -> Command {
        self.command(VALIDATOR)
    }

    fn command(&self, tool: &str) -> Command {
        Command::new(self.folder_of(tool).join(name(tool)))
    }

    /// A folder for each version, so that another one is built beside it.
    fn folder_of(&self, tool: &str) -> PathBuf {
        let version = tool.split_once('@').map_or("v0.37.0", |parts| parts.1);
        self.folder.join(format!("{}-{version}", name(tool)))
    }

    fn install(&self, tool: &str) -> Result<()> {
        let folder = self.folder_of(tool);
        if folder.join(name(tool)).exists() {
            return Ok(());
        }
        println!("building {tool}");
        run(go().args(["install", tool]).env("GOBIN", &folder))
    }

    fn install_validator(&self) -> Result<()> {
        let folder = self.folder_of(VALIDATOR);
        let program = folder.join(name(VALIDATOR));
        if program.exists() {
            return Ok(());
        }
        println!("building {VALIDATOR}");
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("operator-verify");
        run(go()
            .args(["build", "-o"])
            .arg(&program)
            .arg(VALIDATOR)
            .current_dir(module))
    }
}

fn go() -> Command {
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0").current_dir(std::env::temp_dir());
    go
}

/// The last part of its path that is no version.
fn name(tool: &str) -> &str {
    let path = tool.split_once('@').map_or(tool, |parts| parts.0);
    let is_version = |part: &&str| {
        part.strip_prefix('v')
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    path.rsplit('/')
        .find(|part| !is_version(part))
        .unwrap_or(path)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed, {status}");
    Ok(())
}
