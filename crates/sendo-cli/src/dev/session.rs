//! A session: from the first build to the end of everything.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant as Moment, sleep_until};

use super::build::{Build, Built};
use super::cluster::Chosen;
use super::event::{Event, Key};
use super::keys::Keys;
use super::lines::{Lines, Source};
use super::metadata::Metadata;
use super::program::Program;
use super::sources::Sources;
use super::{Dev, objects, samples, webhooks};
use crate::api::Api;
use crate::project::Project;

/// How long files have to stay as they are before the program is built: editors write several, or
/// one several times.
const QUIET: Duration = Duration::from_millis(60);

/// What happens next in a session.
enum Next {
    Event(Event),
    Build(Result<Built>),
    Quiet,
    Ready,
    Ended(Result<ExitStatus>),
    Stop,
}

/// The state of a session.
pub(super) struct Session<'a> {
    dev: &'a Dev,
    project: &'a Project,
    cluster: Chosen,
    lines: &'a Lines,
    api: Api,
    build: Option<Build>,
    /// The program that was built last.
    built: Option<PathBuf>,
    program: Option<Program>,
    /// When the sources changed that nothing was built from yet.
    build_at: Option<Moment>,
    /// The first change that is not live yet.
    changed: Option<Instant>,
    samples_applied: bool,
}

impl<'a> Session<'a> {
    /// Runs until a signal or a key ends it.
    pub(super) async fn run(
        dev: &'a Dev,
        project: &'a Project,
        metadata: &Metadata,
        cluster: Chosen,
        lines: &'a Lines,
    ) -> Result<()> {
        let connection = cluster.flags.connect().await?;
        if dev.kubeconfig.is_some() {
            lines.say(
                Source::Dev,
                format!("on the cluster {}", connection.address),
            );
        }
        if cluster.webhooks_at.is_none() {
            lines.say(Source::Dev, "webhooks are left out: to have that cluster call them, name an address of this machine that it reaches with --webhook-host HOST");
        }
        let (sender, events) = channel(64);
        let _sources = Sources::watch(metadata, &project.root, sender.clone())?;
        let keys = Keys::read(sender);
        if keys.is_some() {
            lines.say(Source::Dev, KEYS);
        }
        let mut session = Session {
            dev,
            project,
            cluster,
            lines,
            api: connection.api,
            build: Some(Build::start(project, lines)?),
            built: None,
            program: None,
            build_at: None,
            changed: None,
            samples_applied: false,
        };
        let outcome = session.work(events).await;
        drop(keys);
        tokio::select! {
            ended = session.end() => outcome.and(ended),
            // A second one does not wait.
            _ = stop_signal() => outcome,
        }
    }

    /// Stops the program, and has the cluster forget it.
    async fn end(&mut self) -> Result<()> {
        self.build = None;
        if let Some(program) = self.program.take() {
            self.lines.say(Source::Dev, "stopping the program");
            program.stop(self.lines).await?;
        }
        if let Some(address) = &self.cluster.webhooks_at {
            webhooks::forget(&self.api, address, self.lines).await;
        }
        Ok(())
    }

