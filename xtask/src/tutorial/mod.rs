//! `cargo xtask tutorial`: executes `docs/tutorial.md`, so that it cannot be wrong.
//!
//! Every `console` block is run, command by command, and compared with what it says is printed;
//! every block whose first line names a file is written to it. What differs from run to run stands
//! in the text as a placeholder (see [`crate::e2e::pattern`]), which later commands may use. The project
//! is built in the target folder of this workspace, where much of what it depends on is built already.

mod document;
mod registry;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::e2e::difference::Difference;
use crate::e2e::pattern::{Names, Pattern, fill};
use crate::e2e::{cluster, kubectl};
use document::{Action, Document, Step};
use shell::Shell;

/// How long a command marked `eventually` is repeated, and how long one in the background may take
/// to print what is expected.
const PATIENCE: Duration = Duration::from_secs(900);

/// How often it is tried.
const INTERVAL: Duration = Duration::from_millis(100);

/// Execute the tutorial, docs/tutorial.md, and compare what it prints
///
/// Builds the `sendo` command with all its parts, and plays every command of the
/// tutorial in a temporary folder.
#[derive(Args)]
pub(crate) struct Options {
    /// Play the tutorial of this file
    #[arg(default_value = "docs/tutorial.md")]
    file: PathBuf,
    /// Use this `sendo` command in place of building one
    #[arg(long, value_name = "PATH")]
    sendo: Option<PathBuf>,
    /// Keep the folder with the projects, and say where it is
    #[arg(long)]
    keep: bool,
    /// Print all that the commands print
    #[arg(long)]
    verbose: bool,
}

/// Plays the tutorial.
///
/// # Errors
///
/// When a command prints other than the tutorial says.
pub(crate) fn run(options: &Options) -> Result<()> {
    let text = fs::read_to_string(&options.file)
        .with_context(|| format!("cannot read {}", options.file.display()))?;
    let document = Document::parse(&text)?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("a workspace")?;
    let sendo = match &options.sendo {
        Some(path) => path.canonicalize()?,
        None => cluster::build_for_tests("sendo")?,
    };
    let kubectl = kubectl::locate()?;
    // This program is in it.
    let own_path = std::env::current_exe()?;
    let target = own_path.ancestors().nth(2).context("a target folder")?;
    // The cluster of `sendo dev` is kept; the reader's is new.
    let kept = target.join("sendo-dev/bar-controller");
    if kept.exists() {
        fs::remove_dir_all(&kept)?;
    }
    let (folder, own) = (tempfile::tempdir()?, tempfile::tempdir()?);
    compile_quickly(folder.path(), workspace)?;
    let mut shell = Shell::new(folder.path(), own.path(), &[&sendo, &kubectl])?;
    shell.set("CARGO_TARGET_DIR", target);
    // The versions that this workspace is built with are on this machine.
    shell.set("CARGO_NET_OFFLINE", "true");
    let mut play = Play {
        shell,
        names: Names::new(),
        lock: workspace.join("Cargo.lock"),
        verbose: options.verbose,
    };
    let began = Instant::now();
    let mut outcome = Ok(());
    for step in &document.steps {
        let began = Instant::now();
        let at = format!("{}:{}", options.file.display(), step.line);
        outcome = play.step(step).with_context(|| at.clone());
        if outcome.is_err() {
            break;
        }
        println!(
            "{:>7.1} s  {at}  {}",
            began.elapsed().as_secs_f64(),
            step.action
        );
    }
    play.shell.end();
    if outcome.is_ok()
        && let Some(program) = registry::build()?
    {
        let began = Instant::now();
        let project = play.shell.folder();
        registry::check(
            &program,
            &sendo,
            project,
            &target.join("debug/bar-controller"),
        )?;
        println!(
            "{:>7.1} s  its image is pushed to a registry",
            began.elapsed().as_secs_f64()
        );
    }
    if options.keep {
        println!("kept: {}", folder.keep().display());
    }
    outcome?;
    println!(
        "{} steps in {:.1} s",
        document.steps.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Has cargo compile the crates of this workspace as it does here: a project optimises all that it
/// depends on, these included, which takes minutes that its few tests do not win back.
fn compile_quickly(folder: &Path, workspace: &Path) -> Result<()> {
    let mut settings = String::new();
    for entry in fs::read_dir(workspace.join("crates"))? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        // Cargo warns of settings for what a project does not depend on.
        if name != "sendo-cli" {
            settings.push_str(&format!("[profile.dev.package.{name}]\nopt-level = 0\n"));
        }
    }
    let cargo = folder.join(".cargo");
    fs::create_dir(&cargo)?;
    Ok(fs::write(cargo.join("config.toml"), settings)?)
}

struct Play {
    shell: Shell,
    names: Names,
    /// The versions that new projects begin with.
    lock: PathBuf,
    verbose: bool,
}

impl Play {
    fn step(&mut self, step: &Step) -> Result<()> {
        self.pin_versions()?;
        let expected = Pattern::new(&step.expected, &self.names)?;
        let began = Instant::now();
        loop {
            let (printed, exit) = self.act(&step.action, &expected)?;
            if self.verbose {
                print!("{printed}");
            }
            let problem = match expected.compare(&printed) {
                Some(kept) if exit == step.exit => {
                    self.names.extend(kept);
                    return Ok(());
                }
                Some(_) => format!(
                    "ended with {exit} instead of {}, and printed\n{printed}",
                    step.exit
                ),
                None => Difference::new(&expected, &printed).to_string(),
            };
            if !step.eventually || began.elapsed() > PATIENCE {
                bail!("{}\n{problem}", step.action);
            }
            std::thread::sleep(INTERVAL);
        }
    }

    fn act(&mut self, action: &Action, expected: &Pattern) -> Result<(String, i32)> {
        match action {
            Action::Run(command) => self.shell.run(&fill(command, &self.names)),
            Action::Start(command) => {
                self.shell.start(&fill(command, &self.names))?;
                self.until(expected)
            }
            Action::Foreground { interrupt: false } => self.until(expected),
            Action::Foreground { interrupt: true } => Ok((self.shell.interrupt()?, 0)),
            Action::Write { path, text } => {
                let path = self.shell.folder().join(path);
                if !path.is_file() {
                    bail!("there is no {} to write to", path.display());
                }
                fs::write(path, text)?;
                Ok((String::new(), 0))
            }
        }
    }

    /// What the command in the background prints, once it is what is expected.
    fn until(&mut self, expected: &Pattern) -> Result<(String, i32)> {
        let began = Instant::now();
        loop {
            let (printed, is_over) = self.shell.background()?;
            if expected.compare(&printed).is_some() || is_over || began.elapsed() > PATIENCE {
                self.shell.seen(printed.len());
                return Ok((printed, 0));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Gives a new project the versions of its dependencies that this workspace has.
    fn pin_versions(&self) -> Result<()> {
        let folder = self.shell.folder();
        let lock = folder.join("Cargo.lock");
        if folder.join("Cargo.toml").is_file() && !lock.exists() {
            fs::copy(&self.lock, lock)?;
        }
        Ok(())
    }
}
