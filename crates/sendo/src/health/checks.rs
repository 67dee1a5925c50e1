//! Named checks and their results.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::{Mutex, MutexGuard};
use sendo_world::World;

use crate::error::panic_message;

/// How long a check may take before it counts as failed.
const LIMIT: Duration = Duration::from_secs(10);

/// A set of named checks. Clones share it, and checks can be added at any time.
#[derive(Clone, Default)]
pub struct Checks {
    checks: Arc<Mutex<BTreeMap<String, Check>>>,
}

/// A check that passes may return a remark, which is empty if there is none.
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// A check of that name exists already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a check named {0} exists already: choose another name")]
pub struct CheckNameTaken(String);

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl Checks {
    /// No checks: these pass.
    pub fn new() -> Self {
        Checks::default()
    }

    /// Adds a check: a function that is called at every probe, whose error says
    /// what is wrong. One that takes longer than 10 s or panics has failed.
    ///
    /// The error is shown to whoever can reach the probes.
    pub fn add<C, F, E>(&self, name: &str, check: C) -> Result<(), CheckNameTaken>
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.add_with_remarks(name, move || {
            let result = check();
            async move {
                let result = result.await;
                result.map(|()| String::new()).map_err(|e| e.to_string())
            }
        })
    }

    /// Adds a check that may pass with a remark, which `?verbose` shows.
    pub(crate) fn add_with_remarks<C, F>(&self, name: &str, check: C) -> Result<(), CheckNameTaken>
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let mut checks = self.lock();
        if checks.contains_key(name) {
            return Err(CheckNameTaken(name.to_owned()));
        }
        let check: Check = Arc::new(move || check().boxed());
        checks.insert(name.to_owned(), check);
        Ok(())
    }

    /// Runs all checks side by side, but for those named in `exclude`.
    pub async fn run(&self, world: &World, exclude: &[&str]) -> Report {
        let checks = self.lock().clone();
        let unknown = exclude.iter().filter(|name| !checks.contains_key(**name));
        let unknown = unknown.map(|name| name.to_string()).collect();
        let parts = checks.into_iter().map(|(name, check)| async move {
            let part = if exclude.contains(&name.as_str()) {
                Part::Excluded
            } else {
                match run_check(world, &check).await {
                    Ok(remark) => Part::Passed(remark),
                    Err(cause) => Part::Failed(cause),
                }
            };
            (name, part)
        });
        let parts = join_all(parts).await;
        Report { parts, unknown }
    }

    /// Runs the check of that name; `None` if there is none.
    pub(super) async fn run_one(&self, world: &World, name: &str) -> Option<Result<(), String>> {
        let check = self.lock().get(name).cloned()?;
        Some(run_check(world, &check).await.map(drop))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Check>> {
        self.checks.lock()
    }
}

async fn run_check(world: &World, check: &Check) -> Result<String, String> {
    let check = AssertUnwindSafe(async { check().await }).catch_unwind();
    match world.clock().timeout(LIMIT, check).await {
        Some(Ok(result)) => result,
        Some(Err(panic)) => Err(format!("the check panicked: {}", panic_message(&*panic))),
        None => Err(format!("no answer after {} s", LIMIT.as_secs())),
    }
}

/// The results of a set of checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    parts: Vec<(String, Part)>,
    unknown: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// With a remark, or an empty text.
    Passed(String),
    Excluded,
    Failed(String),
}

impl Report {
    /// Whether no check failed.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The checks that failed, by name, with their causes.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().filter_map(|(name, part)| match part {
            Part::Failed(cause) => Some((name.as_str(), cause.as_str())),
            _ => None,
        })
    }

    /// One line per check, by name, and one about exclusions that matched nothing.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        for (name, part) in &self.parts {
            match part {
                Part::Passed(remark) if remark.is_empty() => writeln!(lines, "[+]{name} ok"),
                Part::Passed(remark) => writeln!(lines, "[+]{name} ok: {remark}"),
                Part::Excluded => writeln!(lines, "[+]{name} excluded: ok"),
                Part::Failed(cause) => writeln!(lines, "[-]{name} failed: {cause}"),
            }
            .expect("a string takes any text");
        }
        if !self.unknown.is_empty() {
            let quoted: Vec<String> = self
                .unknown
                .iter()
                .map(|name| format!("{name:?}"))
                .collect();
            let names = quoted.join(",");
            lines += "warn: some health checks cannot be excluded: no matches for ";
            lines += &names;
            lines.push('\n');
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_or_panics_has_failed_and_delays_no_other() {
        let world = World::seeded(1);
        let checks = Checks::new();
        let hang = || std::future::pending::<Result<(), String>>();
        checks.add("hangs", hang).unwrap();
        checks.add("also-hangs", hang).unwrap();
        let panics = || async { panic!("at {}", 1) };
        checks.add::<_, _, String>("panics", panics).unwrap();
        let before = world.clock().now();
        let report = checks.run(&world, &[]).await;
        assert_eq!(world.clock().now() - before, LIMIT);
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(
            failures,
            [
                ("also-hangs", "no answer after 10 s"),
                ("hangs", "no answer after 10 s"),
                ("panics", "the check panicked: at 1"),
            ]
        );
    }

    #[tokio::test]
    async fn a_name_is_given_once() {
        let checks = Checks::new();
        let fine = || async { Ok::<(), String>(()) };
        assert_eq!(checks.add("a", fine), Ok(()));
        assert_eq!(checks.add("a", fine), Err(CheckNameTaken("a".into())));
    }
}
