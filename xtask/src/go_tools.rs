//! Tools in Go that checks are made with, built from Go's module proxy into the user's cache folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::e2e::cache_folder;

/// Whether Go is there to build them.
pub(crate) fn is_go_installed() -> bool {
    let version = Command::new("go").arg("version").output();
    !version.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The program of a package, such as `helm.sh/helm/v4/cmd/helm@v4.3.1`; built if it is not there.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn install(package: &str) -> Result<PathBuf> {
    let (path, version) = package.split_once('@').context("a package has a version")?;
    let folder = folder_of(name(path), version)?;
    let program = folder.join(name(path));
    if !program.exists() {
        println!("building {package}");
        run(go()
            .args(["install", package])
            .env("GOBIN", &folder)
            .current_dir(std::env::temp_dir()))?;
    }
    Ok(program)
}

/// The program of a package, built if it is not there with the versions that the `go.mod` of a
/// folder of `xtask` says; `version` is the one that changes with them.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build(module: &str, package: &str, version: &str) -> Result<PathBuf> {
    let program = folder_of(module, version)?.join(module);
    if !program.exists() {
        println!("building {module} {version}");
        run(go()
            .args(["build", "-o"])
            .arg(&program)
            .arg(package)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module)))?;
    }
    Ok(program)
}

/// A folder for each version, so that another one is built beside it.
fn folder_of(tool: &str, version: &str) -> Result<PathBuf> {
    let folder = cache_folder()?.join(format!("sendo/tools/{tool}-{version}"));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn go() -> Command {
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0");
    go
}

/// The last part of its path that is no version.
fn name(path: &str) -> &str {
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
