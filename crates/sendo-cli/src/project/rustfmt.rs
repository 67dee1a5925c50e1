//! The layout of Rust code, by the command `rustfmt`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The text as rustfmt lays it out; `None` if it is not installed or refuses.
pub(super) fn run_rustfmt(folder: &Path, edition: &str, text: &str) -> Option<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", edition, "--emit", "stdout", "--quiet"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // It reads all before it writes.
    let written = child.stdin.take()?.write_all(text.as_bytes());
    let output = child.wait_with_output().ok()?;
    let formatted = String::from_utf8(output.stdout).ok()?;
    (written.is_ok() && output.status.success() && !formatted.is_empty()).then_some(formatted)
}
