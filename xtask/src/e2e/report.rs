//! The report on the results of the steps, by chapter.

use std::io::{IsTerminal as _, Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::ValueEnum;

/// How much is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A line per chapter, and all about what failed
    #[default]
    Chapters,
    /// A line per step as well
    Steps,
}

/// A step that has ended, or was skipped.
pub(super) struct Step {
    /// Its heading.
    pub(super) name: String,
    /// How long it took.
    pub(super) took: Duration,
    /// Its result.
    pub(super) result: StepResult,
}

/// The result of a step.
pub(super) enum StepResult {
    /// It did as it says.
    Passed,
    /// It did not, and how.
    Failed(String),
    /// It was not run, and why.
    Skipped(String),
}

impl Step {
    /// A step that began then and is over now.
    pub(super) fn new(name: &str, began: Instant, result: StepResult) -> Self {
        Self {
            name: name.to_owned(),
            took: began.elapsed(),
            result,
        }
    }

    /// A step that is not run.
    pub(super) fn skipped(name: &str, why: &str) -> Self {
        Self::new(name, Instant::now(), StepResult::Skipped(why.to_owned()))
    }
}

/// The results of the chapters so far.
pub(super) struct Report {
    output: Output,
    /// Whether a line can be written over.
    terminal: bool,
    began: Instant,
    /// The chapters that are being played.
    playing: Vec<String>,
    sum: Count,
}

#[derive(Default, Clone, Copy)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    /// Begins to count.
    pub(super) fn new(output: Output) -> Self {
        Self {
            output,
            terminal: stdout().is_terminal(),
            began: Instant::now(),
            playing: Vec::new(),
            sum: Count::default(),
        }
    }

    /// A chapter is being played.
    pub(super) fn begin(&mut self, chapter: &str) {
        self.playing.push(chapter.to_owned());
        self.show_progress();
    }

    /// A chapter is over.
    pub(super) fn end(&mut self, chapter: &str, took: Duration, steps: &[Step]) {
        self.playing.retain(|playing| playing != chapter);
        self.clear_progress();
        let count = Count::from_steps(steps);
        let result = match count {
            Count { failed: 1.., .. } => "FAILED",
            Count { passed: 0, .. } => "skipped",
            _ => "ok",
        };
        line(result, took, &format!("{chapter}: {}", count.words()));
        for step in steps {
            match &step.result {
                StepResult::Failed(how) => {
                    line("  FAILED", step.took, &step.name);
                    println!();
                    how.lines().for_each(|text| println!("      {text}"));
                    println!();
                }
                StepResult::Skipped(why) if self.output == Output::Steps || count.passed == 0 => {
                    println!("{:<10}{:>7}    {} ({why})", "  skipped", "", step.name);
                }
                StepResult::Passed if self.output == Output::Steps => {
                    line("  ok", step.took, &step.name);
                }
                StepResult::Skipped(_) | StepResult::Passed => {}
            }
        }
        self.sum.passed += count.passed;
        self.sum.failed += count.failed;
        self.sum.skipped += count.skipped;
        self.show_progress();
    }

    /// Whether a step failed.
    pub(super) fn has_failures(&self) -> bool {
        self.sum.failed > 0
    }

    /// Prints the sum.
    ///
    /// # Errors
    ///
    /// When a step failed.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let seconds = self.began.elapsed().as_secs_f64();
        println!("\n{} in {seconds:.1} s", self.sum.words());
        match self.sum.failed {
            0 => Ok(()),
            1 => bail!("a step failed"),
            failed => bail!("{failed} steps failed"),
        }
    }

    fn show_progress(&self) {
        if self.terminal && !self.playing.is_empty() {
            print!("…         playing {}", self.playing.join(", "));
            stdout().flush().ok();
        }
    }

    fn clear_progress(&self) {
        if self.terminal {
            print!("\r\x1b[K");
        }
    }
}

impl Count {
    fn from_steps(steps: &[Step]) -> Self {
        let mut count = Self::default();
        for step in steps {
            match step.result {
                StepResult::Passed => count.passed += 1,
                StepResult::Failed(_) => count.failed += 1,
                StepResult::Skipped(_) => count.skipped += 1,
            }
        }
        count
    }

    fn words(self) -> String {
        let named = [
            (self.passed, "passed"),
            (self.failed, "failed"),
            (self.skipped, "skipped"),
        ];
        let some = named.iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> = some
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        match words.is_empty() {
            true => "no step".to_owned(),
            false => words.join(", "),
        }
    }
}

fn line(result: &str, took: Duration, text: &str) {
    println!("{result:<10}{:>7.2} s  {text}", took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_zero_are_not_printed() {
        let began = Instant::now();
        let passed = || Step::new("a", began, StepResult::Passed);
        assert_eq!(Count::from_steps(&[passed(), passed()]).words(), "2 passed");
        let failed = Step::new("b", began, StepResult::Failed("how".to_owned()));
        let steps = [passed(), failed, Step::skipped("c", "after a failure")];
        assert_eq!(
            Count::from_steps(&steps).words(),
            "1 passed, 1 failed, 1 skipped"
        );
        assert_eq!(Count::from_steps(&[]).words(), "no step");
    }
}
