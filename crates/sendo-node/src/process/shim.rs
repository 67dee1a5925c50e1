//! The small process beside each container: it owns the container's output, writes its log, takes
//! signals for it and records how it ended. It goes on when the node's agent is killed, and the
//! next agent finds it by its folder.
//!
//! It is the program of the agent, executed again with the arguments of [`shim`] and [`init`]; one
//! thread, no runtime. The files in the folder of a run:
//!
//! | file | what it is |
//! |---|---|
//! | `control` | a pipe: the shim reads `T` (terminate) and `K` (kill) from it |
//! | `events` | a pipe that the shim holds open: it says that a file below is new, and closes when the shim ends |
//! | `started` | when the container started |
//! | `exit` | how it ended |
//! | `log` | what it wrote, in the format of container runtimes; `log.1`, `log.2`, … are older |

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open,
};
use sendo::Timestamp;
use serde::{Deserialize, Serialize};

use super::log::LogWriter;

/// What a shim is told on its standard input, in one line of JSON. So nothing of a container's
/// environment is written to a file, or seen in a list of processes.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ShimConfig {
    /// The folder of the run.
    pub(super) folder: PathBuf,
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// The working directory.
    pub(super) directory: PathBuf,
    /// Whether the container ends when the standard input is closed, and so with the agent.
    pub(super) ends_with_agent: bool,
}

/// When a container started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Started {
    pub(super) at: Timestamp,
    /// The first process of the container.
    pub(super) pid: i32,
}

/// How a container ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Ended {
    pub(super) at: Timestamp,
    pub(super) code: i32,
    /// Why it could not be started, if so.
    pub(super) start_error: Option<String>,
}

/// The name of the file in which the first process says why the program could not be executed.
const START_ERROR: &str = "start_error";
/// As many bytes as are read of a container's output at once.
const CHUNK: usize = 16 * 1024;

/// Runs the shim of one container until that has ended.
pub(super) fn shim() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its standard error is that of the agent.
            eprintln!("the shim of a container failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let config: ShimConfig = serde_json::from_str(&read_line(&mut io::stdin().lock())?)?;
    // A signal to the group of the agent, such as Ctrl-C sends, is none to the container.
    rustix::process::setsid()?;
    // What leaves the container's session belongs to it still.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let control = open_pipe(&config.folder, "control")?;
    let events = open_pipe(&config.folder, "events")?;
    let mut log = LogWriter::create(&config.folder)?;
    let mut child = match spawn(&config) {
        Ok(child) => child,
        Err(error) => {
            let ended = Ended {
                at: now(),
                code: 128,
                start_error: Some(error.to_string()),
            };
            write_json(&config.folder, "exit", &ended)?;
            return Ok(());
        }
    };
    let pid = Pid::from_child(&child);
    let started = Started {
        at: now(),
        pid: pid.as_raw_nonzero().get(),
    };
    write_json(&config.folder, "started", &started)?;
    let _ = rustix::io::write(&events, b"s");
    let status = watch(&config, &control, &mut child, pid, &mut log)?;
    let start_error = std::fs::read_to_string(config.folder.join(START_ERROR)).ok();
    let ended = Ended {
        at: now(),
        code: exit_code(status),
        start_error,
    };
    write_json(&config.folder, "exit", &ended)?;
    let _ = rustix::io::write(&events, b"e");
    Ok(())
}

/// One line, and not a byte more: what follows tells when the agent ends.
fn read_line(input: &mut impl io::Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).map_err(io::Error::other)
}

/// Opens a named pipe for both ends, so that neither opening nor writing waits.
pub(super) fn open_pipe(folder: &Path, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder.join(name), flags, Mode::empty())?)
}

