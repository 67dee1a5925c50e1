//! Plays a chapter on a cluster, step by step.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::chapter::{Action, Chapter, Line, Step};
use super::pattern::{Comparison, Names, Pattern, fill};
use super::report::Report;
use super::session::{INTERVAL, Outcome, Running, Session};

/// How long a command in an `eventually` block is repeated, and how long one in
/// the background may take to print what is expected.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where chapters are played, and how.
pub(super) struct Stage<'a> {
    /// An administrator of the cluster.
    pub(super) session: Session,
    /// For files of the chapters.
    pub(super) folder: &'a Path,
    /// Ends the names of namespaces, so that no two runs share one.
    pub(super) run: String,
    /// Whether the cluster is a `sendo up`.
    pub(super) embedded: bool,
    /// Whether a chapter goes on after a step that failed.
    pub(super) keep_going: bool,
}

impl Stage<'_> {
    /// Plays a chapter in a namespace of its own.
    pub(super) fn play(&self, chapter: &Chapter, report: &mut Report) {
        let began = Instant::now();
        let mut play = match Play::begin(chapter, self) {
            Ok(play) => play,
            Err(error) => {
                return report.failed(chapter.name, "a namespace", began, &format!("{error:#}"));
            }
        };
        let mut broken = false;
        for step in &chapter.steps {
            if step.mode.embedded && !self.embedded {
                report.skipped(chapter.name, &step.name, "holds for sendo up only");
                continue;
            }
            if broken && !self.keep_going && !step.mode.cleanup {
                report.skipped(chapter.name, &step.name, "after a failure");
                continue;
            }
            let began = Instant::now();
            let how = match play.step(step) {
                Ok(None) => {
                    report.ok(chapter.name, &step.name, began);
                    continue;
                }
                Ok(Some(difference)) => difference.to_string(),
                Err(error) => format!("{error:#}"),
            };
            broken = true;
            report.failed(chapter.name, &step.name, began, &how);
        }
        let began = Instant::now();
        if let Err(error) = play.end() {
            report.failed(chapter.name, "its end", began, &format!("{error:#}"));
        }
    }
}

/// A chapter's namespace, and what its steps have kept so far.
struct Play<'a> {
    chapter: &'a Chapter,
    session: Session,
    names: Names,
    background: Option<Background>,
}

/// A command that goes on while others run.
struct Background {
    running: Running,
    /// How many bytes of its output were compared already.
    seen: usize,
}

/// A command that did not do as the chapter says.
struct Difference {
    at: String,
    command: String,
    expected: Vec<String>,
    /// How many of the expected lines were found.
    agreed: usize,
    expected_exit: i32,
    got: Outcome,
}

impl<'a> Play<'a> {
    /// Makes a namespace for the chapter, and a kubeconfig that names
    /// it, so that commands need not.
    ///
    /// # Errors
    ///
    /// When the cluster does not make the namespace, or its service account.
    fn begin(chapter: &'a Chapter, stage: &Stage<'_>) -> anyhow::Result<Self> {
        let namespace = format!("e2e-{}-{}", chapter.name, stage.run);
        let file = format!("{}.kubeconfig", chapter.name);
        let session = Session {
            kubectl: stage.session.kubectl.clone(),
            kubeconfig: stage.folder.join(file),
            cache: stage.session.cache.clone(),
        };
        let flat = succeed(&stage.session, &["config", "view", "--raw", "--flatten"])?;
        fs::write(&session.kubeconfig, flat)?;
        let context = format!("--namespace={namespace}");
        succeed(&session, &["config", "set-context", "--current", &context])?;
        succeed(&session, &["create", "namespace", &namespace])?;
        // Pods are refused before the controllers have made the account.
        let account = ["wait", "--for=create", "serviceaccount/default"];
        succeed(&session, &account)?;
        Ok(Self {
            chapter,
            session,
            names: Names::from([("ns".to_owned(), namespace)]),
            background: None,
        })
    }

