//! Where a project takes Sendo from: the same that this command was built from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use toml_edit::Value;

/// A source of Sendo's crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendoSource {
    /// A released version.
    Version(String),
    /// A commit of a repository.
    Git { url: String, commit: String },
    /// A clone on this machine.
    Folder(PathBuf),
}

impl SendoSource {
    /// What this command was built from: a release, a commit, or a folder.
    pub(crate) fn built_from() -> Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let has = |names: [&str; 2]| {
            let parts: Vec<_> = package.iter().collect();
            parts.windows(2).any(|pair| pair == names)
        };
        if has(["registry", "src"]) {
            return Ok(SendoSource::Version(env!("CARGO_PKG_VERSION").to_owned()));
        }
        let clone = package.ancestors().nth(2).unwrap_or(package);
        if has(["git", "checkouts"])
            && let Some(source) = commit_of(clone)
        {
            return Ok(source);
        }
        SendoSource::folder(clone)
    }

    /// A clone of Sendo in this folder.
    pub(crate) fn folder(folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder)?;
        if !folder.join("crates/sendo/Cargo.toml").is_file() {
            bail!(
                "there is no clone of Sendo in {}: name one with --sendo-path DIR, or a repository with --sendo-git URL",
                folder.display()
            );
        }
        Ok(SendoSource::Folder(folder))
    }

    /// The dependency on one of its crates, as the inside of an inline table.
    pub(crate) fn dependency(&self, name: &str) -> String {
        let text = |text: &str| Value::from(text).to_string().trim().to_owned();
        match self {
            SendoSource::Version(version) => format!("version = {}", text(version)),
            SendoSource::Git { url, commit } if commit.is_empty() => format!("git = {}", text(url)),
            SendoSource::Git { url, commit } => {
                format!("git = {}, rev = {}", text(url), text(commit))
            }
            SendoSource::Folder(folder) => {
                let path = folder.join("crates").join(name);
                format!("path = {}", text(&path.display().to_string()))
            }
        }
    }
}

/// The repository and the commit of one of cargo's checkouts.
fn commit_of(checkout: &Path) -> Option<SendoSource> {
    let git = |folder: &Path, arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let commit = git(checkout, &["rev-parse", "HEAD"])?;
    // Cargo clones from a database of its own, which knows where it fetches from.
    let origin = git(checkout, &["config", "remote.origin.url"])?;
    let database = origin.strip_prefix("file://").unwrap_or(&origin);
    let fetched = std::fs::read_to_string(Path::new(database).join("FETCH_HEAD")).ok()?;
    let url = fetched.lines().find_map(|line| line.rsplit_once(" of "))?.1;
    Some(SendoSource::Git {
        url: url.trim().to_owned(),
        commit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_from_a_clone_makes_projects_that_use_the_clone() {
        let source = SendoSource::built_from().unwrap();
        let dependency = source.dependency("sendo-test");
        assert!(dependency.starts_with("path = \"/"), "{dependency}");
        assert!(dependency.ends_with("crates/sendo-test\""), "{dependency}");
    }

    #[test]
    fn a_dependency_is_by_version_by_commit_or_by_path() {
        let version = SendoSource::Version("1.2.3".to_owned());
        assert_eq!(version.dependency("sendo"), "version = \"1.2.3\"");
        let git = SendoSource::Git {
            url: "https://example.dev/sendo".to_owned(),
            commit: "abc".to_owned(),
        };
        let expected = "git = \"https://example.dev/sendo\", rev = \"abc\"";
        assert_eq!(git.dependency("sendo"), expected);
        let folder = tempfile::tempdir().unwrap();
        let error = SendoSource::folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--sendo-path DIR"), "{error}");
    }
}
