//! What git says of a project, by the command `git`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a repository of a new project, as `cargo new` does: not inside of another, and not where
/// git is missing. Returns whether there is a new one.
pub(crate) fn initialise(root: &Path) -> bool {
    let inside = git(root)
        .args(["rev-parse", "--is-inside-work-tree"])
        .output();
    let Ok(inside) = inside else {
        return false;
    };
    !inside.status.success()
        && git(root)
            .args(["init", "--quiet"])
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// Fails if a change of the project could not be undone with git, as `cargo fix` does.
#[cfg(feature = "add")]
pub(crate) fn check_clean(root: &Path) -> anyhow::Result<()> {
    use anyhow::bail;

    let status = git(root)
        .args(["status", "--porcelain", "--", "."])
        .output();
    let Some(status) = status.ok().filter(|status| status.status.success()) else {
        bail!(
            "{} is in no git repository, so a change could not be undone: commit it to one, or pass --allow-dirty",
            root.display()
        );
    };
    let status = String::from_utf8_lossy(&status.stdout);
    let mut changed = status.lines().filter_map(|line| line.get(3..));
    if let Some(first) = changed.next() {
        let more = match changed.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        bail!(
            "not committed to git: {first}{more}; commit first, so that the change can be undone, or pass --allow-dirty"
        );
    }
    Ok(())
}

/// The commit that the project is at, with `-dirty` if it has changed since; `None` without git.
#[cfg(feature = "image")]
pub(crate) fn commit(root: &Path) -> Option<String> {
    let text = |arguments: &[&str]| {
        let output = git(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = text(&["rev-parse", "HEAD"])?;
    let changed = text(&["status", "--porcelain", "--", "."])?;
    Some(match changed.is_empty() {
        true => commit,
        false => format!("{commit}-dirty"),
    })
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).stderr(Stdio::null());
    command
}
