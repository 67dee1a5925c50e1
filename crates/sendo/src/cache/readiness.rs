//! Whether the caches of a program are synced and up to date.

use std::time::Duration;

use sendo_world::Moment;

use super::state::WatchState;

/// How long the watch of a kind may fail, once it was listed, before the program
/// counts as not ready.
const FAILING_LIMIT: Duration = Duration::from_secs(60);

/// The readiness of the caches: a sentence for each watch that fails or has not synced.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// What keeps the program from being ready.
    pub(crate) obstacles: Vec<String>,
    /// Failures that do not keep the program from being ready.
    pub(crate) remarks: Vec<String>,
}

impl Readiness {
    /// Adds the state of a watch.
    ///
    /// A kind that has not been listed yet, or whose watch has failed for a minute, keeps the
    /// program from being ready: its cached objects may be outdated. A discovered kind, which the
    /// program does not name, does so only until its wait is given up.
    pub(super) fn add(&mut self, state: &WatchState, now: Moment) {
        if !state.synced {
            let sentence = state.to_string();
            return match state.is_given_up(now) {
                true => self.remarks.push(sentence),
                false => self.obstacles.push(sentence),
            };
        }
        for failure in &state.failures {
            let lasts = now.since(failure.began) >= FAILING_LIMIT;
            match lasts && !state.discovered {
                true => self.obstacles.push(failure.to_string()),
                false => self.remarks.push(failure.to_string()),
            }
        }
    }
}
