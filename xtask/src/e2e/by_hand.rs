//! Starts the programs of `examples/` by hand beside the cluster, with `--webhooks-at`, and plays
//! the chapter that sees their webhooks decide.
//!
//! The cluster calls them at an address of this machine: a real one takes part if it runs here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::chapter::Chapter;
use super::cluster;
use super::play::Stage;
use super::report::{Step, StepResult};
use super::session::{INTERVAL, Session, signal};

/// Its name in the report, and that of its chapter.
pub(super) const NAME: &str = "by-hand";

/// How long a program may take to have its webhooks called, and to stop.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The programs, and what tells that the webhooks of each are called.
const PROGRAMS: [(&str, &str); 2] = [
    ("bar", "validatingwebhookconfiguration/bar-controller"),
    ("tenant", "mutatingwebhookconfiguration/tenant-controller"),
];

/// Builds the programs.
///
/// # Errors
///
/// When a build fails.
pub(super) fn build(release: bool) -> anyhow::Result<Vec<PathBuf>> {
    let build = |(name, _): &(&str, &str)| cluster::build(name, name, release);
    PROGRAMS.iter().map(build).collect()
}

/// Starts the programs, plays the chapter, and ends them.
pub(super) fn run(programs: &[PathBuf], chapter: &Chapter, stage: &Stage<'_>) -> Vec<Step> {
    if !stage.embedded && !runs_here(&stage.session) {
        let why = "the cluster runs elsewhere, and may not reach this machine";
        return vec![Step::skipped("all of it", why)];
    }
    let mut steps = Vec::new();
    let mut running = Vec::new();
    for (path, (name, configuration)) in programs.iter().zip(PROGRAMS) {
        let began = Instant::now();
        let started = Program::start(name, path, stage).and_then(|mut program| {
            program.wait_for(configuration, &stage.session)?;
            Ok(program)
        });
        let title = format!("{name} registers its webhooks");
        match started {
            Ok(program) => {
                running.push(program);
                steps.push(Step::new(&title, began, StepResult::Passed));
            }
            Err(error) => {
                let how = StepResult::Failed(format!("{error:#}"));
                steps.push(Step::new(&title, began, how));
                return steps;
            }
        }
    }
    steps.extend(stage.play(chapter));
    let failed = |step: &Step| matches!(step.result, StepResult::Failed(_));
    if steps.iter().any(failed) {
        for program in &running {
            println!("\n{} said:\n{}", program.name, program.log());
        }
    }
    for program in running {
        let began = Instant::now();
        let title = format!("{} ends on SIGTERM", program.name);
        let result = match program.stop() {
            Ok(()) => StepResult::Passed,
            Err(error) => StepResult::Failed(format!("{error:#}")),
        };
        steps.push(Step::new(&title, began, result));
    }
    steps
}

/// Whether the API server is on this machine.
fn runs_here(session: &Session) -> bool {
    let path = "jsonpath={.clusters[0].cluster.server}";
    let server = session.succeed(&["config", "view", "--minify", "-o", path]);
    server.is_ok_and(|server| server.contains("//127.0.0.1") || server.contains("//localhost"))
}

/// A program in a process of its own. Dropping it kills it.
struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(name: &'static str, path: &Path, stage: &Stage<'_>) -> anyhow::Result<Self> {
        let log = stage.folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let child = Command::new(path)
            .args(["--install-kinds", "--webhooks-at", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(&stage.session.kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("run {}", path.display()))?;
        Ok(Self { name, child, log })
    }

    /// Waits until an object is there that the program makes.
    fn wait_for(&mut self, object: &str, session: &Session) -> anyhow::Result<()> {
        let began = Instant::now();
        while session.succeed(&["get", object]).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended, {status}:\n{}", self.log());
            }
            if began.elapsed() > TIMEOUT {
                bail!("no {object} after {TIMEOUT:?}:\n{}", self.log());
            }
            thread::sleep(INTERVAL);
        }
        Ok(())
    }

    fn stop(mut self) -> anyhow::Result<()> {
        signal("TERM", self.child.id())?;
        let began = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("ended with {status}:\n{}", self.log()),
                None if began.elapsed() > TIMEOUT => {
                    bail!("still there {TIMEOUT:?} after SIGTERM:\n{}", self.log());
                }
                None => thread::sleep(INTERVAL),
            }
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
