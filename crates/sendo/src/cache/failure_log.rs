//! Which failures of a watch are worth a line in the log.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use sendo_world::Moment;

use super::state::WatchError;

/// How long after a line the next one may come; twice as long each time it fails on.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The same for a failure of another sort: what is to be done about it is another thing.
const PAUSE_BEFORE_ANOTHER: Duration = Duration::from_secs(10);

/// What the log says of one watch: its first failure, then that it still fails,
/// ever less often. One that fails and recovers in turns is logged as seldom.
#[derive(Debug)]
pub(super) struct FailureLog {
    /// When and what was logged last.
    last: Option<(Moment, Discriminant<WatchError>)>,
    pause: Duration,
    /// Whether the present failure was logged.
    is_logged: bool,
}

impl Default for FailureLog {
    fn default() -> Self {
        FailureLog {
            last: None,
            pause: FIRST_PAUSE,
            is_logged: false,
        }
    }
}

impl FailureLog {
    /// Whether to log this failure.
    pub(super) fn failed(&mut self, cause: &WatchError, now: Moment) -> bool {
        let sort = discriminant(cause);
        let is_due = self.last.is_none_or(|(logged, before)| {
            let pause = match before == sort {
                true => self.pause,
                false => PAUSE_BEFORE_ANOTHER,
            };
            now.since(logged) >= pause
        });
        if is_due {
            if self.is_logged {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            self.last = Some((now, sort));
            self.is_logged = true;
        }
        is_due
    }

    /// Whether to log that nothing fails any more.
    pub(super) fn recovered(&mut self) -> bool {
        self.pause = FIRST_PAUSE;
        std::mem::take(&mut self.is_logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn refused() -> WatchError {
        WatchError::Other("connection refused".to_owned())
    }

    /// The seconds at which a failure is logged, if there is one every second.
    fn logged_at(log: &mut FailureLog, seconds: std::ops::Range<u64>) -> Vec<u64> {
        seconds
            .filter(|second| log.failed(&refused(), at(*second)))
            .collect()
    }

    #[test]
    fn a_failure_that_lasts_is_logged_ever_less_often() {
        let times = logged_at(&mut FailureLog::default(), 0..3600);
        assert_eq!(times, [0, 60, 180, 420, 900, 1500, 2100, 2700, 3300]);
    }

    #[test]
    fn one_that_comes_and_goes_is_reported_once_a_minute() {
        let mut log = FailureLog::default();
        let mut lines = 0;
        for second in 0..600 {
            lines += usize::from(log.failed(&refused(), at(second)));
            lines += usize::from(log.recovered());
        }
        assert_eq!(lines, 20);
    }

    #[test]
    fn another_sort_of_failure_is_reported_soon() {
        let mut log = FailureLog::default();
        let forbidden = WatchError::Forbidden("no".to_owned());
        assert!(log.failed(&refused(), at(0)));
        assert!(!log.failed(&forbidden, at(5)));
        assert!(log.failed(&forbidden, at(10)));
        assert!(!log.failed(&forbidden, at(30)));
    }
}
