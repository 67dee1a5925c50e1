//! A line per step, and the sum at the end.

use std::fmt::Display;
use std::time::Instant;

use anyhow::bail;

/// What came of the steps so far.
#[derive(Default)]
pub(super) struct Report {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    /// A step did as it says.
    pub(super) fn ok(&mut self, chapter: &str, step: &str, began: Instant) {
        self.passed += 1;
        line("ok", chapter, step, began);
    }

    /// A step did not, and how.
    pub(super) fn failed(&mut self, chapter: &str, step: &str, began: Instant, how: &dyn Display) {
        self.failed += 1;
        line("FAILED", chapter, step, began);
        println!();
        for text in how.to_string().lines() {
            println!("    {text}");
        }
        println!();
    }

    /// A step was not run.
    pub(super) fn skipped(&mut self, chapter: &str, step: &str, why: &str) {
        self.skipped += 1;
        println!("{:<8} {:>9}  {chapter}: {step} ({why})", "skipped", "");
    }

    /// Whether a step failed.
    pub(super) fn has_failures(&self) -> bool {
        self.failed > 0
    }

    /// Prints the sum.
    ///
    /// # Errors
    ///
    /// When a step failed.
    pub(super) fn finish(&self, began: Instant) -> anyhow::Result<()> {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        println!(
            "\n{passed} steps passed, {failed} failed, {skipped} skipped in {:.1} s",
            began.elapsed().as_secs_f64()
        );
        if *failed > 0 {
            bail!("{failed} steps failed");
        }
        Ok(())
    }
}

fn line(result: &str, chapter: &str, step: &str, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{result:<8} {seconds:>7.2} s  {chapter}: {step}");
}
