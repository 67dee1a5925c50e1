//! The program as a process of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::cluster::{Chosen, free_port};
use super::lines::{Lines, Source};
use super::process::{end_group, own_group, print_lines, process_of};

/// How long the program has to stop before it is ended.
const STOP: Duration = Duration::from_secs(10);

/// How long it may take to say what its flags are.
const HELP: Duration = Duration::from_secs(2);

/// How often it is asked whether it is ready.
const POLL: Duration = Duration::from_millis(20);

/// The program, running. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    /// What prints its lines.
    output: JoinSet<Result<()>>,
    /// Where it serves probes; `None` if its flags say something else.
    probes: Option<SocketAddr>,
    pub(super) began: Instant,
    pub(super) is_ready: bool,
}

impl Program {
    /// Starts it on a cluster.
    pub(super) async fn start(
        path: &Path,
        cluster: &Chosen,
        flags: &[String],
        lines: &Lines,
    ) -> Result<Self> {
        let help = help_of(path).await;
        // Flags of a program's own come first, and one that is not known would end it.
        let takes =
            |name: &str| help.contains(name) && !flags.iter().any(|flag| flag.starts_with(name));
        let mut command = Command::new(path);
        if takes("--install-kinds") {
            command.arg("--install-kinds");
        }
        if let Some(kubeconfig) = &cluster.flags.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        if let Some(context) = &cluster.flags.context {
            command.arg("--context").arg(context);
        }
        if let Some(address) = &cluster.webhooks_at
            && takes("--webhooks-at")
        {
            command.arg(format!("--webhooks-at={address}"));
        }
        let probes = match takes("--health-address") {
            true => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?))),
            false => None,
        };
        if let Some(probes) = probes {
            command.arg(format!("--health-address={probes}"));
        }
        command
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        own_group(&mut command);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", path.display()))?;
        let mut output = JoinSet::new();
        output.spawn(print_lines(child.stdout.take(), Source::Program, *lines));
        output.spawn(print_lines(child.stderr.take(), Source::Program, *lines));
        Ok(Program {
            child,
            output,
            probes,
            began: Instant::now(),
            is_ready: false,
        })
    }

    /// Waits until it ends by itself, and its last line is printed.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().await?;
        while self.output.join_next().await.is_some() {}
        Ok(status)
    }

    /// Waits until it is ready, or has ended.
    pub(super) async fn ready_or_ended(&mut self) -> Result<Option<ExitStatus>> {
        let ready = until_ready(self.probes);
        tokio::select! {
            biased;
            status = self.ended() => status.map(Some),
            () = ready => Ok(None),
        }
    }

    /// Has it stop in order; one that does not in time is ended.
    pub(super) async fn stop(mut self, lines: &Lines) -> Result<()> {
        if let Some(process) = process_of(&self.child) {
            // It may have ended by itself.
            let _ = kill_process(process, Signal::TERM);
        }
        if tokio::time::timeout(STOP, self.ended()).await.is_err() {
            lines.say(
                Source::Dev,
                format!("the program does not stop in {STOP:?}, and is ended"),
            );
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end_group(&self.child);
    }
}

/// What the program says about its flags.
async fn help_of(path: &Path) -> String {
    let mut command = Command::new(path);
    command
        .arg("--help")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match tokio::time::timeout(HELP, command.output()).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => String::new(),
    }
}

/// Waits until the probe at this address succeeds; forever if there is none.
async fn until_ready(probes: Option<SocketAddr>) {
    let Some(probes) = probes else {
        return std::future::pending().await;
    };
    while !answers(probes).await.unwrap_or(false) {
        tokio::time::sleep(POLL).await;
    }
}

/// Whether `/readyz` is answered with 200.
async fn answers(address: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
