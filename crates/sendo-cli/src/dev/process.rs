//! What the processes of a session have in common: a group of their own, and lines that are printed.

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use super::lines::{Lines, Source};

/// Makes a process the first of a group, so that Ctrl-C on the terminal reaches this command alone,
/// which stops all in order.
pub(super) fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Ends a process and all that it has started, unless it has ended.
pub(super) fn end_group(child: &Child) {
    if let Some(process) = process_of(child) {
        // It may end at this moment.
        let _ = kill_process_group(process, Signal::KILL);
    }
}

/// The process, as long as it has not been waited for.
pub(super) fn process_of(child: &Child) -> Option<Pid> {
    let id = i32::try_from(child.id()?).ok()?;
    Pid::from_raw(id)
}

/// Prints what a process says, line by line.
pub(super) async fn print_lines(
    stream: Option<impl AsyncRead + Unpin>,
    source: Source,
    lines: Lines,
) -> Result<()> {
    let Some(stream) = stream else {
        return Ok(());
    };
    let mut read = BufReader::new(stream).split(b'\n');
    while let Some(line) = read.next_segment().await? {
        lines.say(source, String::from_utf8_lossy(&line));
    }
    Ok(())
}
