//! `cargo xtask e2e`: drives a real kubectl against a cluster over TLS.
//!
//! The steps are in `e2e/chapters`: Markdown with commands and what they print
//! (see [`chapter`]), written from what Kubernetes and kubectl document. They
//! run on a `sendo up` of this workspace; with `SENDO_REAL_KUBECONFIG` set they
//! run on that cluster instead, which shows whether the steps are right.

mod apt;
mod chapter;
mod cluster;
mod kubectl;
mod pattern;
mod play;
mod report;
mod session;

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::bail;
use clap::Args;

use chapter::Chapter;
use cluster::{Cluster, Server};
use play::Stage;
use report::Report;
use session::Session;

/// In the order in which they are run, each on its own.
const CHAPTERS: [(&str, &str); 13] = [
    ("cluster", include_str!("e2e/chapters/cluster.md")),
    ("namespaces", include_str!("e2e/chapters/namespaces.md")),
    ("replicasets", include_str!("e2e/chapters/replicasets.md")),
    ("rollouts", include_str!("e2e/chapters/rollouts.md")),
    ("nodes", include_str!("e2e/chapters/nodes.md")),
    ("formats", include_str!("e2e/chapters/formats.md")),
    ("watch", include_str!("e2e/chapters/watch.md")),
    ("making", include_str!("e2e/chapters/making.md")),
    ("editing", include_str!("e2e/chapters/editing.md")),
    ("apply", include_str!("e2e/chapters/apply.md")),
    (
        "custom-resources",
        include_str!("e2e/chapters/custom-resources.md"),
    ),
    ("explain", include_str!("e2e/chapters/explain.md")),
    ("errors", include_str!("e2e/chapters/errors.md")),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Run only chapters with this text in their name or in a step's
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Build and run the optimised command
    #[arg(long)]
    release: bool,
    /// Go on with a chapter after a step that failed
    #[arg(long)]
    keep_going: bool,
}

/// Runs the chapters.
///
/// # Errors
///
/// When a step differs from what its chapter says, or nothing could be run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let chapters = chapters(&options.filter)?;
    let kubectl = kubectl::locate()?;
    let folder = tempfile::tempdir()?;
    let mut cluster = match std::env::var_os("SENDO_REAL_KUBECONFIG") {
        Some(kubeconfig) => Cluster::Real(PathBuf::from(kubeconfig)),
        None => {
            let sendo = cluster::build(options.release)?;
            Cluster::Embedded(Server::start(&sendo, folder.path())?)
        }
    };
    let stage = Stage {
        session: Session {
            kubectl,
            kubeconfig: cluster.kubeconfig().to_owned(),
            cache: folder.path().join("kubectl-cache"),
        },
        folder: folder.path(),
        run: seconds_since_1970()?,
        embedded: matches!(cluster, Cluster::Embedded(_)),
        keep_going: options.keep_going,
    };
    let mut report = Report::default();
    let began = Instant::now();
    if let Cluster::Embedded(server) = &mut cluster {
        server.wait_until_ready(&stage.session)?;
        report.ok("sendo up", "is ready", began);
    }
    for chapter in &chapters {
        stage.play(chapter, &mut report);
    }
    if let Cluster::Embedded(server) = cluster {
        stop(server, &mut report);
    }
    report.finish(began)
}

fn stop(server: Server, report: &mut Report) {
    if report.has_failures() {
        println!("\nsendo up said:\n{}", server.log());
    }
    let began = Instant::now();
    match server.stop() {
        Ok(()) => report.ok("sendo up", "ends on SIGTERM", began),
        Err(error) => report.failed("sendo up", "ends on SIGTERM", began, &format!("{error:#}")),
    }
}

fn seconds_since_1970() -> anyhow::Result<String> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(time.as_secs().to_string())
}

fn chapters(filter: &str) -> anyhow::Result<Vec<Chapter>> {
    let chapters = CHAPTERS.map(|(name, text)| Chapter::parse(name, text));
    let chapters: Vec<_> = chapters.into_iter().collect::<Result<_, _>>()?;
    let chosen = |chapter: &Chapter| {
        let mut steps = chapter.steps.iter();
        chapter.name.contains(filter) || steps.any(|step| step.name.contains(filter))
    };
    let chapters: Vec<_> = chapters.into_iter().filter(chosen).collect();
    if chapters.is_empty() {
        bail!("no chapter and no step has {filter:?} in its name");
    }
    Ok(chapters)
}
