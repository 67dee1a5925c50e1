//! `cargo sendo …`: the command `sendo`, as a subcommand of cargo.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
    // Cargo passes the subcommand's own name first.
    if arguments.first().is_some_and(|first| first == "sendo") {
        arguments.remove(0);
    }
    // Both are installed into the same folder.
    let beside = env::current_exe()
        .ok()
        .map(|own| own.with_file_name("sendo"));
    let sendo = beside.filter(|path| path.is_file());
    let sendo = sendo.unwrap_or_else(|| "sendo".into());
    let error = Command::new(&sendo).args(arguments).exec();
    eprintln!(
        "error: cannot run {}: {error}; install it with `cargo install --path crates/sendo-cli --all-features`",
        sendo.display()
    );
    ExitCode::FAILURE
}
