//! Whether a program's caches are what its work can rely on.

use std::time::Duration;

use sendo_world::Moment;

use super::state::WatchState;

/// How long the watch of a kind may fail, once it was listed, before the program
/// counts as not ready.
const FAILING_LIMIT: Duration = Duration::from_secs(60);

/// What readiness reports of the caches, one sentence for each watch in trouble.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// What keeps the program from being ready.
    pub(crate) obstacles: Vec<String>,
    /// What fails as well, and does not.
    pub(crate) remarks: Vec<String>,
}

impl Readiness {
    /// Takes in the state of a watch.
    ///
    /// In the way is a kind that has not been listed yet, and one whose watch has
    /// failed for a minute: what is cached of it may be long untrue. A kind that
    /// the program does not name itself is in the way only while it is waited for.
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
