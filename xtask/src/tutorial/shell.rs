//! A shell, as a reader of the tutorial has it: a folder, an environment, a job in the background.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a command in the background may take to end.
const END: Duration = Duration::from_secs(30);

pub(super) struct Shell {
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    job: Option<Job>,
    /// Where commands write what they print.
    output: PathBuf,
}

struct Job {
    child: Child,
    output: PathBuf,
    /// How many bytes of its output were compared already.
    seen: usize,
}

impl Shell {
    /// A shell in a folder that finds these commands, and has files of its own in another.
    pub(super) fn new(folder: &Path, own: &Path, commands: &[&PathBuf]) -> Result<Self> {
        let home = own.join("home");
        let tools = own.join("tools");
        for needed in [&home, &tools] {
            std::fs::create_dir(needed)?;
        }
        for command in commands {
            let name = command.file_name().context("a command has a name")?;
            if command.is_absolute() {
                std::os::unix::fs::symlink(command, tools.join(name))?;
            }
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = [tools].into_iter().chain(std::env::split_paths(&path));
        let mut shell = Shell {
            folder: folder.to_owned(),
            environment: Vec::new(),
            job: None,
            output: own.join("output"),
        };
        shell.set("PATH", std::env::join_paths(paths)?);
        for (name, value) in [
            ("GIT_AUTHOR_NAME", "You"),
            ("GIT_AUTHOR_EMAIL", "you@example.dev"),
            ("GIT_COMMITTER_NAME", "You"),
            ("GIT_COMMITTER_EMAIL", "you@example.dev"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("CARGO_TERM_COLOR", "never"),
            ("KUBERC", "off"),
            ("TERM", "dumb"),
            ("TZ", "UTC"),
            ("LC_ALL", "C.UTF-8"),
        ] {
            shell.set(name, value);
        }
        shell.set("KUBECACHEDIR", home.join("kubectl"));
        shell.set("DOCKER_CONFIG", home);
        Ok(shell)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        let pair = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.environment.push(pair);
    }

    /// Runs a command to its end; what it printed, and its exit code.
    pub(super) fn run(&mut self, command: &str) -> Result<(String, i32)> {
        if let Some(folder) = command.strip_prefix("cd ") {
            self.folder = self.folder.join(folder).canonicalize()?;
            return Ok((String::new(), 0));
        }
        if let Some((name, value)) = command
            .strip_prefix("export ")
            .and_then(|rest| rest.split_once('='))
        {
            let (value, _) = self.run(&format!("printf %s {value}"))?;
            self.set(name, value);
            return Ok((String::new(), 0));
        }
        let status = self
            .command(command, &self.output)?
            .status()
            .context("run bash")?;
        let printed = std::fs::read(&self.output)?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        Ok((printed, status.code().unwrap_or(-1)))
    }

    /// Starts a command in the background.
    pub(super) fn start(&mut self, command: &str) -> Result<()> {
        if self.job.is_some() {
            bail!("there is a command in the background already");
        }
        let output = self.output.with_extension("background");
        let child = self.command(&format!("exec {command}"), &output)?.spawn();
        self.job = Some(Job {
            child: child.context("run bash")?,
            output,
            seen: 0,
        });
        Ok(())
    }

    fn command(&self, text: &str, output: &Path) -> Result<Command> {
        let output = File::create(output)?;
        let mut command = Command::new("bash");
        command
            .args(["-o", "pipefail", "-c", text])
            .current_dir(&self.folder)
            // Of this process' own build.
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .env_remove("RUSTFLAGS")
            .env_remove("KUBECONFIG")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        Ok(command)
    }

    /// What the command in the background has printed since the last time, and whether it is over.
    pub(super) fn background(&mut self) -> Result<(String, bool)> {
        let job = self.job.as_mut().context("nothing is in the background")?;
        let is_over = job.child.try_wait()?.is_some();
        let printed = std::fs::read(&job.output)?;
        let new = printed.get(job.seen..).unwrap_or_default();
        Ok((String::from_utf8_lossy(new).into_owned(), is_over))
    }

    /// Takes so many bytes of its output for seen.
    pub(super) fn seen(&mut self, bytes: usize) {
        if let Some(job) = &mut self.job {
            job.seen += bytes;
        }
    }

    /// Ends it as Ctrl-C does; the rest of what it printed.
    pub(super) fn interrupt(&mut self) -> Result<String> {
        let job = self.job.as_mut().context("nothing is in the background")?;
        signal("INT", job.child.id())?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = job.child.try_wait()? {
                break status;
            }
            if began.elapsed() > END {
                bail!("still there {END:?} after Ctrl-C");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let (printed, _) = self.background()?;
        self.job = None;
        if !status.success() {
            bail!("ended with {status} on Ctrl-C:\n{printed}");
        }
        Ok(printed)
    }

    /// Ends what is left in the background.
    pub(super) fn end(&mut self) {
        if self.job.is_some() && self.interrupt().is_err() {
            let Some(mut job) = self.job.take() else {
                return;
            };
            let _ = job.child.kill();
            let _ = job.child.wait();
        }
    }
}

fn signal(name: &str, process: u32) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &process.to_string()])
        .status()?;
    if !status.success() {
        bail!("no process {process} to send {name} to");
    }
    Ok(())
}
