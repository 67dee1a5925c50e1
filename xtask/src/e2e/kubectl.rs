//! Finds or installs the kubectl for the steps.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::apt;

/// The texts in the chapters are those of this kubectl; a later one does too.
const VERSION: (u32, u32) = (1, 36);

/// The command at `SENDO_KUBECTL`, else one on the `PATH` that is new enough,
/// else one in the user's cache folder, which is installed there first.
///
/// # Errors
///
/// When no kubectl is new enough and none can be installed; the error says what
/// the user can do.
pub(crate) fn locate() -> anyhow::Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("SENDO_KUBECTL") {
        let chosen = PathBuf::from(chosen);
        return match version(&chosen) {
            Some(version) if version >= VERSION => Ok(chosen),
            Some((major, minor)) => bail!(
                "SENDO_KUBECTL={} is kubectl {major}.{minor}: {}.{} or later is needed",
                chosen.display(),
                VERSION.0,
                VERSION.1
            ),
            None => bail!("SENDO_KUBECTL={} is no kubectl that runs", chosen.display()),
        };
    }
    let on_path = PathBuf::from("kubectl");
    if version(&on_path) >= Some(VERSION) {
        return Ok(on_path);
    }
    let (major, minor) = VERSION;
    let folder = cache_folder()?.join(format!("sendo/tools/kubectl-{major}.{minor}"));
    let kubectl = folder.join("usr/bin/kubectl");
    if !kubectl.exists() {
        println!("installing kubectl {major}.{minor} in {}", folder.display());
        apt::unpack("kubectl", &format!("{major}.{minor}"), &folder).with_context(|| {
            format!(
                "kubectl {major}.{minor} could not be installed; \
                 put it on the PATH, or set SENDO_KUBECTL to where it is"
            )
        })?;
    }
    if version(&kubectl) < Some(VERSION) {
        bail!(
            "{} does not run, or is too old: remove {} to install it again",
            kubectl.display(),
            folder.display()
        );
    }
    Ok(kubectl)
}

/// Major and minor version of a kubectl; none if it does not run.
fn version(kubectl: &Path) -> Option<(u32, u32)> {
    let output = Command::new(kubectl)
        .args(["version", "--client", "--output=json"])
        .output()
        .ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    parse_version(answer["clientVersion"]["gitVersion"].as_str()?)
}

fn parse_version(git_version: &str) -> Option<(u32, u32)> {
    let mut numbers = git_version.strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(crate) fn cache_folder() -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .context("no folder to install tools in: set XDG_CACHE_HOME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(parse_version("v1.36.4+ds") >= Some(VERSION));
        assert!(parse_version("v1.32.4-dispatcher") < Some(VERSION));
        assert!(parse_version("v1.9.0") < Some(VERSION));
        assert_eq!(parse_version("unknown"), None);
    }
}