    async fn work(&mut self, mut events: Receiver<Event>) -> Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            let next = tokio::select! {
                biased;
                _ = interrupt.recv() => Next::Stop,
                _ = terminate.recv() => Next::Stop,
                Some(event) = events.recv() => Next::Event(event),
                built = ended_build(&mut self.build) => Next::Build(built),
                () = quiet(self.build_at) => Next::Quiet,
                next = ended_or_ready(&mut self.program) => next,
            };
            match next {
                Next::Stop | Next::Event(Event::Key(Key::Quit)) => return Ok(()),
                Next::Event(event) => self.react(event).await?,
                Next::Quiet => {
                    self.build_at = None;
                    // A build of what was there before is of no use any more.
                    self.build = None;
                    self.build = Some(Build::start(self.project, self.lines)?);
                }
                Next::Build(built) => {
                    self.build = None;
                    self.take(built?).await?;
                }
                Next::Ready => self.tell_ready().await,
                Next::Ended(status) => self.tell_ended(status?),
            }
        }
    }

    async fn react(&mut self, event: Event) -> Result<()> {
        match event {
            Event::SourceChanged(path) => {
                if self.build_at.is_none() {
                    let path = path.strip_prefix(&self.project.root).unwrap_or(&path);
                    self.lines
                        .say(Source::Dev, format!("{} changed", path.display()));
                }
                self.changed.get_or_insert_with(Instant::now);
                self.build_at = Some(Moment::now() + QUIET);
            }
            Event::SamplesChanged if self.dev.samples && self.samples_applied => {
                samples::apply(&mut self.api, &self.project.root, self.lines).await;
            }
            Event::SamplesChanged => {}
            Event::Key(Key::Samples) => {
                samples::apply(&mut self.api, &self.project.root, self.lines).await;
            }
            Event::Key(Key::Objects) => match &self.built {
                Some(program) => objects::show(&self.api, program, self.lines).await,
                None => self.lines.say(Source::Dev, "nothing has been built yet"),
            },
            Event::Key(Key::Restart) => match self.built.is_some() {
                true => self.restart().await?,
                false => self.lines.say(Source::Dev, "nothing has been built yet"),
            },
            Event::Key(Key::Help | Key::Quit) => self.lines.say(Source::Dev, KEYS),
        }
        Ok(())
    }

    /// Runs what was built.
    async fn take(&mut self, built: Built) -> Result<()> {
        match built {
            Built::Done { program, took } => {
                self.lines
                    .say(Source::Dev, format!("built in {}", seconds(took)));
                self.built = Some(program);
                self.restart().await
            }
            Built::Failed => {
                let what = match self.program.is_some() {
                    true => "the build failed: the program runs on as it was",
                    false => "the build failed: it is tried again when a file changes",
                };
                self.lines.say(Source::Dev, what);
                Ok(())
            }
        }
    }

    async fn restart(&mut self) -> Result<()> {
        if let Some(program) = self.program.take() {
            program.stop(self.lines).await?;
        }
        let Some(path) = &self.built else {
            return Ok(());
        };
        let started = Program::start(path, &self.cluster, &self.dev.flags, self.lines).await?;
        self.program = Some(started);
        Ok(())
    }

    async fn tell_ready(&mut self) {
        let Some(program) = &mut self.program else {
            return;
        };
        program.is_ready = true;
        let up = program.began.elapsed();
        let what = match self.changed.take() {
            Some(changed) => format!("live {} after the change", seconds(changed.elapsed())),
            None => format!("the program is ready, {} after its start", seconds(up)),
        };
        self.lines.say(Source::Dev, what);
        if self.dev.samples && !self.samples_applied {
            self.samples_applied = true;
            samples::apply(&mut self.api, &self.project.root, self.lines).await;
        }
    }

    fn tell_ended(&mut self, status: ExitStatus) {
        let ran = self.program.take().map(|program| program.began.elapsed());
        let ran = seconds(ran.unwrap_or_default());
        let what = format!(
            "the program ended {ran} after its start ({status}), for the reason above; it starts again when a file changes"
        );
        self.lines.say(Source::Dev, what);
    }
}

const KEYS: &str = "keys: r restart   s samples   o objects   q quit";

/// For people: `1.2 s`, or `300 ms`.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

async fn ended_build(build: &mut Option<Build>) -> Result<Built> {
    match build {
        Some(build) => build.ended().await,
        None => std::future::pending().await,
    }
}

async fn quiet(until: Option<Moment>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn ended_or_ready(program: &mut Option<Program>) -> Next {
    let Some(program) = program else {
        return std::future::pending().await;
    };
    if program.is_ready {
        return Next::Ended(program.ended().await);
    }
    match program.ready_or_ended().await {
        Ok(None) => Next::Ready,
        Ok(Some(status)) => Next::Ended(Ok(status)),
        Err(error) => Next::Ended(Err(error)),
    }
}

async fn stop_signal() -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
