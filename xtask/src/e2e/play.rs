//! Plays a chapter on a cluster, step by step.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use super::chapter::{Action, Chapter, Invocation, Line, Mode, Step};
use super::difference::Difference;
use super::pattern::{Names, Pattern, fill};
use super::report::{self, StepResult};
use super::session::{CommandOutput, INTERVAL, Running, Session};

/// How long a command in an `eventually` block is repeated, and how long one in
/// the background may take to print what is expected.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The cluster and the options with which chapters are played.
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
    pub(super) fn play(&self, chapter: &Chapter) -> Vec<report::Step> {
        let began = Instant::now();
        let mut play = match Play::begin(chapter, self) {
            Ok(play) => play,
            Err(error) => return vec![failed("a namespace", began, &error)],
        };
        let mut steps = Vec::new();
        let mut broken = false;
        for step in &chapter.steps {
            if step.mode.embedded && !self.embedded {
                steps.push(report::Step::skipped(&step.name, "holds for sendo up only"));
                continue;
            }
            if broken && !self.keep_going && !step.mode.cleanup {
                steps.push(report::Step::skipped(&step.name, "after a failure"));
                continue;
            }
            let began = Instant::now();
            let result = play.step(step);
            broken |= result.is_err();
            steps.push(match result {
                Ok(()) => report::Step::new(&step.name, began, StepResult::Passed),
                Err(error) => failed(&step.name, began, &error),
            });
        }
        let began = Instant::now();
        if let Err(error) = play.end() {
            steps.push(failed("its end", began, &error));
        }
        steps
    }
}

/// With the items of each list in order.
fn sorted(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    let is_item = |line: &String| line.starts_with("* ");
    for list in lines.chunk_by_mut(|a, b| is_item(a) && is_item(b)) {
        list.sort();
    }
    lines
}

fn failed(name: &str, began: Instant, error: &anyhow::Error) -> report::Step {
    report::Step::new(name, began, StepResult::Failed(format!("{error:#}")))
}

/// A chapter's namespace, and the names that its steps have kept so far.
struct Play<'a> {
    chapter: &'a Chapter,
    session: Session,
    names: Names,
    background: Option<Background>,
}

/// A command that runs in the background.
struct Background {
    running: Running,
    /// How many bytes of its output were compared already.
    seen: usize,
}

impl<'a> Play<'a> {
    /// Makes a namespace and a folder for the chapter, and a kubeconfig that
    /// names the namespace, so that commands need not.
    ///
    /// # Errors
    ///
    /// When the cluster does not make the namespace, or its service account.
    fn begin(chapter: &'a Chapter, stage: &Stage<'_>) -> anyhow::Result<Self> {
        let namespace = format!("e2e-{}-{}", chapter.name, stage.run);
        let folder = stage.folder.join(chapter.name);
        fs::create_dir(&folder)?;
        let session = Session {
            kubectl: stage.session.kubectl.clone(),
            kubeconfig: stage.folder.join(format!("{}.kubeconfig", chapter.name)),
            // Of its own too: what is learned of kinds in one chapter is
            // wrong in the next.
            cache: stage.folder.join(format!("{}.cache", chapter.name)),
            folder,
        };
        let flat = stage
            .session
            .succeed(&["config", "view", "--raw", "--flatten"])?;
        fs::write(&session.kubeconfig, flat)?;
        let context = format!("--namespace={namespace}");
        session.succeed(&["config", "set-context", "--current", &context])?;
        session.succeed(&["create", "namespace", &namespace])?;
        // Pods are refused before the controllers have made the account.
        session.succeed(&["wait", "--for=create", "serviceaccount/default"])?;
        Ok(Self {
            chapter,
            session,
            names: Names::from([("ns".to_owned(), namespace)]),
            background: None,
        })
    }

    /// Runs a step.
    ///
    /// # Errors
    ///
    /// When a command does other than the chapter says, does not end, or
    /// cannot be run at all.
    fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        for line in &step.commands {
            let began = Instant::now();
            while let Err(error) = self.line(line, step.mode) {
                if !step.mode.eventually || began.elapsed() > TIMEOUT {
                    let at = format!("{}.md:{}", self.chapter.name, line.number);
                    let command = fill(&line.text, &self.names);
                    return Err(anyhow!("{at}\n$ {command}\n{error:#}"));
                }
                thread::sleep(INTERVAL);
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &Line, mode: Mode) -> anyhow::Result<()> {
        let expected = match mode.unordered {
            true => Pattern::new(&sorted(&line.expected), &self.names)?,
            false => Pattern::new(&line.expected, &self.names)?,
        };
        let mut got = match &line.action {
            Action::Run(invocation) => self.session.run(self.filled(invocation))?,
            Action::Start(invocation) => {
                let running = self.session.start(self.filled(invocation))?;
                let background = self.background.insert(Background { running, seen: 0 });
                background.until(&expected)
            }
            Action::Foreground { stop } => {
                let background = self.background.as_mut();
                let background = background.context("nothing is in the background")?;
                let got = background.until(&expected);
                if *stop {
                    background.running.interrupt()?;
                    self.background = None;
                }
                got
            }
            Action::Write { file, text } => {
                let path = self.session.folder.join(file);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::write(path, fill(text, &self.names))?;
                return Ok(());
            }
        };
        if mode.unordered {
            let lines: Vec<_> = got.printed.lines().map(str::to_owned).collect();
            got.printed = sorted(&lines).join("\n");
        }
        match expected.compare(&got.printed) {
            Some(kept) if got.exit == line.exit => self.names.extend(kept),
            Some(_) => bail!(
                "ended with {} instead of {}, and printed\n{}",
                got.exit,
                line.exit,
                got.printed
            ),
            None => bail!("{}", Difference::new(&expected, &got.printed)),
        }
        Ok(())
    }

    /// With the names that were kept.
    fn filled(&self, invocation: &Invocation) -> Invocation {
        let fill = |text: &String| fill(text, &self.names);
        Invocation {
            environment: invocation.environment.clone(),
            words: invocation.words.iter().map(fill).collect(),
            input: fill(&invocation.input),
        }
    }

    /// Deletes the namespace; the cluster empties it in its own time.
    ///
    /// # Errors
    ///
    /// When the cluster refuses.
    fn end(self) -> anyhow::Result<()> {
        let words = ["delete", "namespace", &self.names["ns"], "--wait=false"];
        self.session.succeed(&words).map(drop)
    }
}

impl Background {
    /// Waits until it has printed, since the last time, what is expected.
    fn until(&mut self, expected: &Pattern) -> CommandOutput {
        let began = Instant::now();
        loop {
            let length = self.running.length();
            let printed = self.running.printed(self.seen);
            if expected.compare(&printed).is_some() || began.elapsed() > TIMEOUT {
                self.seen = length;
                return CommandOutput { printed, exit: 0 };
            }
            thread::sleep(INTERVAL);
        }
    }
}
