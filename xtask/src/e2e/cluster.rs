//! The cluster on which the steps run: a `sendo up` of this workspace, or a real one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::session::{INTERVAL, Session, signal};

/// How long `sendo up` may take to be ready, and to stop.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A cluster that is ready.
pub(super) enum Cluster {
    /// An existing one, from `SENDO_REAL_KUBECONFIG`.
    Real(PathBuf),
    /// One that was started and must be stopped.
    Embedded(Server),
}

impl Cluster {
    /// The file with address and credentials of an administrator.
    pub(super) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Real(kubeconfig) => kubeconfig,
            Self::Embedded(server) => &server.kubeconfig,
        }
    }
}

/// A `sendo up` in a process of its own. Dropping it kills it.
pub(super) struct Server {
    child: Child,
    kubeconfig: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts `sendo up` on a free port, with its files in `folder`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(super) fn start(sendo: &Path, folder: &Path) -> anyhow::Result<Self> {
        let kubeconfig = folder.join("sendo.kubeconfig");
        let log = folder.join("sendo.log");
        let output = File::create(&log)?;
        let child = Command::new(sendo)
            .args(["up", "--port", "0", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("run {}", sendo.display()))?;
        Ok(Self {
            child,
            kubeconfig,
            log,
        })
    }

    /// Waits until the kubeconfig is there and `/readyz` answers `ok`.
    ///
    /// # Errors
    ///
    /// When the process ends, or is not ready in [`TIMEOUT`]; with its log.
    pub(super) fn wait_until_ready(&mut self, session: &Session) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut last = String::from("no kubeconfig");
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("sendo up ended, {status}:\n{}", self.log());
            }
            if self.kubeconfig.exists() {
                match session.succeed(&["get", "--raw", "/readyz"]) {
                    Ok(answer) if answer == "ok" => return Ok(()),
                    Ok(answer) => last = answer,
                    Err(error) => last = format!("{error:#}"),
                }
            }
            if began.elapsed() > TIMEOUT {
                bail!(
                    "sendo up is not ready after {TIMEOUT:?}: {last}\n{}",
                    self.log()
                );
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Ends it with SIGTERM.
    ///
    /// # Errors
    ///
    /// When it does not exit with 0, or not in [`TIMEOUT`]; with its log.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        signal("TERM", self.child.id())?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if began.elapsed() > TIMEOUT {
                bail!("still there {TIMEOUT:?} after SIGTERM:\n{}", self.log());
            }
            thread::sleep(INTERVAL);
        };
        if !status.success() {
            bail!("ended with {status} on SIGTERM:\n{}", self.log());
        }
        Ok(())
    }

    /// Its log so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Builds a program of this workspace and returns its path.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build(package: &str, program: &str, release: bool) -> anyhow::Result<PathBuf> {
    let mut flags = vec!["build", "--package", package, "--bin", program];
    if release {
        flags.push("--release");
    }
    build_with(&flags, program)
}

/// Builds a program with all its features, as the tests of the workspace have it: where these were
/// built, nothing is left to do.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build_for_tests(program: &str) -> anyhow::Result<PathBuf> {
    let flags = ["test", "--workspace", "--no-run", "--test", "command"];
    build_with(&flags, program)
}

fn build_with(flags: &[&str], program: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(flags)
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    let output = command.output().context("run cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed, {}", flags.join(" "), output.status);
    }
    // cargo prints the path of the file, which depends on the target folder.
    let messages = serde_json::Deserializer::from_slice(&output.stdout);
    let messages = messages.into_iter::<serde_json::Value>();
    let executables = messages.filter_map(|message| {
        let message = message.ok()?;
        let is_program =
            message["target"]["name"] == program && message["target"]["kind"][0] == "bin";
        let path = message["executable"].as_str().filter(|_| is_program)?;
        Some(PathBuf::from(path))
    });
    executables
        .last()
        .with_context(|| format!("cargo built no program `{program}`"))
}