    /// Runs a step up to its first difference.
    ///
    /// # Errors
    ///
    /// When a command cannot be run or does not end.
    fn step(&mut self, step: &Step) -> anyhow::Result<Option<Difference>> {
        for line in &step.commands {
            let at = || format!("{}.md:{}", self.chapter.name, line.number);
            let context = || format!("{}: $ {}", at(), line.text);
            let began = Instant::now();
            loop {
                let repeat = step.mode.eventually && began.elapsed() < PATIENCE;
                match self.line(line).with_context(context)? {
                    Some(_) if repeat => thread::sleep(INTERVAL),
                    Some(difference) => return Ok(Some(difference)),
                    None => break,
                }
            }
        }
        Ok(None)
    }

    fn line(&mut self, line: &Line) -> anyhow::Result<Option<Difference>> {
        let expected = Pattern::new(&line.expected, &self.names)?;
        let (got, comparison) = match &line.action {
            Action::Run { words, input } => {
                let words: Vec<_> = words.iter().map(|word| fill(word, &self.names)).collect();
                let got = self.session.run(&words, &fill(input, &self.names))?;
                let comparison = expected.compare(&got.printed);
                (got, comparison)
            }
            Action::Start { words } => {
                let words: Vec<_> = words.iter().map(|word| fill(word, &self.names)).collect();
                let mut background = Background {
                    running: self.session.start(&words, "")?,
                    seen: 0,
                };
                let compared = background.until(&expected);
                self.background = Some(background);
                compared
            }
            Action::Foreground { stop } => {
                let background = self.background.as_mut();
                let background = background.context("nothing is in the background")?;
                let compared = background.until(&expected);
                if *stop {
                    background.running.interrupt()?;
                    self.background = None;
                }
                compared
            }
        };
        let agreed = match comparison {
            Comparison::Equal(kept) if got.exit == line.exit => {
                self.names.extend(kept);
                return Ok(None);
            }
            Comparison::Equal(_) => line.expected.len(),
            Comparison::Different(agreed) => agreed,
        };
        Ok(Some(Difference {
            at: format!("{}.md:{}", self.chapter.name, line.number),
            command: fill(&line.text, &self.names),
            expected: line.expected.clone(),
            agreed,
            expected_exit: line.exit,
            got,
        }))
    }

    /// Deletes the namespace; the cluster empties it in its own time.
    ///
    /// # Errors
    ///
    /// When the cluster refuses.
    fn end(self) -> anyhow::Result<()> {
        let namespace = &self.names["ns"];
        let words = ["delete", "namespace", namespace, "--wait=false"];
        succeed(&self.session, &words).map(drop)
    }
}

impl Background {
    /// Waits until it has printed, since the last time, what is expected.
    fn until(&mut self, expected: &Pattern) -> (Outcome, Comparison) {
        let began = Instant::now();
        loop {
            let length = self.running.length();
            let printed = self.running.printed(self.seen);
            let comparison = expected.compare(&printed);
            let equal = matches!(comparison, Comparison::Equal(_));
            if equal || began.elapsed() > PATIENCE {
                self.seen = length;
                return (Outcome { printed, exit: 0 }, comparison);
            }
            thread::sleep(INTERVAL);
        }
    }
}

fn succeed(session: &Session, words: &[&str]) -> anyhow::Result<String> {
    let outcome = session.run(words, "")?;
    if outcome.exit != 0 {
        bail!(
            "kubectl {}: {}",
            words.join(" "),
            outcome.printed.trim_end()
        );
    }
    Ok(outcome.printed)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: $ {}", self.at, self.command)?;
        writeln!(f, "expected (exit {}):", self.expected_exit)?;
        for (place, line) in self.expected.iter().enumerate() {
            // The arrow points at the first line that was not found.
            let mark = if place == self.agreed { "->" } else { "  " };
            writeln!(f, " {mark} {line}")?;
        }
        writeln!(f, "got (exit {}):", self.got.exit)?;
        for line in self.got.printed.lines() {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}
