//! Runs kubectl as a user of the cluster does.

use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::chapter::Invocation;

/// How long a command may take; a `kubectl wait` gives up before.
const TIMEOUT: Duration = Duration::from_secs(90);

/// How often a condition is polled.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// kubectl with the credentials of one cluster and without the user's configuration.
pub(super) struct Session {
    /// The command.
    pub(super) kubectl: PathBuf,
    /// The file with address and credentials.
    pub(super) kubeconfig: PathBuf,
    /// kubectl's cache of discovery. Never shared with another cluster, because its key is the address
    /// and ports are used again.
    pub(super) cache: PathBuf,
    /// Where it is run.
    pub(super) folder: PathBuf,
}

/// The output and exit code of a command.
#[derive(Debug)]
pub(super) struct CommandOutput {
    /// Standard output, then standard error.
    pub(super) printed: String,
    /// The exit code; -1 if a signal ended it.
    pub(super) exit: i32,
}

impl Session {
    /// Runs kubectl to its end.
    ///
    /// # Errors
    ///
    /// When it cannot be started or is not over in [`TIMEOUT`]; it is killed then.
    pub(super) fn run(&self, invocation: Invocation) -> anyhow::Result<CommandOutput> {
        let mut running = self.start(invocation)?;
        let exit = running.wait(TIMEOUT)?;
        Ok(CommandOutput {
            printed: running.printed(0),
            exit,
        })
    }

    /// Runs kubectl with these words, and gives what it printed.
    ///
    /// # Errors
    ///
    /// When it fails, with what it printed.
    pub(super) fn succeed(&self, words: &[&str]) -> anyhow::Result<String> {
        let outcome = self.run(Invocation {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Invocation::default()
        })?;
        if outcome.exit != 0 {
            let printed = outcome.printed.trim_end();
            bail!("kubectl {}: {printed}", words.join(" "));
        }
        Ok(outcome.printed)
    }

    /// Starts kubectl.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(super) fn start(&self, invocation: Invocation) -> anyhow::Result<Running> {
        let mut child = Command::new(&self.kubectl)
            .args(&invocation.words)
            .current_dir(&self.folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", &self.cache)
            .env("KUBERC", "off")
            // Temporary files of `kubectl edit` are removed with the folder.
            .env("TMPDIR", &self.folder)
            .env("TERM", "dumb")
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .envs(invocation.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", self.kubectl.display()))?;
        let mut stdin = child.stdin.take().context("a pipe to write to")?;
        let output = Collected::from_pipe(child.stdout.take());
        let errors = Collected::from_pipe(child.stderr.take());
        // A command that does not read its input closes the pipe; its output says why.
        let feeder = thread::spawn(move || drop(stdin.write_all(invocation.input.as_bytes())));
        Ok(Running {
            child,
            output,
            errors,
            feeder: Some(feeder),
        })
    }
}

/// A kubectl that was started. Dropping it kills it.
pub(super) struct Running {
    child: Child,
    output: Collected,
    errors: Collected,
    feeder: Option<JoinHandle<()>>,
}

impl Running {
    /// What it printed so far, without the first bytes of standard output; all
    /// of it once it is over.
    pub(super) fn printed(&self, after: usize) -> String {
        let mut text = self.output.text(after);
        text.push_str(&self.errors.text(0));
        text
    }

    /// How many bytes of standard output there are so far.
    pub(super) fn length(&self) -> usize {
        lock(&self.output.bytes).len()
    }

    /// Waits for its end and the rest of its output.
    ///
    /// # Errors
    ///
    /// When it is not over in that time.
    pub(super) fn wait(&mut self, patience: Duration) -> anyhow::Result<i32> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if began.elapsed() > patience {
                bail!("not over in {patience:?}; it printed:\n{}", self.printed(0));
            }
            thread::sleep(Duration::from_millis(2));
        };
        self.output.finish();
        self.errors.finish();
        if let Some(feeder) = self.feeder.take() {
            feeder.join().ok();
        }
        Ok(status.code().unwrap_or(-1))
    }

    /// Stops it as Ctrl-C does.
    pub(super) fn interrupt(&mut self) -> anyhow::Result<()> {
        signal("INT", self.child.id())?;
        self.wait(TIMEOUT).map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends a signal to a process.
pub(super) fn signal(name: &str, process: u32) -> anyhow::Result<()> {
    // The shell has `kill` built in, where a machine may lack the command.
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &process.to_string()])
        .status()
        .context("run sh")?;
    if !status.success() {
        bail!("no process {process} to send {name} to");
    }
    Ok(())
}

/// The bytes from a pipe, which a thread reads so that the writer does not block.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn from_pipe(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::default();
        let sink = Arc::clone(&bytes);
        let reader = pipe.map(|mut pipe| {
            thread::spawn(move || {
                let mut chunk = [0; 8192];
                while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                    lock(&sink).extend_from_slice(&chunk[..length]);
                }
            })
        });
        Self { bytes, reader }
    }

    fn text(&self, after: usize) -> String {
        String::from_utf8_lossy(&lock(&self.bytes)[after..]).into_owned()
    }

    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}
