//! Which requests are sent again, and when.

use std::time::Duration;

use sendo_world::Random;

use super::error::Error;
use super::request::Request;

/// How often a server may say "later" before it is believed that it means "no".
const TOLD_TO_WAIT: u32 = 10;

/// How often a read is tried that gets no answer.
const READS: u32 = 4;

/// How long to wait before a read is tried again; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Sends requests again where that can do no harm:
///
/// - reads that the server answered with "try again in so many seconds", that got
///   no answer, or one from a proxy that could not pass them on;
/// - writes that the server has turned away unread, since it had too much to do.
///
/// Any other write is sent once. One without an answer, or with a 5xx, may have
/// taken place, and a 429 that is a Status says something about the object: that
/// its budget allows no eviction, for one. Whoever sent it decides.
///
/// An API server turns requests away before anything looks at them, in plain text
/// (Kubernetes: `apiserver/pkg/server/filters`, `maxinflight.go` and
/// `priority-and-fairness.go`); whatever comes later is refused with a Status.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    random: Random,
}

impl Retries {
    pub(crate) fn new(random: Random) -> Self {
        Retries { random }
    }

    /// How long to wait before sending `request` again, which has failed
    /// `failed` times; `None` to give up.
    pub(super) fn wait(&self, request: &Request, error: &Error, failed: u32) -> Option<Duration> {
        let code = error.code();
        if request.is_write() && !error.was_turned_away() {
            return None;
        }
        if let Some(wait) = error.retry_after()
            && (code == 429 || code >= 500)
        {
            return (failed < TOLD_TO_WAIT).then_some(wait);
        }
        let unanswered = matches!(error, Error::Transport { .. });
        let passing = unanswered || matches!(code, 429 | 502..=504);
        if request.is_write() || !passing || failed >= READS {
            return None;
        }
        let wait = FIRST_WAIT * (1 << (failed - 1));
        Some(wait.mul_f64(1.0 + self.random.fraction()))
    }
}
