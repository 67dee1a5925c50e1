//! `cargo xtask e2e`: drives clients that others wrote against a cluster over TLS.
//!
//! The steps for kubectl are in `e2e/chapters`: Markdown with commands and what
//! they print (see [`chapter`]). The last chapters are programs in Go: one that
//! calls the cluster (`xtask/client-go`), and one that the cluster calls
//! (`xtask/extensions`). They run on a `sendo up` of this workspace; with
//! `SENDO_REAL_KUBECONFIG` set they run on that cluster instead, which shows
//! whether the steps are right.

mod apt;
mod by_hand;
mod chapter;
mod client_go;
pub(crate) mod cluster;
mod definitions;
pub(crate) mod difference;
mod extensions;
mod go_program;
pub(crate) mod kubectl;
pub(crate) mod pattern;
mod play;
mod report;
mod session;

pub(crate) use cluster::build;
pub(crate) use kubectl::cache_folder;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use anyhow::bail;
use clap::Args;

use chapter::Chapter;
use cluster::{Cluster, Server};
use play::Stage;
use report::{Output, Report, Step, StepResult};
use session::Session;

/// A chapter's name and text.
macro_rules! chapter {
    ($name:literal) => {
        ($name, include_str!(concat!("chapters/", $name, ".md")))
    };
}

/// Chapters that change cluster-wide state, played one after the other.
const SEQUENTIAL: [(&str, &str); 2] = [chapter!("cluster"), chapter!("nodes")];

/// Chapters that use only their namespace and their own kinds, played several at a time; the long
/// ones come first.
const CONCURRENT: [(&str, &str); 19] = [
    chapter!("definitions"),
    chapter!("rollouts"),
    chapter!("replicasets"),
    chapter!("large"),
    chapter!("services"),
    chapter!("access"),
    chapter!("server-side"),
    chapter!("custom-resources"),
    chapter!("deleting"),
    chapter!("edit"),
    chapter!("editing"),
    chapter!("making"),
    chapter!("namespaces"),
    chapter!("formats"),
    chapter!("watch"),
    chapter!("apply"),
    chapter!("kustomize"),
    chapter!("explain"),
    chapter!("errors"),
];

/// The chapter beside which the programs of `examples/` run.
const BY_HAND: [(&str, &str); 1] = [chapter!("by-hand")];

/// Drive a real kubectl and a real client-go against a cluster, step by step
///
/// Starts `sendo up` from this workspace on a free port, plays every chapter
/// under xtask/src/e2e/chapters in a namespace of its own, builds and runs the
/// programs in xtask/client-go and xtask/extensions where Go is installed, and
/// stops the cluster. A step that prints other than its chapter says is shown as a diff: `-` was
/// expected, `+` was printed.
#[derive(Args)]
#[command(after_help = "\
Environment:
  SENDO_REAL_KUBECONFIG  play on the cluster of this kubeconfig instead; steps
                         that hold for `sendo up` only are left out
  SENDO_KUBECTL          the kubectl to use; else one on the PATH if it is new
                         enough, else one is installed in the user's cache folder

Examples:
  cargo xtask e2e                            all of it
  cargo xtask e2e --list                     what there is
  cargo xtask e2e apply rollouts             chapters and steps with these words
  cargo xtask e2e client-go --output=steps   a Go program, step by step
  cargo xtask e2e extensions                 webhooks and a metrics server in Go
  cargo xtask e2e by-hand                    webhooks of programs that run beside the cluster
  SENDO_REAL_KUBECONFIG=~/.kube/config cargo xtask e2e --keep-going
                                             are the chapters right about Kubernetes?")]
pub(crate) struct Options {
    /// Play only chapters with one of these words in their name or in a step's
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Name chapters and steps, and play nothing
    #[arg(long)]
    list: bool,
    /// How much to tell
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Build and run the optimised command
    #[arg(long)]
    release: bool,
    /// Go on with a chapter after a step that failed
    #[arg(long)]
    keep_going: bool,
    /// How many chapters to play at a time [default: one per core, and one more]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

impl Options {
    fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or_else(|| cores() + 1, NonZero::get)
    }

    fn chooses(&self, chapter: &str, steps: &[impl AsRef<str>]) -> bool {
        let in_steps = |word: &str| steps.iter().any(|step| step.as_ref().contains(word));
        let has = |word: &String| chapter.contains(&**word) || in_steps(word);
        self.words.is_empty() || self.words.iter().any(has)
    }

