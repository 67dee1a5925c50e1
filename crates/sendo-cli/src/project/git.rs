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

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).stderr(Stdio::null());
    command
}