/// Starts the container's first process, which becomes the program in [`init`].
fn spawn(config: &ShimConfig) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg("container-init")
        .arg(config.folder.join(START_ERROR))
        .arg(&config.directory)
        .arg("--")
        .args(&config.argv)
        .env_clear()
        .envs(config.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Copies the output to the log, and takes signals, until the first process has ended; then ends
/// all others of the container.
fn watch(
    config: &ShimConfig,
    control: &OwnedFd,
    child: &mut Child,
    pid: Pid,
    log: &mut LogWriter,
) -> io::Result<ExitStatus> {
    let exited = pidfd_open(pid, PidfdFlags::empty())?;
    let mut stdout = child.stdout.take().map(OwnedFd::from).map(File::from);
    let mut stderr = child.stderr.take().map(OwnedFd::from).map(File::from);
    let stdin = io::stdin();
    let mut agent_lives = config.ends_with_agent;
    let mut status = None;
    loop {
        if status.is_some() && stdout.is_none() && stderr.is_none() {
            break;
        }
        let ready = wait_for(&[
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
            Some(control.as_fd()),
            agent_lives.then(|| stdin.as_fd()),
            status.is_none().then(|| exited.as_fd()),
        ])?;
        if ready[0] {
            copy(&mut stdout, "stdout", log)?;
        }
        if ready[1] {
            copy(&mut stderr, "stderr", log)?;
        }
        if ready[2] {
            take_signals(control, pid);
        }
        if ready[3] && stdin.lock().read(&mut [0; 64])? == 0 {
            agent_lives = false;
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if ready[4] {
            // The first process is not reaped yet, so its number is nobody else's.
            let _ = kill_process_group(pid, Signal::KILL);
            status = Some(child.wait()?);
            end_the_rest();
        }
    }
    log.finish()?;
    status.ok_or_else(|| io::Error::other("the container's process was lost"))
}

/// Waits until one of the files can be read, and says which can.
fn wait_for(files: &[Option<BorrowedFd<'_>>; 5]) -> io::Result<[bool; 5]> {
    let mut polled: Vec<PollFd<'_>> = files
        .iter()
        .flatten()
        .map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN))
        .collect();
    match poll(&mut polled, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut results = polled.iter().map(|file| !file.revents().is_empty());
    let mut ready = [false; 5];
    for (ready, _) in ready
        .iter_mut()
        .zip(files)
        .filter(|(_, file)| file.is_some())
    {
        *ready = results.next().unwrap_or_default();
    }
    Ok(ready)
}

/// Copies what one stream has; the stream is taken away at its end.
fn copy(stream: &mut Option<File>, name: &'static str, log: &mut LogWriter) -> io::Result<()> {
    let Some(file) = stream else {
        return Ok(());
    };
    let mut chunk = [0; CHUNK];
    match file.read(&mut chunk)? {
        0 => *stream = None,
        read => log.write(name, &chunk[..read], now())?,
    }
    Ok(())
}

fn take_signals(control: &OwnedFd, pid: Pid) {
    let mut bytes = [0; 16];
    let read = rustix::io::read(control, &mut bytes).unwrap_or_default();
    for byte in &bytes[..read] {
        let signal = match byte {
            b'T' => Signal::TERM,
            b'K' => Signal::KILL,
            _ => continue,
        };
        // The group that has just ended needs no signal.
        let _ = kill_process_group(pid, signal);
    }
}

/// Ends the processes that left the container's group. Those that have lost their parent are
/// children of this process.
fn end_the_rest() {
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let list = list.unwrap_or_default();
    let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(255)
}

fn now() -> Timestamp {
    Timestamp::now()
}

/// Writes a file at once: a reader sees all of it, or none.
fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    std::fs::write(&new, serde_json::to_vec(value)?)?;
    std::fs::rename(new, folder.join(name))
}

/// Becomes the container's program: in a session of its own, killed when its shim is.
///
/// The arguments are the file in which an error is reported, the working directory, `--`, and the
/// program with its arguments. It is searched for in the container's `PATH`.
pub(super) fn init(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let report = arguments.next().map(PathBuf::from).unwrap_or_default();
    let directory = arguments.next().unwrap_or_default();
    let mut argv = arguments.skip_while(|argument| argument == "--");
    let program = argv.next().unwrap_or_default();
    let prepared = rustix::process::setsid()
        .and_then(|_| rustix::process::set_parent_process_death_signal(Some(Signal::KILL)));
    let error = match prepared {
        Ok(()) => Command::new(&program)
            .args(argv)
            .current_dir(&directory)
            .exec(),
        Err(error) => error.into(),
    };
    let program = program.to_string_lossy();
    let message = match error.kind() {
        io::ErrorKind::NotFound if !program.contains('/') => {
            format!("exec: {program:?}: executable file not found in $PATH")
        }
        _ => format!("exec: {program:?}: {error}"),
    };
    let _ = std::fs::write(report, message);
    ExitCode::from(128)
}