    fn chapters(&self, texts: &[(&'static str, &str)]) -> anyhow::Result<Vec<Chapter>> {
        let mut chapters = Vec::new();
        for (name, text) in texts {
            let chapter = Chapter::parse(name, text)?;
            let steps: Vec<_> = chapter.steps.iter().map(|step| &step.name).collect();
            if self.chooses(name, &steps) {
                chapters.push(chapter);
            }
        }
        Ok(chapters)
    }
}

/// Runs the chapters.
///
/// # Errors
///
/// When a step differs from what its chapter says, or nothing could be run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let alone = options.chapters(&SEQUENTIAL)?;
    let together = options.chapters(&CONCURRENT)?;
    let by_hand = options.chapters(&BY_HAND)?;
    let programs = [client_go::NAME, extensions::NAME];
    let [with_client, with_extensions] = programs.map(|name| options.chooses(name, &[""; 0]));
    if options.list {
        list(alone.iter().chain(&together).chain(&by_hand));
        let with = programs.iter().zip([with_client, with_extensions]);
        for (name, _) in with.filter(|(_, is_chosen)| *is_chosen) {
            println!("{name}: a program in Go");
        }
        return Ok(());
    }
    let chapters = alone.len() + together.len() + by_hand.len();
    if chapters == 0 && !with_client && !with_extensions {
        let words = options.words.join("`, nor `");
        bail!("no chapter and no step has `{words}` in its name; --list names them");
    }
    let kubectl = kubectl::locate()?;
    let folder = tempfile::tempdir()?;
    definitions::write(folder.path())?;
    let client = if with_client {
        client_go::build(options.release)?
    } else {
        None
    };
    let beside = match &by_hand[..] {
        [] => Vec::new(),
        _ => by_hand::build(options.release)?,
    };
    let mut called = None;
    let mut cluster = match std::env::var_os("SENDO_REAL_KUBECONFIG") {
        Some(kubeconfig) => Cluster::Real(PathBuf::from(kubeconfig)),
        None => {
            let sendo = cluster::build("sendo-cli", "sendo", options.release)?;
            if with_extensions {
                called = extensions::build(&sendo)?;
            }
            Cluster::Embedded(Server::start(&sendo, folder.path())?)
        }
    };
    let stage = Stage {
        session: Session {
            kubectl,
            kubeconfig: cluster.kubeconfig().to_owned(),
            cache: folder.path().join("kubectl-cache"),
            folder: folder.path().to_owned(),
        },
        folder: folder.path(),
        run: seconds_since_1970()?,
        embedded: matches!(cluster, Cluster::Embedded(_)),
        keep_going: options.keep_going,
    };
    let mut report = Report::new(options.output);
    if let Cluster::Embedded(server) = &mut cluster {
        let began = Instant::now();
        server.wait_until_ready(&stage.session)?;
        let step = Step::new("is ready", began, StepResult::Passed);
        report.end("sendo up", began.elapsed(), &[step]);
    }
    let report = Mutex::new(report);
    play(&stage, &alone, 1, &report);
    thread::scope(|scope| {
        // It waits for leases most of the time, while other chapters are played.
        if with_client {
            scope.spawn(|| {
                report_chapter(&report, client_go::NAME, || {
                    client_go::run(client.as_ref(), &stage)
                });
            });
        }
        play(&stage, &together, options.jobs(), &report);
    });
    for chapter in &by_hand {
        report_chapter(&report, by_hand::NAME, || {
            by_hand::run(&beside, chapter, &stage)
        });
    }
    // It registers a node, which the other chapters would see.
    if with_extensions {
        report_chapter(&report, extensions::NAME, || {
            extensions::run(called.as_ref(), &stage)
        });
    }
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Cluster::Embedded(server) = cluster {
        stop(server, &mut report);
    }
    report.finish()
}

/// Plays chapters, so many at a time.
fn play(stage: &Stage<'_>, chapters: &[Chapter], jobs: usize, report: &Mutex<Report>) {
    let left = Mutex::new(chapters.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..jobs.min(chapters.len()) {
            scope.spawn(|| {
                while let Some(chapter) = next() {
                    report_chapter(report, chapter.name, || stage.play(chapter));
                }
            });
        }
    });
}

fn report_chapter(report: &Mutex<Report>, chapter: &str, play: impl FnOnce() -> Vec<Step>) {
    let report = || report.lock().unwrap_or_else(PoisonError::into_inner);
    report().begin(chapter);
    let began = Instant::now();
    let steps = play();
    report().end(chapter, began.elapsed(), &steps);
}

fn stop(server: Server, report: &mut Report) {
    if report.has_failures() {
        println!("\nsendo up said:\n{}", server.log());
    }
    let began = Instant::now();
    let result = match server.stop() {
        Ok(()) => StepResult::Passed,
        Err(error) => StepResult::Failed(format!("{error:#}")),
    };
    let step = Step::new("ends on SIGTERM", began, result);
    report.end("sendo up", began.elapsed(), &[step]);
}

fn list<'a>(chapters: impl Iterator<Item = &'a Chapter>) {
    for chapter in chapters {
        println!("{} ({} steps)", chapter.name, chapter.steps.len());
        for step in &chapter.steps {
            println!("    {}", step.name);
        }
    }
}

fn seconds_since_1970() -> anyhow::Result<String> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(time.as_secs().to_string())
}
